//! Grants as sets: what two have together, and what one lacks of another.

use std::collections::BTreeSet;

use super::functions::{BMC, Functions, IMAGE, POWER, STATE, STORAGE, VMEDIA_SERVICE};
use super::{Grants, ImageGrant, RawGrant, StorageGrant};
use crate::glob;

impl Grants {
    /// Whether it allows nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The functions in it by their whole names ("bmc.eject"); raw requests as the two functions that they are.
    pub fn functions(&self) -> Vec<String> {
        let named = |interface: &'static str, functions: &Functions| -> Vec<String> {
            functions.0.iter().map(|name| format!("{interface}.{name}")).collect()
        };
        let mut all = named("state", &self.state);
        all.extend(named("image", &self.image.functions));
        all.extend(named("storage", &self.storage.functions));
        all.extend(named("bmc", &self.bmc));
        all.extend(named("power", &self.power));
        all.extend(named("vmedia-service", &self.vmedia_service));
        if !self.bmc_raw.methods.is_empty() {
            all.push("bmc-raw.redfish".to_owned());
        }
        if !self.bmc_raw.ribcl.is_empty() {
            all.push("bmc-raw.ribcl".to_owned());
        }
        all
    }

    /// Adds a function by its whole name ("bmc.eject"). The error says which names there are. Raw requests are no such
    /// names: what they may be is said by method and path, or by command.
    pub fn add(&mut self, name: &str) -> Result<(), String> {
        let (interface, function) = name.split_once('.').unwrap_or((name, ""));
        let (known, functions) = match interface {
            "state" => (STATE, &mut self.state),
            "image" => (IMAGE, &mut self.image.functions),
            "storage" => (STORAGE, &mut self.storage.functions),
            "bmc" => (BMC, &mut self.bmc),
            "power" => (POWER, &mut self.power),
            "vmedia-service" => (VMEDIA_SERVICE, &mut self.vmedia_service),
            "bmc-raw" => return Err(format!("`{name}` is asked for by method and path, or by command")),
            _ => {
                return Err(format!(
                    "there is no interface `{interface}` whose functions are granted"
                ));
            }
        };
        let found = known.iter().copied().find(|known| *known == function);
        let found = found.ok_or_else(|| format!("unknown function `{name}`; known are: {}", known.join(", ")))?;
        functions.0.insert(found);
        Ok(())
    }

    /// What either allows.
    pub fn union(&self, other: &Self) -> Self {
        let both = |left: &Functions, right: &Functions| Functions(left.0.union(&right.0).copied().collect());
        Self {
            state: both(&self.state, &other.state),
            image: ImageGrant {
                functions: both(&self.image.functions, &other.image.functions),
                sources: together(&self.image.sources, &other.image.sources),
            },
            storage: self.storage.union(&other.storage),
            secrets: self.secrets.union(&other.secrets).cloned().collect(),
            bmc: both(&self.bmc, &other.bmc),
            power: both(&self.power, &other.power),
            bmc_raw: RawGrant {
                methods: self.bmc_raw.methods.union(&other.bmc_raw.methods).cloned().collect(),
                paths: together(&self.bmc_raw.paths, &other.bmc_raw.paths),
                ribcl: self.bmc_raw.ribcl.union(&other.bmc_raw.ribcl).cloned().collect(),
            },
            vmedia_service: both(&self.vmedia_service, &other.vmedia_service),
        }
    }

    /// Takes out the functions that the other does not have. Scopes stay: a call is held against both.
    pub fn keep_only(&mut self, other: &Self) {
        let keep = |own: &mut Functions, other: &Functions| own.0.retain(|name| other.has(name));
        keep(&mut self.state, &other.state);
        keep(&mut self.image.functions, &other.image.functions);
        keep(&mut self.storage.functions, &other.storage.functions);
        keep(&mut self.bmc, &other.bmc);
        keep(&mut self.power, &other.power);
        keep(&mut self.vmedia_service, &other.vmedia_service);
        self.secrets.retain(|name| other.secrets.contains(name));
        self.bmc_raw.methods.retain(|name| other.bmc_raw.methods.contains(name));
        self.bmc_raw.ribcl.retain(|name| other.bmc_raw.ribcl.contains(name));
    }

    /// What it has of this that `granted` does not allow, each by the name that a denial has. Patterns are compared by what
    /// they match, as far as that can be told without a text.
    pub fn gaps(&self, granted: &Self) -> Vec<String> {
        let has = granted.functions();
        let mut gaps: Vec<String> = self.functions();
        // Raw requests are told by their methods, paths and commands below.
        gaps.retain(|name| !has.contains(name) && !name.starts_with("bmc-raw"));
        let mut lacks = |what: &str, missing: Vec<&String>| {
            gaps.extend(missing.into_iter().map(|name| format!("{what}: {name}")));
        };
        lacks("image.sources", uncovered(&self.image.sources, &granted.image.sources));
        if let (Some(wanted), Some(allowed)) = (&self.storage.backends, &granted.storage.backends) {
            lacks("storage.backends", wanted.difference(allowed).collect());
        }
        lacks("secrets", self.secrets.difference(&granted.secrets).collect());
        let raw = &granted.bmc_raw;
        lacks(
            "bmc-raw.methods",
            self.bmc_raw.methods.difference(&raw.methods).collect(),
        );
        lacks("bmc-raw.paths", uncovered(&self.bmc_raw.paths, &raw.paths));
        lacks("bmc-raw.ribcl", self.bmc_raw.ribcl.difference(&raw.ribcl).collect());
        if let (Some(wanted), Some(allowed)) = (self.storage.max_lifetime_s, granted.storage.max_lifetime_s)
            && wanted > allowed
        {
            gaps.push(format!("storage.max-lifetime-s: {wanted}"));
        }
        gaps
    }
}

