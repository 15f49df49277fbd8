use super::*;

fn asked<'a>(method: &'a str, path: &'a str, body: &'a str) -> Asked<'a> {
    Asked {
        server: 0,
        method,
        path,
        body: body.as_bytes(),
    }
}

#[test]
fn a_star_stands_for_any_run_of_characters() {
    for (pattern, path, want) in [
        ("/a/*/c", "/a/b/c", true),
        ("/a/*/c", "/a/b/d/c/", true),
        ("/a/*/c", "/a/c", false),
        ("/a*", "/a", true),
        ("*", "/x", true),
        ("/a", "/a/b", false),
        ("/A/b", "/a/B", true),
        ("*x*x", "/x", false),
    ] {
        assert_eq!(glob(pattern, path), want, "{pattern} on {path}");
    }
}

#[test]
fn a_rule_skips_then_applies_then_is_spent() {
    let faults = Faults::parse("[[rule]]\nskip = 1\ntimes = 2\nstatus = 500").unwrap();
    let hits: Vec<bool> = (0..5)
        .map(|_| faults.apply(&asked("GET", "/x", "")).is_some())
        .collect();
    assert_eq!(hits, [false, true, true, false, false]);
    assert_eq!(faults.applied(), [("rule 1".to_owned(), 2)]);
}

#[test]
fn a_rule_meets_what_it_names_and_nothing_else() {
    let rule = |text: &str| Faults::parse(&format!("[[rule]]\nhang = true\n{text}")).unwrap();
    let meets = |faults: &Faults, method, path, body| faults.apply(&asked(method, path, body)).is_some();
    let faults = rule("method = 'post'\npath = '/ribcl/*'\ncontains = 'DEVICE=\"CDROM\"'");
    assert!(meets(&faults, "POST", "/ribcl/EJECT", "<E DEVICE=\"CDROM\"/>"));
    assert!(!meets(&faults, "GET", "/ribcl/EJECT", "<E DEVICE=\"CDROM\"/>"));
    assert!(!meets(&faults, "POST", "/ribcl/EJECT", "<E DEVICE=\"FLOPPY\"/>"));
    assert!(!meets(&faults, "POST", "/redfish/v1", "<E DEVICE=\"CDROM\"/>"));
    assert!(!meets(&rule("server = 1"), "GET", "/", ""));

    let media = rule("on = 'media'\ndevice = 'cd'\npath = '*.iso'");
    assert!(!meets(&media, "GET", "/x.iso", ""), "no request to the BMC");
    assert!(media.apply_to_read(0, Device::Cd, "GET", "/x.iso").is_some());
    assert!(media.apply_to_read(0, Device::Floppy, "GET", "/x.iso").is_none());
    assert!(media.apply_to_read(0, Device::Cd, "GET", "/x.img").is_none());
    assert!(rule("").apply_to_read(0, Device::Cd, "GET", "/x.iso").is_none());
}

#[test]
fn each_effect_can_be_written() {
    for (text, want) in [
        ("delay-ms = 3", Effect::None),
        ("hang = true", Effect::Hang),
        ("drop = true\ndelay-ms = 3", Effect::Drop),
        ("reset = 'request'", Effect::Reset(ResetAt::Request)),
        ("reset = 'answer'", Effect::Reset(ResetAt::Answer)),
        ("truncate = 7", Effect::Truncate(7)),
        ("split = 7", Effect::Split(7)),
        ("content = 'garbage'", Effect::Content(Content::Garbage)),
        ("content = 'wrong-type'", Effect::Content(Content::WrongType)),
        ("stale = true", Effect::Stale),
        ("stale-inserted-ms = 3", Effect::StaleInserted(Duration::from_millis(3))),
        ("session-table-full = true", Effect::SessionTableFull),
        ("not-mounted = true", Effect::NotMounted),
        ("bmc-reset = true", Effect::BmcReset),
        ("clock-skew-s = -7", Effect::ClockSkew(-7)),
        (
            "status = 503\nbody = 'x'\nheaders = { Retry-After = '1' }",
            Effect::Answer {
                status: 503,
                body: AnswerBody::Text("x".into()),
                headers: vec![("Retry-After".into(), "1".into())],
            },
        ),
    ] {
        let faults = Faults::parse(&format!("[[rule]]\n{text}")).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(faults.apply(&asked("GET", "/", "")).unwrap().effect, want, "{text}");
    }
}

