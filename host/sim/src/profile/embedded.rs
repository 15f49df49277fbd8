//! The profile files that come with the simulator, and others like them.

use std::path::Path;
use std::sync::LazyLock;

use toml::{Table, Value};

use super::Profile;
use crate::error::SimError;

/// A profile file may not be bigger than this.
const FILE_CAP: u64 = 256 << 10;
/// How many profiles may build on each other.
const DEPTH: usize = 8;

/// Each file by its name, in the order of the list that is shown.
static FILES: &[(&str, &str)] = &[
    ("ilo2", include_str!("../../profiles/ilo2.toml")),
    ("ilo3", include_str!("../../profiles/ilo3.toml")),
    ("ilo4", include_str!("../../profiles/ilo4.toml")),
    ("ilo4-ris", include_str!("../../profiles/ilo4-ris.toml")),
    ("ilo5", include_str!("../../profiles/ilo5.toml")),
    ("ilo6", include_str!("../../profiles/ilo6.toml")),
    ("ilo7", include_str!("../../profiles/ilo7.toml")),
    ("generic", include_str!("../../profiles/generic.toml")),
    ("dell", include_str!("../../profiles/dell.toml")),
    ("supermicro", include_str!("../../profiles/supermicro.toml")),
    ("lenovo", include_str!("../../profiles/lenovo.toml")),
    ("ami", include_str!("../../profiles/ami.toml")),
];

static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| match read(text) {
        Ok(profile) => profile,
        // A test reads every file, so none that ships is wrong.
        Err(reason) => unreachable!("the built-in profile {name}: {reason}"),
    };
    FILES.iter().map(read).collect()
});

impl Profile {
    /// The profile of that name.
    pub fn by_name(name: &str) -> Option<&'static Self> {
        PROFILES.iter().find(|profile| profile.name == name)
    }

    /// HPE iLO 5, which a simulator is unless told otherwise.
    pub fn ilo5() -> &'static Self {
        Self::by_name("ilo5").unwrap_or(&PROFILES[0])
    }

    /// Names of all profiles that come with the simulator.
    pub fn names() -> Vec<&'static str> {
        FILES.iter().map(|(name, _)| *name).collect()
    }

    /// A profile of one's own, which may say `like = "NAME"` of one that comes with the simulator. It stays for the life of the process.
    pub fn parse(text: &str) -> Result<&'static Self, SimError> {
        let profile = read(text).map_err(SimError::Profile)?;
        Ok(Box::leak(Box::new(profile)))
    }

    /// The same from a file of at most 256 KiB.
    pub fn load(path: &Path) -> Result<&'static Self, SimError> {
        let wrong = |reason: String| SimError::Profile(format!("{}: {reason}", path.display()));
        let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if size > FILE_CAP {
            return Err(wrong(format!("{size} bytes; at most {FILE_CAP} are read")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        read(&text).map(|profile| &*Box::leak(Box::new(profile))).map_err(wrong)
    }
}

fn read(text: &str) -> Result<Profile, String> {
    let table = resolved(text, DEPTH)?;
    let profile = Profile::deserialize_table(table)?;
    profile.check()?;
    Ok(profile)
}

/// The table with what it builds on under it.
fn resolved(text: &str, depth: usize) -> Result<Table, String> {
    let mut table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
    let Some(like) = table.remove("like") else {
        return Ok(table);
    };
    let like = like.as_str().unwrap_or_default();
    let (_, below) = FILES.iter().find(|(name, _)| *name == like).ok_or_else(|| {
        format!(
            "like = \"{like}\": there is no such profile; known are {}",
            Profile::names().join(", ")
        )
    })?;
    if depth == 0 {
        return Err("profiles build on each other in a circle".into());
    }
    let mut whole = resolved(below, depth - 1)?;
    overlay(&mut whole, table);
    Ok(whole)
}

/// Tables are merged by key, all else is replaced.
fn overlay(below: &mut Table, above: Table) {
    for (key, value) in above {
        match (below.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => overlay(below, above),
            (_, value) => drop(below.insert(key, value)),
        }
    }
}

impl Profile {
    fn deserialize_table(table: Table) -> Result<Self, String> {
        Value::Table(table)
            .try_into()
            .map_err(|error: toml::de::Error| error.to_string())
    }

    /// What no type can say.
    fn check(&self) -> Result<(), String> {
        if self.protocols.is_empty() {
            return Err("protocols is empty: it must speak something".into());
        }
        if let Some(slot) = self
            .slots
            .iter()
            .find(|slot| slot.id.is_empty() || slot.id.contains('/'))
        {
            return Err(format!("{:?} is no slot id", slot.id));
        }
        if self.session_cap == 0 {
            return Err("session-cap is 0: nobody could log in".into());
        }
        let reads = &self.media_client;
        if reads.least == 0 || reads.most < reads.least {
            return Err("media-client: least must be at least 1 and at most `most`".into());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Device, Protocol};

    #[test]
    fn every_file_is_a_profile_that_bears_its_name() {
        for (name, text) in FILES {
            let profile = read(text).unwrap_or_else(|reason| panic!("{name}: {reason}"));
            assert_eq!(profile.name, *name);
            assert!(!profile.about.is_empty(), "{name}");
            assert!(profile.slot_for(Device::Cd).is_some(), "{name} has a slot for a CD");
            assert!(Profile::by_name(name).is_some());
        }
        assert_eq!(Profile::names().len(), 12);
        assert_eq!(Profile::ilo5().name, "ilo5");
    }

    #[test]
    fn a_profile_of_ones_own_holds_only_what_differs() {
        let own = Profile::parse("like = 'ilo5'\nname = 'mine'\nprotocols = ['redfish']\n[url]\nlongest = 80").unwrap();
        let ilo5 = Profile::ilo5();
        assert_eq!((own.url.longest, own.name.as_str()), (80, "mine"));
        assert_eq!((&own.model, &own.url.schemes), (&ilo5.model, &ilo5.url.schemes));
        assert!(ilo5.speaks(Protocol::Ribcl) && !own.speaks(Protocol::Ribcl));
    }

    #[test]
    fn what_is_no_profile_is_refused_with_a_reason() {
        for (text, reason) in [
            ("like = 'ilo5'\nprotocls = []", "protocls"),
            ("like = 'ilo99'", "known are ilo2"),
            ("name = 'x'", "missing field"),
            ("like = 'ilo5'\nprotocols = []", "speak something"),
            ("like = 'ilo5'\nsession-cap = 0", "log in"),
            ("like = 'ilo5'\n[media-client]\nleast = 0", "media-client"),
            ("x = ", "line 1"),
        ] {
            let error = Profile::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{text}: {error}");
        }
    }
}
