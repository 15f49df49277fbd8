//! The world behaves as the live one does.

use std::time::{Duration, UNIX_EPOCH};

use model::{ArtefactKind, Device};
use runtime::{Candidate, FloppySpec, HostCall, InsertOptions, LocationHandle, Placement, Renewal};

use super::*;

fn backend(id: &str) -> Candidate {
    Candidate {
        id: id.to_owned(),
        kind: "embedded".to_owned(),
        healthy: true,
        free_bytes: None,
        max_lifetime_s: None,
        traits: vec![],
    }
}

fn machine() -> Machine {
    let ill = Candidate {
        healthy: false,
        ..backend("ill")
    };
    let small = Candidate {
        free_bytes: Some(10),
        ..backend("small")
    };
    Machine::new(7, UNIX_EPOCH, vec![backend("local"), ill, small])
}

fn floppy(machine: &mut Machine, label: &str) -> ImageInfo {
    let spec = FloppySpec {
        label: Some(label.to_owned()),
        ..FloppySpec::default()
    };
    let handles = Handles {
        image: None,
        location: None,
    };
    match machine.perform(&HostCall::BuildFloppy { spec }, "p", &handles, UNIX_EPOCH) {
        Ok(Outcome::Image(info)) => info,
        _ => panic!("no image"),
    }
}

fn insert(machine: &mut Machine, location: &Location, now: SystemTime) -> Result<Outcome, DriverError> {
    let call = HostCall::Insert {
        device: Device::Floppy,
        location: LocationHandle(1),
        options: InsertOptions {
            write_protected: true,
            ..InsertOptions::default()
        },
    };
    let handles = Handles {
        image: None,
        location: Some(location),
    };
    machine.perform(&call, "p", &handles, now)
}

#[test]
fn the_same_bytes_keep_their_url_and_other_bytes_take_another() {
    let mut machine = machine();
    let first = floppy(&mut machine, "a");
    assert_eq!(first, floppy(&mut machine, "a"));
    let (one, _) = machine.publish(&first, 60, "local", UNIX_EPOCH).unwrap();
    let (again, _) = machine.publish(&first, 600, "local", UNIX_EPOCH).unwrap();
    assert_eq!(one.url, again.url);
    assert!(matches!(machine.place(&first, 60, UNIX_EPOCH), Place::Published(_)));
    // It would end too soon, so it is published again where it is.
    let longer = machine.place(&first, 601, UNIX_EPOCH);
    assert!(matches!(longer, Place::Other(Placement::Again { backend, .. }) if backend == "local"));
    let other = floppy(&mut machine, "b");
    let placed = machine.place(&other, 60, UNIX_EPOCH);
    assert!(matches!(placed, Place::Other(Placement::Choose { replaces: true, .. })));
    let (new, _) = machine.publish(&other, 60, "local", UNIX_EPOCH).unwrap();
    assert_ne!(new.url, one.url);
    assert!(insert(&mut machine, &new, UNIX_EPOCH).is_ok());
    // What was replaced is served no more.
    let error = insert(&mut machine, &one, UNIX_EPOCH).err().unwrap();
    assert_eq!(error.cause(), "bmc-refused");
}

#[test]
fn backends_refuse_what_they_cannot_take() {
    let mut machine = machine();
    let image = floppy(&mut machine, "a");
    for (backend, cause) in [("ill", "unreachable"), ("small", "storage-full"), ("gone", "not-found")] {
        let error = machine.publish(&image, 60, backend, UNIX_EPOCH).err().unwrap();
        assert_eq!(error.cause(), cause, "{backend}");
    }
    assert!(machine.artefacts.is_empty());
}

#[test]
fn what_has_expired_is_neither_found_nor_inserted_until_it_is_renewed() {
    let mut machine = machine();
    let image = floppy(&mut machine, "a");
    let (location, _) = machine.publish(&image, 60, "local", UNIX_EPOCH).unwrap();
    let later = UNIX_EPOCH + Duration::from_secs(61);
    assert!(machine.located(ArtefactKind::Floppy, later).is_none());
    assert!(insert(&mut machine, &location, later).is_err());
    assert_eq!(machine.renew(&location, 60, later), Renewal::Extended);
    assert!(insert(&mut machine, &location, later).is_ok());
    machine.artefacts.clear();
    assert_eq!(machine.renew(&location, 60, later), Renewal::NotPossible);
}

#[test]
fn values_are_set_by_those_who_know_their_version() {
    let mut machine = machine();
    machine.kept.insert("n".to_owned(), "1".to_owned());
    machine.open("p");
    assert_eq!(machine.state_of("p", "n").unwrap().version, 1);
    assert_eq!(machine.put("p", "n", "2", None).unwrap_err().cause(), "conflict");
    assert_eq!(machine.put("p", "n", "2", Some(1)).unwrap(), 2);
    assert_eq!(machine.put("q", "n", "x", None).unwrap(), 1);
    assert_eq!(machine.view()["state"]["n"], "x");
}

#[test]
fn redfish_resources_are_read_changed_and_missed() {
    let mut machine = machine();
    machine
        .redfish
        .insert("/redfish/v1/a".to_owned(), json!({"A": 1, "B": {"C": 2}}));
    let reply = machine
        .redfish("PATCH", "/redfish/v1/a", Some(r#"{"A": null, "B": {"D": 3}}"#))
        .unwrap();
    assert_eq!((reply.status, reply.body.as_str()), (200, r#"{"B":{"C":2,"D":3}}"#));
    assert_eq!(machine.redfish("GET", "/redfish/v1/b", None).unwrap().status, 404);
    assert!(machine.redfish("PATCH", "/redfish/v1/a", Some("{")).is_err());
}

#[test]
fn names_look_random_and_are_the_same_each_time() {
    let names = |seed: u64| {
        let mut names = Names(seed);
        [names.next(), names.next(), names.next()]
    };
    assert_eq!(names(7), names(7));
    assert_ne!(names(7), names(8));
    // The generator's published first value for the seed 0.
    assert_eq!(names(0)[0], 0xe220_a839_7b1d_cdaf);
}