#[test]
fn rules_that_say_nothing_or_too_much_are_refused_with_line_and_reason() {
    for (text, reason) in [
        ("server = 1", "has no effect"),
        ("status = 500\nhang = true", "both status and hang"),
        ("bmc-reset = true\nsplit = 1", "both bmc-reset and split"),
        ("status = 99", "status 99"),
        ("body = 'x'\nhang = true", "need a status"),
        ("headers = { a = 'b' }\nhang = true", "need a status"),
        ("status = 500\nbody = 'x'\nmessage = 'y'", "not both"),
        ("status = 500\nheaders = { 'a b' = 'c' }", "no HTTP header"),
        ("hang = true\npath = 'x'", "must start with"),
        ("hang = true\nmethod = 'GET /'", "is no method"),
        ("hang = true\ncontains = ''", "leave it out"),
        ("hang = true\ntimes = 0", "never apply"),
        ("hang = true\ndevice = 'cd'", "on = \"media\""),
        ("on = 'media'\ncontains = 'x'\nhang = true", "have no body"),
        ("on = 'media'\nstatus = 500", "take only"),
        ("delay-ms = 86400001", "more than a day"),
        ("hangs = true", "hangs"),
        ("reset = 'never'", "never"),
        ("on = 'disk'\nhang = true", "disk"),
        ("hang = 3", "hang"),
    ] {
        let error = Faults::parse(&format!("[[rule]]\nhang = true\n\n[[rule]]\n{text}\n"))
            .unwrap_err()
            .to_string();
        assert!(error.contains(reason), "{text}: {error}");
        assert!(
            error.contains("line 4") || error.contains("line 5") || error.contains("line 6"),
            "{text}: {error}"
        );
    }
    let named = Faults::parse("[[rule]]\nname = 'lost'\n").unwrap_err().to_string();
    assert!(named.contains("line 1: lost: has no effect"), "{named}");
}

#[test]
fn a_file_that_is_missing_or_huge_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("faults.toml");
    let missing = Faults::load(&path).unwrap_err().to_string();
    assert!(missing.contains("faults.toml"), "{missing}");
    std::fs::write(&path, vec![b'#'; (1 << 20) + 1]).unwrap();
    let huge = Faults::load(&path).unwrap_err().to_string();
    assert!(huge.contains("faults.toml") && huge.contains("1048577 bytes"), "{huge}");
}

#[test]
fn a_stale_rule_remembers_each_read_of_each_server_apart() {
    let faults = Faults::parse("[[rule]]\nstale = true").unwrap();
    let say = |server, path, now: u32| {
        let applied = faults.apply(&asked("GET", path, "")).unwrap();
        applied.stale(server, path, Value::from(now))
    };
    assert_eq!(
        [say(0, "/a", 1), say(0, "/a", 2), say(0, "/b", 3), say(1, "/a", 4)],
        [1, 1, 3, 4]
    );
}

#[test]
fn spoiled_content_is_what_it_is_called() {
    let body = br#"{"PowerState": "On", "Id": "1"}"#;
    let json = |content: Content| serde_json::from_slice::<Value>(&content.spoil(body, "application/json").0);
    for content in [Content::Garbage, Content::Html, Content::Empty, Content::Unfinished] {
        assert!(json(content).is_err(), "{content:?}");
    }
    assert!(json(Content::WrongType).is_ok());
    assert_eq!(Content::WrongType.spoil(body, "application/json").1, "image/png");
    assert_eq!(Content::Garbage.spoil(body, "x").0.len(), body.len());
    assert!(std::str::from_utf8(&garbage(64)).is_err());
}

#[test]
fn an_answer_is_delivered_as_its_fault_says() {
    let whole = Delivery::default();
    assert_eq!(Effect::None.delivery(10), whole);
    assert_eq!(Effect::Truncate(3).delivery(10).cut, Some(3));
    assert_eq!(Effect::Split(3).delivery(10).split, Some(3));
    let reset = Effect::Reset(ResetAt::Answer).delivery(10);
    assert_eq!((reset.cut, reset.reset), (Some(5), true));
}
