//! Every grant is taken away in turn. A plugin that cannot do without one is refused when it is loaded or meets `denied`;
//! either way it must leave a world in which a run with all grants ends as if nothing had been.

use std::collections::BTreeSet;

use runtime::{Grants, LoadError, Runtime};
use serde_json::{Value as Json, json};

use super::{Base, Swept, Tally, try_it};
use crate::reply::typed;
use crate::scenario::Case;
use crate::stage::Runtimes;

pub(super) async fn sweep(stage: &Runtimes, runtime: &Runtime, case: &Case, base: &Base) -> Result<Swept, LoadError> {
    let mut sweep = Tally::new("grants");
    let granted = case.grants.clone();
    let granted = granted.unwrap_or_else(|| Grants::default_of(case.invocation.role()));
    for (name, fewer) in without_one(&granted) {
        let about = || format!("without `{name}`");
        let poorer = match stage.with_grants(case, fewer).await {
            Ok(poorer) => poorer,
            // The plugin says itself that it cannot do without.
            Err(LoadError::Gaps { .. }) => {
                sweep.add(vec![], BTreeSet::new(), about);
                continue;
            }
            Err(error) => return Err(error),
        };
        let (problems, met) = try_it(&poorer, runtime, case, base, vec![]).await;
        sweep.add(problems, met, about);
    }
    Ok(sweep.end())
}

/// The grants less one function, pattern, backend or name each, with what was taken away.
fn without_one(grants: &Grants) -> Vec<(String, Grants)> {
    let Ok(Json::Object(all)) = serde_json::to_value(grants) else {
        return vec![];
    };
    let mut fewer = Vec::new();
    for (interface, granted) in &all {
        let lists: Vec<(String, &Vec<Json>)> = match granted {
            Json::Array(list) => vec![(format!("/{interface}"), list)],
            Json::Object(map) => map
                .iter()
                .filter_map(|(key, value)| Some((format!("/{interface}/{key}"), value.as_array()?)))
                .collect(),
            _ => vec![],
        };
        for (pointer, list) in lists {
            for (index, function) in list.iter().enumerate() {
                let mut less = Json::Object(all.clone());
                if let Some(Json::Array(list)) = less.pointer_mut(&pointer) {
                    list.remove(index);
                }
                let name = function.as_str().unwrap_or_default();
                let path = pointer
                    .trim_start_matches('/')
                    .replace("/functions", "")
                    .replace('/', ".");
                if let Ok(less) = typed::<Grants>(less) {
                    fewer.push((format!("{path}.{name}"), less));
                }
            }
        }
    }
    fewer.extend(json_of_nothing());
    fewer
}

/// And once without any.
fn json_of_nothing() -> Option<(String, Grants)> {
    Some(("all grants".to_owned(), typed(json!({})).ok()?))
}

#[cfg(test)]
mod tests {
    use runtime::Role;

    use super::*;

    #[test]
    fn each_function_is_taken_away_once() {
        let all = Grants::default_of(Role::Vmedia);
        let fewer = without_one(&all);
        let names: BTreeSet<&str> = fewer.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names.len(), fewer.len());
        for name in [
            "bmc.eject",
            "storage.publish",
            "state.put",
            "image.build-floppy",
            "vmedia-service.attach",
            "all grants",
        ] {
            assert!(names.contains(name), "{name} of {names:?}");
        }
        assert!(fewer.iter().all(|(_, less)| *less != all));
        let scoped = serde_json::from_value::<Grants>(json!({
            "storage": {"functions": ["publish"], "backends": ["a", "b"]}, "bmc-raw": {"methods": ["GET"], "paths": ["/x"]},
        }));
        let names: Vec<String> = without_one(&scoped.unwrap())
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert_eq!(names.len(), 6, "{names:?}");
    }
}
