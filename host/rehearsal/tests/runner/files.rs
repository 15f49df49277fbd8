//! Files that say what cannot be, by slip or on purpose.

use expect_test::expect;
use rehearsal::{ScenarioError, Suite};

use super::{one_case, parse};

/// What each slip in a file is answered with.
fn answers(cases: &[String]) -> String {
    let answer = |text: &String| match parse(text) {
        Ok(_) => panic!("taken: {text}"),
        Err(error) => format!("{error}\n"),
    };
    cases.iter().map(answer).collect()
}

fn case(text: &str) -> String {
    one_case(text)
}

fn host(entry: &str) -> String {
    case(&format!(
        "call: vmedia.detach\nargs: {{device: cdrom}}\nhost:\n  - {entry}\nexpect: {{outcome: ok}}"
    ))
}

fn expected(expect: &str) -> String {
    case(&format!(
        "call: vmedia.detach\nargs: {{device: cdrom}}\nexpect: {expect}"
    ))
}

#[test]
fn an_unknown_key_is_answered_with_its_line_and_the_nearest_known_one() {
    let texts = [
        case("call: vmedia.detach\nexepct: {}"),
        expected("{outcom: ok}"),
        host("{on: bmc.eject, wiht: {device: cdrom}}"),
        host("{on: bmc.eject, with: {devise: cdrom}}"),
        host("{on: bmc.ejcet}"),
        host("{on: node.fact}"),
        host("{on: vmedia-service.attach}"),
        case("call: vmedia.prepare-ramdsk\nexpect: {}"),
        case("call: vmedia.detach\nargs: {devcie: cdrom}\nexpect: {}"),
        case("call: vmedia.detach\nargs: {device: cdrom}\nnode: {fact: {a: b}}\nexpect: {}"),
        case("call: vmedia.detach\nargs: {device: cdrom}\norder: any-ordr\nexpect: {}"),
        expected("{calls: {bmc.ejct: 1}}"),
        expected("{never: [pwoer.set]}"),
        "suite: s\nplugin: {built-in: vmeda}\ncases: [{name: c, call: vmedia.detach, expect: {}}]\n".to_owned(),
    ];
    expect![[r#"
        s.yaml:6:5: unknown key `exepct`; did you mean `expect`?
        s.yaml:7:14: unknown key `outcom`; did you mean `outcome`?
        s.yaml:8:25: unknown key `wiht`; did you mean `with`?
        s.yaml:8:31: unknown argument of bmc.eject `devise`; did you mean `device`?
        s.yaml:8:14: unknown host function `bmc.ejcet`; did you mean `bmc.eject`?
        s.yaml:8:14: facts and fields are answered from `node`
        s.yaml:8:14: the next plugin down the chain answers `vmedia-service`: list the host calls that it makes
        s.yaml:5:11: unknown function of a plugin `vmedia.prepare-ramdsk`; did you mean `vmedia.prepare-ramdisk`?
        s.yaml:6:11: unknown field `devcie`, expected `device`; did you mean `device`?
        s.yaml:7:12: unknown key `fact`; did you mean `facts`?
        s.yaml:7:12: unknown variant `any-ordr`, expected one of ordered, any-order; did you mean `any-order`?
        s.yaml:7:13: unknown host function `bmc.ejct`; did you mean `bmc.eject`?
        s.yaml:7:22: unknown host function `pwoer.set`; did you mean `power.set`?
        s.yaml:2:9: unknown built-in plugin `vmeda`; did you mean `vmedia`?
    "#]]
    .assert_eq(&answers(&texts));
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let texts = [
        host("{on: bmc.boot-mode-of}"),
        host("{on: bmc.eject, reply: ok, error: conflict}"),
        host("{on: bmc.eject, error: conflit}"),
        host("{on: bmc.eject, times: 0}"),
        host("{on: bmc.eject, times: -1}"),
        host("{on: storage.publish, reply: location#1, times: 2}"),
        expected("{outcome: ok, error: conflict}"),
        expected("{outcome: fine}"),
        case("call: vmedia.detach\nargs: {device: cdrom}\ngrants: {}\nexpect: {}"),
        case("call: vmedia.detach\nargs: {device: cdrom}\nclock: noon\nexpect: {}"),
        case("call: vmedia.detach\nargs: {device: cdrom}\nnode: {provision-state: asleep}\nexpect: {}"),
        case("call: vmedia.detach\nexpect: {}"),
        case("call: vmedia.detach\nargs: {device: cdrom}"),
        case("call: take-over.plan\nargs: {observation: {}}\nexpect: {}"),
        case("call: vmedia.detach\nargs: {device: cdrom}\nexpect: {}\n")
            + "  - {name: c, call: vmedia.detach, expect: {}}\n",
        "suite: s\nplugin: {built-in: vmedia}\ncases: []\n".to_owned(),
    ];
    expect![[r#"
        s.yaml:8:9: `bmc.boot-mode-of` gives something back: add `reply` or `error`
        s.yaml:8:43: an entry has `reply` or `error`, not both
        s.yaml:8:32: unknown cause of an error `conflit`; did you mean `conflict`? (a code of its own is {other: {code: …}})
        s.yaml:8:9: `times` is 1 to 10000
        s.yaml:8:32: a whole number that is not negative is wanted here
        s.yaml:8:9: `location#1` can be handed out once: leave the name out, or `times`
        s.yaml:7:13: `error` does not go with the outcome `ok`
        s.yaml:7:23: unknown variant `fine`, expected one of ok, error, denied, trapped, timeout
        s.yaml:7:13: the built-in plugins have the grants and limits of the host: leave this out
        s.yaml:7:12: `clock` is a time from 1970 on, as 2026-11-30T12:00:00Z, not `noon`
        s.yaml:7:11: unknown provision state `asleep`; known are: enroll, verifying, manageable, cleaning, clean wait, clean failed, available, deploying, wait call-back, deploy failed, active, deleting, error, inspecting, inspect wait, inspect failed, adopting, adopt failed, rescuing, rescue wait, rescue, rescue failed, unrescuing, unrescue failed
        s.yaml:5:11: missing field `device`
        s.yaml:6:5: missing field `expect`
        s.yaml:2:9: the built-in `vmedia` has no function of the role `take-over`, which the cases call
        s.yaml:8:12: there are two cases `c`
        s.yaml: it has no cases
    "#]].assert_eq(&answers(&texts));
}

#[test]
fn a_world_a_sweep_or_a_matrix_that_cannot_be_is_refused_with_its_line() {
    let world = |more: &str| case(&format!("call: vmedia.detach\nargs: {{device: cdrom}}\n{more}"));
    let texts = [
        world("world: {pwoer: on}\nexpect: {}"),
        world("world: {power: warm}\nexpect: {}"),
        world("world: [power]\nexpect: {}"),
        world("world: {power: [on]}\nexpect: {}"),
        world("world: {boot-mode: uefy}\nexpect: {}"),
        world("world: {secure-boot: maybe}\nexpect: {}"),
        world("world: {cdrom: full}\nexpect: {}"),
        world("world: {cdrom: {artefact: floppy}}\nexpect: {}"),
        world("world: {post-s: 100000}\nexpect: {}"),
        world("world: {post-s: -1}\nexpect: {}"),
        world("world: {missing-images: [deplyo]}\nexpect: {}"),
        world("world: {}\nhost: []\nexpect: {}"),
        world("host: []\nsweep: {faults: true}\nexpect: {}"),
        world("host: []\nexpect: {world: {power: on}}"),
        world("world: {}\nsweep: {fualts: true}\nexpect: {}"),
        world("world: {}\nsweep: {storms: 1000000}\nexpect: {}"),
        world("world: {}\nseed: seven\nexpect: {}"),
        world("world: {}\nmatrix: {facts.a: x}\nexpect: {}"),
        world("world: {}\nmatrix: {drivr: [x]}\nexpect: {}"),
        world(&format!(
            "world: {{}}\nmatrix: {{facts.a: [{}], facts.b: [1, 2]}}\nexpect: {{}}",
            ["1"; 300].join(", ")
        )),
    ];
    expect![[r#"
        s.yaml:7:12: unknown field `pwoer`, expected one of `power`, `boot-mode`, `secure-boot`, `boot-device`, `cdrom`, `floppy`, `post-s`, `artefacts`, `state`, `missing-images`, `secrets`, `redfish`, `ribcl`; did you mean `power`?
        s.yaml:7:12: unknown power state `warm`; known are: on, off, unknown
        s.yaml:7:12: `world` is a mapping
        s.yaml:7:12: invalid type: sequence, expected a string
        s.yaml:7:12: unknown boot mode `uefy`; did you mean `uefi`?
        s.yaml:7:12: `secure-boot` is true, false or unsupported
        s.yaml:7:12: `cdrom` is empty, missing, {artefact: …} or {url: …}
        s.yaml:7:12: `cdrom` holds a floppy that is not under `artefacts`
        s.yaml:7:12: `post-s` is at most 86400
        s.yaml:7:12: invalid value: integer `-1`, expected u32
        s.yaml:7:12: unknown source of a boot ISO `deplyo`; did you mean `deploy`?
        s.yaml:7:12: a case has `host` or `world`: either its answers are listed, or a world gives them
        s.yaml:8:12: a sweep needs a `world`: the answers of a list fit one run only
        s.yaml:8:13: `expect.world` needs a `world` to look at
        s.yaml:8:13: unknown key `fualts`; did you mean `faults`?
        s.yaml:8:12: `storms` is at most 10000
        s.yaml:8:11: a whole number that is not negative is wanted here
        s.yaml:8:23: expected sequence start
        s.yaml:8:13: unknown key of a node `drivr`; did you mean `driver`?
        s.yaml:8:13: `matrix` has more than 500 combinations
    "#]].assert_eq(&answers(&texts));
    // Below the most of one case, and above the most of a file.
    let matrix = format!("matrix: {{facts.a: [{}]}}\n", ["1"; 450].join(", "));
    let one = |name: usize| format!("  - {{name: c{name}, call: vmedia.prepare-instance, expect: {{}}}}\n");
    let text: String = (0..5).map(one).collect();
    let error = parse(&format!(
        "suite: s\nplugin: {{built-in: vmedia}}\n{matrix}cases:\n{text}"
    ))
    .unwrap_err();
    assert!(error.to_string().contains("more than 2000 cases"), "{error}");
}

#[test]
fn a_hostile_file_is_refused_at_once() {
    let deep = |open: &str, close: &str| {
        let (open, close) = (open.repeat(100_000), close.repeat(100_000));
        case(&format!("call: vmedia.detach\nargs: {open}{close}\nexpect: {{}}"))
    };
    let laughs = {
        let mut text = String::from("suite: s\nplugin: p\nsettings:\n  a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
        for level in 1..12 {
            let before = format!("*a{}", level - 1);
            text.push_str(&format!("  a{level}: &a{level} [{}]\n", vec![before; 10].join(", ")));
        }
        text + "cases: []\n"
    };
    let began = std::time::Instant::now();
    for text in [
        deep("[", "]"),
        deep("{a: ", "}"),
        laughs,
        "a: b\n---\nc: d\n".repeat(1000),
        "\0\u{1}".to_owned(),
        "- ".repeat(10_000),
        "!!binary &x *x".to_owned(),
        String::new(),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(matches!(error, ScenarioError::Wrong { .. }), "{error}");
        assert!(error.to_string().len() < 1000, "{error}");
    }
    let large = parse(&"#".repeat(2 << 20)).unwrap_err();
    assert!(matches!(large, ScenarioError::TooLarge { .. }), "{large}");
    assert!(began.elapsed() < std::time::Duration::from_secs(10));
}

#[test]
fn what_a_message_quotes_is_short_and_has_no_control_characters() {
    let long = "x".repeat(100_000);
    for text in [
        host(&format!("{{on: {long}}}")),
        host(&format!("{{{long}: bmc.eject}}")),
        host(&format!("{{on: bmc.eject, with: {{{long}: 1}}}}")),
        case(&format!("call: vmedia.detach\nargs: {{{long}: cdrom}}\nexpect: {{}}")),
        case(&format!("call: {long}\nexpect: {{}}")),
        expected(&format!("{{outcome: {long}}}")),
        case("call: vmedia.detach\nargs: {\"a\\e[31m\": cdrom}\nexpect: {}"),
    ] {
        let error = parse(&text).unwrap_err().to_string();
        assert!(error.len() < 1000 && !error.contains('\u{1b}'), "{error}");
    }
}

#[test]
fn a_file_that_is_cut_or_garbled_anywhere_is_answered() {
    let whole = include_str!("../../../../plugins/vmedia/scenarios/ramdisk.yaml");
    assert!(parse(whole).is_ok());
    let begin = whole.find("cases:").unwrap();
    let mut refused = 0;
    for at in (0..begin + 1500).step_by(11) {
        refused += usize::from(parse(&whole[..at]).is_err());
        for garbage in ["{", "]", "&a ", "*a ", "\t", "\0", "- ", "? ", "|\n", "\u{feff}", "'"] {
            let garbled = format!("{}{garbage}{}", &whole[..at], &whole[at..begin + 1500]);
            refused += usize::from(parse(&garbled).is_err());
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn a_file_is_read_by_its_path_and_at_most_so_much_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("s.yaml");
    assert!(matches!(Suite::read(&path), Err(ScenarioError::Read { .. })));
    assert!(matches!(Suite::read(folder.path()), Err(ScenarioError::Read { .. })));
    std::fs::write(&path, vec![b'#'; 2 << 20]).unwrap();
    assert!(matches!(Suite::read(&path), Err(ScenarioError::TooLarge { .. })));
    std::fs::write(&path, [0xff, 0xfe, 0xff]).unwrap();
    assert!(matches!(Suite::read(&path), Err(ScenarioError::Wrong { .. })));
    std::fs::write(&path, expected("{outcome: ok}")).unwrap();
    assert_eq!(Suite::read(&path).unwrap().len(), 1);
}