impl StorageGrant {
    fn union(&self, other: &Self) -> Self {
        // One that says nothing bounds nothing.
        if *self == Self::default() {
            return other.clone();
        }
        if *other == Self::default() {
            return self.clone();
        }
        let lifetimes = self.max_lifetime_s.zip(other.max_lifetime_s);
        Self {
            functions: Functions(self.functions.0.union(&other.functions.0).copied().collect()),
            backends: match (&self.backends, &other.backends) {
                (Some(left), Some(right)) => Some(left.union(right).cloned().collect::<BTreeSet<_>>()),
                _ => None,
            },
            max_lifetime_s: lifetimes.map(|(left, right)| left.max(right)),
        }
    }
}

fn together(left: &[String], right: &[String]) -> Vec<String> {
    let mut all = left.to_vec();
    all.extend(right.iter().filter(|pattern| !left.contains(pattern)).cloned());
    all
}

fn uncovered<'a>(wanted: &'a [String], allowed: &[String]) -> Vec<&'a String> {
    let covered = |pattern: &&String| allowed.iter().any(|wider| glob::covers(wider, pattern));
    wanted.iter().filter(|pattern| !covered(pattern)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grants(json: &str) -> Grants {
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn every_gap_is_listed_by_name() {
        let wanted = grants(
            r#"{"bmc":["insert","eject"],"storage":{"functions":["publish"],"backends":["local","swift"],"max-lifetime-s":7200},
                "secrets":["site-key"],"image":{"functions":[],"sources":["https://a.example/x/*","https://b.example/**"]},
                "bmc-raw":{"methods":["GET","POST"],"paths":["/redfish/v1/Managers/*"],"ribcl":["GET_VM_STATUS"]}}"#,
        );
        assert_eq!(wanted.gaps(&wanted), Vec::<String>::new());
        let granted = grants(
            r#"{"bmc":["insert"],"storage":{"backends":["local"],"max-lifetime-s":3600},
                "image":{"sources":["https://a.example/**"]},"bmc-raw":{"methods":["GET"],"paths":["/redfish/v1/**"]}}"#,
        );
        assert_eq!(
            wanted.gaps(&granted),
            [
                "bmc.eject",
                "image.sources: https://b.example/**",
                "storage.backends: swift",
                "secrets: site-key",
                "bmc-raw.methods: POST",
                "bmc-raw.ribcl: GET_VM_STATUS",
                "storage.max-lifetime-s: 7200",
            ]
        );
        assert_eq!(wanted.gaps(&Grants::default()).len(), 10);
    }

    #[test]
    fn a_union_has_what_either_has_and_bounds_what_both_bound() {
        let left = grants(r#"{"bmc":["insert"],"storage":{"functions":["find"],"backends":["a"],"max-lifetime-s":5}}"#);
        let right = grants(r#"{"bmc":["eject"],"storage":{"functions":["publish"],"backends":["b"]}}"#);
        let both = left.union(&right);
        assert_eq!(
            both.functions(),
            ["storage.find", "storage.publish", "bmc.eject", "bmc.insert"]
        );
        assert_eq!(both.storage.backends, Some(["a".to_owned(), "b".to_owned()].into()));
        assert_eq!(both.storage.max_lifetime_s, None, "one of them has no bound");
        assert_eq!(left.union(&Grants::default()), left);
        assert_eq!(Grants::default().union(&left), left);
        assert!(left.gaps(&both).is_empty() && right.gaps(&both).is_empty());
    }

    #[test]
    fn grants_read_back_as_they_were_written() {
        for json in [
            "{}",
            r#"{"bmc":["insert"],"image":{"functions":[],"sources":["x"]}}"#,
            r#"{"storage":{"backends":["a"],"max-lifetime-s":5},"secrets":["s"],"power":["set"],"state":["get"]}"#,
            r#"{"bmc-raw":{"methods":["GET"],"paths":["/a/*"],"ribcl":["X"]},"vmedia-service":["attach"]}"#,
        ] {
            let read = grants(json);
            let written = serde_json::to_string(&read).unwrap();
            assert_eq!(grants(&written), read, "{written}");
        }
        assert_eq!(serde_json::to_string(&Grants::default()).unwrap(), "{}");
    }

    #[test]
    fn functions_are_added_by_their_whole_names() {
        let mut asked = Grants::default();
        for name in ["bmc.eject", "state.get", "vmedia-service.attach"] {
            asked.add(name).unwrap();
        }
        assert_eq!(asked.functions(), ["state.get", "bmc.eject", "vmedia-service.attach"]);
        assert!(asked.add("bmc.explode").unwrap_err().contains("media-state"));
        assert!(asked.add("bmc-raw.redfish").unwrap_err().contains("by method and path"));
        assert!(asked.add("log.event").unwrap_err().contains("no interface `log`"));
    }
}
