//! Which candidate takes an artefact. Pure.

use crate::bindings::exports::farrier::driver::backend_selection::{Candidate, Choice, Request};
use crate::bindings::farrier::driver::types::{Detail, Error};

/// How long a backend is avoided after a publication there failed, if another one can take the artefact.
const LATELY_S: u64 = 300;

/// Whether a setting lets another backend than the first stand in; it does if it is absent.
pub(crate) fn may_fall_back(setting: Option<&str>) -> Result<bool, Error> {
    match setting {
        None | Some("true") => Ok(true),
        Some("false") => Ok(false),
        Some(_) => Err(Error::Invalid(
            "setting `/fall-back` of the backend-selection plugin must be true or false".to_owned(),
        )),
    }
}

/// The ids that a setting names, best first.
pub(crate) fn preference(pointer: &str, setting: &str) -> Result<Vec<String>, Error> {
    if let Ok(one) = serde_json::from_str::<String>(setting) {
        return Ok(vec![one]);
    }
    serde_json::from_str(setting).map_err(|_| {
        Error::Invalid(format!(
            "setting `{pointer}` of the backend-selection plugin must be a backend's id or a list of them"
        ))
    })
}

/// The first preferred candidate that can take the artefact, else the first of all that can; one where publishing failed a
/// moment ago comes after all others. Without `fall_back` it is the first one or none.
pub(crate) fn choose(
    request: &Request,
    candidates: &[Candidate],
    preferred: &[String],
    fall_back: bool,
) -> Result<Choice, Error> {
    let wished = preferred
        .iter()
        .filter_map(|id| candidates.iter().find(|candidate| candidate.id == *id));
    let others = candidates.iter().filter(|candidate| !preferred.contains(&candidate.id));
    let mut order: Vec<&Candidate> = wished.chain(others).collect();
    if !fall_back {
        // A preference that names nothing that is there is no reason to take what was not asked for.
        let first = preferred.first().map_or(order.first().copied(), |id| {
            candidates.iter().find(|candidate| candidate.id == *id)
        });
        return match first {
            Some(first) if obstacle(request, first).is_none() => Ok(Choice {
                backend: first.id.clone(),
                reason: "the only one that the site allows".to_owned(),
            }),
            first => Err(none(request, first.map_or(&[], std::slice::from_ref))),
        };
    }
    // Stable: the order of preference stays within both groups.
    order.sort_by_key(|candidate| failed_lately(candidate));
    let chosen = order.iter().find(|candidate| obstacle(request, candidate).is_none());
    let Some(chosen) = chosen else {
        return Err(none(request, candidates));
    };
    let reason = match preferred.first() {
        Some(id) if *id == chosen.id => "preferred by the site".to_owned(),
        None => "first backend that can take it".to_owned(),
        Some(id) => match candidates.iter().find(|candidate| candidate.id == *id) {
            None => format!("preferred `{id}` is not a backend that this plugin may use"),
            Some(first) => {
                let why = obstacle(request, first);
                format!(
                    "preferred `{id}` {}",
                    why.unwrap_or_else(|| "failed a moment ago".to_owned())
                )
            }
        },
    };
    Ok(Choice {
        backend: chosen.id.clone(),
        reason,
    })
}

/// Publishing failed there so recently that it would probably fail again.
fn failed_lately(candidate: &Candidate) -> bool {
    let ago = candidate.traits.iter().find(|(key, _)| key == "publish-failed-s");
    ago.and_then(|(_, seconds)| seconds.parse::<u64>().ok())
        .is_some_and(|seconds| seconds < LATELY_S)
}

/// Why a candidate cannot take the artefact.
fn obstacle(request: &Request, candidate: &Candidate) -> Option<String> {
    if let Some(free) = candidate.free_bytes.filter(|free| *free < request.size) {
        return Some(format!("has room for {free} bytes, not for {}", request.size));
    }
    match (candidate.max_lifetime_s, request.lifetime_s) {
        (Some(most), Some(wanted)) if wanted > most => {
            return Some(format!("keeps artefacts for {most} s, not for {wanted} s"));
        }
        (Some(most), None) => return Some(format!("keeps artefacts for {most} s only")),
        _ => {}
    }
    if candidate.healthy {
        return None;
    }
    let why = candidate.traits.iter().find(|(key, _)| key == "problem");
    Some(match why {
        Some((_, problem)) => format!("is not usable now ({problem})"),
        None => "is not usable now".to_owned(),
    })
}

fn none(request: &Request, candidates: &[Candidate]) -> Error {
    let reasons: Vec<String> = candidates
        .iter()
        .filter_map(|candidate| Some(format!("`{}` {}", candidate.id, obstacle(request, candidate)?)))
        .collect();
    let message = if reasons.is_empty() {
        "there is no backend that this artefact may be published to".to_owned()
    } else {
        format!("no backend can take this artefact: {}", reasons.join("; "))
    };
    let waits = candidates.iter().any(|candidate| {
        let healthy = Candidate {
            healthy: true,
            ..candidate.clone()
        };
        !candidate.healthy && obstacle(request, &healthy).is_none()
    });
    Error::Other(Detail {
        code: "no-backend".to_owned(),
        message,
        // A backend that is only unwell may be back soon; one that is too small will not grow.
        retry_after_ms: waits.then_some(10_000),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bindings::farrier::driver::types::ArtefactKind;

    fn candidate(id: &str) -> Candidate {
        Candidate {
            id: id.to_owned(),
            kind: "web-root".to_owned(),
            healthy: true,
            free_bytes: None,
            max_lifetime_s: None,
            traits: vec![],
        }
    }

    fn request(size: u64, lifetime_s: Option<u32>) -> Request {
        Request {
            kind: ArtefactKind::Floppy,
            size,
            lifetime_s,
        }
    }

    fn chosen(request: &Request, candidates: &[Candidate], preferred: &[&str]) -> String {
        let preferred: Vec<String> = preferred.iter().map(|id| (*id).to_owned()).collect();
        match choose(request, candidates, &preferred, true) {
            Ok(choice) => choice.backend,
            Err(Error::Other(detail)) => format!("{}, again after {:?}", detail.message, detail.retry_after_ms),
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_preferred_backend_wins_if_it_can_take_the_artefact() {
        let small = Candidate {
            free_bytes: Some(10),
            ..candidate("small")
        };
        let brief = Candidate {
            max_lifetime_s: Some(900),
            ..candidate("brief")
        };
        let ill = Candidate {
            healthy: false,
            ..candidate("ill")
        };
        let all = [ill, small, brief, candidate("big")];
        for (size, lifetime, preferred, expected) in [
            (1, Some(60), vec![], "small"),
            (1, Some(60), vec!["brief"], "brief"),
            (100, Some(60), vec!["small"], "brief"),
            (100, Some(1800), vec!["brief"], "big"),
            (100, None, vec!["brief"], "big"),
            (1, Some(60), vec!["ill", "big"], "big"),
            (1, Some(60), vec!["gone"], "small"),
        ] {
            assert_eq!(chosen(&request(size, lifetime), &all, &preferred), expected);
        }
    }

    #[test]
    fn a_refusal_names_each_backend_and_says_whether_waiting_helps() {
        let ill = Candidate {
            healthy: false,
            ..candidate("ill")
        };
        let full = Candidate {
            traits: vec![("problem".to_owned(), "no room left".to_owned())],
            ..ill.clone()
        };
        assert_eq!(
            chosen(&request(100, None), &[full], &[]),
            "no backend can take this artefact: `ill` is not usable now (no room left), again after Some(10000)"
        );
        let small = Candidate {
            free_bytes: Some(10),
            ..candidate("small")
        };
        assert_eq!(
            chosen(&request(100, None), &[ill, small.clone()], &[]),
            "no backend can take this artefact: `ill` is not usable now; `small` has room for 10 bytes, not for 100, again after Some(10000)"
        );
        assert_eq!(
            chosen(&request(100, None), &[small], &[]),
            "no backend can take this artefact: `small` has room for 10 bytes, not for 100, again after None"
        );
        let nothing = chosen(&request(100, None), &[], &[]);
        assert!(nothing.starts_with("there is no backend"), "{nothing}");
    }

    fn failed(id: &str, seconds: &str) -> Candidate {
        Candidate {
            traits: vec![("publish-failed-s".to_owned(), seconds.to_owned())],
            ..candidate(id)
        }
    }

    #[test]
    fn a_backend_where_publishing_failed_a_moment_ago_is_the_last_resort() {
        let all = [failed("a", "10"), candidate("b"), failed("c", "9999"), failed("d", "x")];
        for (preferred, expected) in [(vec![], "b"), (vec!["a"], "b"), (vec!["a", "c"], "c"), (vec!["d"], "d")] {
            assert_eq!(chosen(&request(1, None), &all, &preferred), expected, "{preferred:?}");
        }
        assert_eq!(chosen(&request(1, None), &all[..1], &[]), "a");
        let choice = choose(&request(1, None), &all, &["a".to_owned()], true).unwrap();
        assert_eq!(choice.reason, "preferred `a` failed a moment ago");
    }

    #[test]
    fn without_falling_back_it_is_the_first_or_none() {
        let ill = Candidate {
            healthy: false,
            ..candidate("ill")
        };
        let all = [ill, candidate("well")];
        let strict = |preferred: &[&str]| {
            let preferred: Vec<String> = preferred.iter().map(|id| (*id).to_owned()).collect();
            choose(&request(1, None), &all, &preferred, false).map(|choice| choice.backend)
        };
        assert_eq!(strict(&["well"]).unwrap(), "well");
        for refused in [strict(&[]), strict(&["ill", "well"]), strict(&["gone"])] {
            assert!(
                matches!(&refused, Err(Error::Other(detail)) if detail.code == "no-backend"),
                "{refused:?}"
            );
        }
        assert!(may_fall_back(None).unwrap() && !may_fall_back(Some("false")).unwrap());
        assert!(matches!(may_fall_back(Some("7")), Err(Error::Invalid(_))));
    }

    #[test]
    fn a_preference_is_one_id_or_a_list() {
        assert_eq!(preference("/prefer", "\"a\"").unwrap(), ["a"]);
        assert_eq!(preference("/prefer", "[\"a\",\"b\"]").unwrap(), ["a", "b"]);
        assert!(matches!(preference("/prefer", "7"), Err(Error::Invalid(_))));
    }
}
