//! The real oslo.config reads the same files: it and this reader must make the same of them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value as Json, json};

use super::files::ReadFile;
use super::lines::parse;
use super::lookup::Conf;
use super::option::{Kind, Opt, Other, Why};
use super::parse::Value;

/// Generated sets of files, each asked about every option: always the same, or as many others as PROPTEST_CASES says.
fn generated() -> (usize, TestRunner) {
    match std::env::var("PROPTEST_CASES") {
        Ok(cases) => (cases.parse().unwrap(), TestRunner::default()),
        Err(_) => (600, TestRunner::deterministic()),
    }
}

const fn opt(group: &'static str, name: &'static str, kind: Kind, default: Option<&'static str>) -> Opt {
    Opt {
        group,
        name,
        kind,
        default,
        secret: false,
        others: &[],
    }
}

const fn renamed(group: &'static str, name: &'static str) -> Other {
    Other {
        group,
        name,
        why: Why::Renamed,
    }
}

static OPTIONS: &[Opt] = &[
    opt("DEFAULT", "host", Kind::Text, Some("here")),
    opt("DEFAULT", "state_path", Kind::Text, Some("/var/$host")),
    opt("DEFAULT", "debug", Kind::Boolean, Some("false")),
    opt("DEFAULT", "drivers", Kind::List(&[]), Some("a,b")),
    opt("DEFAULT", "tags", Kind::Texts, None),
    opt("DEFAULT", "my_ip", Kind::Host, Some("10.0.0.1")),
    opt("ilo", "port", Kind::PORT, Some("443")),
    opt("ilo", "host", Kind::Text, None),
    opt("ilo", "mode", Kind::Choice(&["auto", "bios", "uefi"]), Some("auto")),
    opt("ilo", "modes", Kind::List(&["bios", "uefi"]), None),
    opt("ilo", "wait", Kind::Whole(Some(0), None), Some("2")),
    opt("ilo", "factor", Kind::Fraction(Some(1)), Some("2.0")),
    opt("ilo", "use_web", Kind::Boolean, Some("False")),
    Opt {
        others: &[renamed("pxe", "http_root")],
        ..opt("deploy", "http_root", Kind::Text, Some("/httpboot"))
    },
    Opt {
        others: &[renamed("pxe", "http_url"), renamed("DEFAULT", "old_url")],
        ..opt("deploy", "http_url", Kind::Uri, None)
    },
    opt("deploy", "by_arch", Kind::Dict, Some("")),
    Opt {
        others: &[renamed("deploy", "old_steps")],
        ..opt("deploy", "steps", Kind::Dicts, None)
    },
    opt("pxe", "append", Kind::Text, Some("nofb ${deploy.http_root} $$ $")),
];

/// Python with oslo.config, from the lab.
pub(crate) fn python() -> PathBuf {
    let default = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.lab/lab.env");
    let lab = std::env::var_os("FARRIER_LAB").map_or(default, PathBuf::from);
    let text = std::fs::read_to_string(&lab)
        .unwrap_or_else(|error| panic!("the lab is not set up: run `make setup` ({}: {error})", lab.display()));
    let python = text.lines().find_map(|line| line.strip_prefix("OSLO_PYTHON="));
    let python = PathBuf::from(python.expect("lab.env names no OSLO_PYTHON: run `make setup`"));
    assert!(python.exists(), "{} is missing: run `make setup`", python.display());
    python
}

/// What a script of ours prints, as JSON.
pub(crate) fn ask(script: &str, question: &Json) -> Json {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/oslo").join(script);
    let mut child = Command::new(python())
        .arg(&script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let question = question.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(question.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success(), "{} failed", script.display());
    serde_json::from_slice(&output.stdout).unwrap()
}

/// An option as the script takes it.
fn declared(opt: &Opt) -> Json {
    let kind = match opt.kind {
        Kind::Text => json!(["text"]),
        Kind::Choice(words) => std::iter::once("choice").chain(words.iter().copied()).collect(),
        Kind::Boolean => json!(["boolean"]),
        Kind::Whole(least, most) => json!(["whole", least, most]),
        Kind::Fraction(least) => json!(["fraction", least]),
        Kind::Uri => json!(["uri"]),
        Kind::Host => json!(["host"]),
        Kind::List(words) => std::iter::once("list").chain(words.iter().copied()).collect(),
        Kind::Dict => json!(["dict"]),
        Kind::Texts => json!(["texts"]),
        Kind::Dicts => json!(["dicts"]),
    };
    let others: Vec<_> = opt
        .others
        .iter()
        .map(|other| json!([other.group, other.name]))
        .collect();
    json!({"group": opt.group, "name": opt.name, "kind": kind, "default": opt.default, "others": others})
}

pub(crate) fn as_json(value: &Value) -> Json {
    match value {
        Value::Null => Json::Null,
        Value::Text(text) => json!(text),
        Value::Boolean(truth) => json!(truth),
        Value::Whole(number) => json!(number),
        Value::Fraction(number) if !number.is_finite() => json!(number.to_string().to_lowercase()),
        Value::Fraction(number) => json!(number),
        Value::List(values) => values.iter().map(as_json).collect(),
        Value::Dict(pairs) => Json::Object(pairs.iter().map(|(k, v)| (k.clone(), json!(v))).collect()),
    }
}

/// What this reader makes of the files; `Err` = it refuses one.
fn ours(options: &'static [Opt], texts: &[String]) -> Result<BTreeMap<String, Result<Json, String>>, ()> {
    let read = |(place, text): (usize, &String)| ReadFile {
        path: Arc::from(Path::new(&format!("{place}.conf"))),
        lines: parse(text),
    };
    let files: Vec<ReadFile> = texts.iter().enumerate().map(read).collect();
    if files.iter().any(|file| !file.lines.mistakes.is_empty()) {
        return Err(());
    }
    let conf = Conf::new(files, options);
    let value = |opt: &'static Opt| {
        let found = conf.value(opt);
        let key = format!("{}.{}", opt.group, opt.name);
        (
            key,
            found.map(|found| as_json(&found.value)).map_err(|wrong| wrong.reason),
        )
    };
    Ok(options.iter().map(value).collect())
}

fn compare(options: &'static [Opt], cases: &[Vec<String>]) {
    let declared: Vec<_> = options.iter().map(declared).collect();
    let theirs = ask("oracle.py", &json!({"options": declared, "cases": cases}));
    let theirs = theirs.as_array().unwrap();
    assert_eq!(theirs.len(), cases.len());
    let mut differences = Vec::new();
    let mut agreed = 0;
    for (texts, theirs) in cases.iter().zip(theirs) {
        let refused = theirs.get("refused").and_then(Json::as_str);
        let mut differ = |what: String| differences.push(format!("{what}\n{}", texts.join("\n-- next file --\n")));
        match (ours(options, texts), refused) {
            (Err(()), Some(_)) => agreed += 1,
            (Err(()), None) => differ("a file is refused here and taken there".into()),
            (Ok(_), Some(why)) => differ(format!("a file is taken here and refused there: {why}")),
            (Ok(ours), None) => {
                for (key, ours) in ours {
                    match (&ours, theirs[&key].get("value"), theirs[&key].get("refused")) {
                        (Ok(ours), Some(theirs), _) if ours == theirs => agreed += 1,
                        (Err(_), None, Some(_)) => agreed += 1,
                        _ => differ(format!("{key}: {ours:?} here, {} there", theirs[&key])),
                    }
                }
            }
        }
    }
    let shown: Vec<_> = differences.iter().take(9).map(String::as_str).collect();
    assert!(
        differences.is_empty(),
        "{} differences, {agreed} times the same\n\n{}",
        differences.len(),
        shown.join("\n\n==========\n")
    );
    assert!(agreed > cases.len());
}

fn files(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn what_is_written_by_hand_means_the_same_to_oslo_config() {
    let cases: &[&[&str]] = &[
        &[""],
        &["[DEFAULT]\nhost = a\nhost = b\n[ilo]\nhost: c = d\nport=  8443  \n"],
        &["[DEFAULT]\nhost = a\n  b\n\tc\n# x\n[ilo]\nuse_web = YES\nmode = uefi\n"],
        &["[DEFAULT]\nhost = a\n# x\n  b\n"],
        &["[DEFAULT]\nhost = 'a b'  \n[ilo]\nhost = \"a\" \"b\"\n"],
        &["[DEFAULT]\nhost = \"\n[ilo]\nhost = 'a\"\n"],
        &["[DEFAULT]\r\nhost = a\r\n b\r\n\r\n[ilo]\rhost = c\r"],
        &["host = early\n"],
        &["# only a comment\n; another\n\n"],
        &["[DEFAULT\nhost = a\n"],
        &["[]\n"],
        &["[DEFAULT] # comment\n"],
        &["[DEFAULT]\n= x\n"],
        &["[DEFAULT]\nhost\n"],
        &[" [DEFAULT]\n"],
        &["[ILO]\nhost = upper\n[Ilo]\nport = 1\n[default]\nhost = not this\n"],
        &["[DEFAULT]\nHost = not this\nstate-path = nor this\n"],
        &[
            "[DEFAULT]\ntags = 1\ntags = 2\n[DEFAULT]\ntags = 3\n",
            "[DEFAULT]\ntags = 4\n",
        ],
        &["[DEFAULT]\nhost = 1\n", "[DEFAULT]\nhost = 2\n", "[ilo]\nhost = 3\n"],
        &["[deploy]\nhttp_root = new\n[pxe]\nhttp_root = old\n"],
        &["[deploy]\nhttp_root = new\n", "[pxe]\nhttp_root = old\n"],
        &["[pxe]\nhttp_url = http://old:1/x\n[DEFAULT]\nold_url = http://older\n"],
        &[
            "[deploy]\nsteps = a:1\nold_steps = b:2\nsteps = c:3,d:4\n",
            "[deploy]\nold_steps = e:5\nsteps = f:6\n",
        ],
        &["[DEFAULT]\nhost = $$a \\$b $ $1 ${ $} ${a ${1} $-\n"],
        &["[DEFAULT]\nhost = x\nstate_path = /a/$host/${host}y/${ilo.port}\n[ilo]\nhost = ${host}\n"],
        &["[ilo]\nhost = $state_path-$port-$modes-$use_web-$wait\nmodes = bios,uefi\nport =\n"],
        &["[DEFAULT]\nhost = $drivers $tags\ntags = it's\ntags = b\\n\ndrivers = c , 'd'\n"],
        &[
            "[pxe]\nhttp_root = old\n[DEFAULT]\nhost = $ilo.port ${pxe.http_root} $deploy.by_arch\n[deploy]\nby_arch = x:1, y:2:3\n",
        ],
        &["[DEFAULT]\nhost = $nothing\n"],
        &["[DEFAULT]\nhost = ${nowhere.x}\n"],
        &["[DEFAULT]\nhost = ${ilo.nothing}\n"],
        &["[DEFAULT]\nhost = $ilo\n[ilo]\nhost = $ilo\n"],
        &["[DEFAULT]\nhost = ${DEFAULT.state_path}\n[ilo]\nhost = ${DEFAULT.debug}\n"],
        &["[DEFAULT]\nhost = a.$host\n"],
        &["[DEFAULT]\nhost = $state_path\nstate_path = $host\n"],
        &["[DEFAULT]\nstate_path = $my_ip.example\n"],
        &["[ilo]\nhost = $debug\n[DEFAULT]\ndebug = maybe\n"],
        &["[DEFAULT]\ndrivers =\n[deploy]\nby_arch =\nsteps =\n[ilo]\nmodes = \n"],
        &["[DEFAULT]\ndrivers = a,,b, ,\n[deploy]\nby_arch = a,b:c,d\n[ilo]\nmodes = bios,uefi,\n"],
        &["[DEFAULT]\ndrivers = ,\n[ilo]\nmodes = bios,other\n[deploy]\nby_arch = :x\n"],
        &["[deploy]\nby_arch = a:1,a:2\nsteps = a\n"],
        &["[ilo]\nport = 65536\nwait = -1\nfactor = 0.5\nmode = Auto\nuse_web = 2\n"],
        &["[ilo]\nport = 0x10\nwait = 1_000\nfactor = 1e3\nmode =\nuse_web =\n"],
        &["[ilo]\nport = '80'\nwait = \" 5 \"\nfactor = inf\nuse_web = oN\n"],
        &["[ilo]\nwait = 0644\nfactor = 1_0.5\nport = +22\n"],
        &["[deploy]\nhttp_url = http://10.0.0.1:8080/httpboot\n[DEFAULT]\nmy_ip = ::1\n"],
        &["[deploy]\nhttp_url = 10.0.0.1:8080/httpboot\n[DEFAULT]\nmy_ip = a b\n"],
        &["[deploy]\nhttp_url = http://[::1]:80/a?b#c\n[DEFAULT]\nmy_ip = host.example\n"],
        &["[deploy]\nhttp_url = http://$my_ip:8080/\n[DEFAULT]\nmy_ip = 10.0.0.300\n"],
        &["[deploy]\nhttp_url = http://$host/a b\n"],
        &["[deploy]\nhttp_url = http://h:80x/\n", "[pxe]\nhttp_url = http://é/\n"],
        &["[deploy]\nhttp_url = file:///x\n"],
        &["[deploy]\nhttp_url = http://[::1]x/\n[DEFAULT]\nhost = ${by_arch}\n"],
        &["[deploy]\nhttp_url =\n[DEFAULT]\nmy_ip =\n"],
        &["[deploy]\nhttp_url = http://u:p@h.example/%20x\n[DEFAULT]\nmy_ip = -x\n"],
        &["[DEFAULT]\nhost = \u{a0}nbsp\u{a0}\n\u{a0}state_path = x\u{85}\n"],
        &["[DEFAULT]\nhost = \u{feff}x\n[ilo]\nhost = a\u{c}b\u{1c}\n"],
        &["[unknown]\nx = 1\n[pxe]\nunknown = $nothing\nappend = %default% x\n"],
    ];
    let cases: Vec<_> = cases.iter().map(|texts| files(texts)).collect();
    compare(OPTIONS, &cases);
}

/// Lines that mean something to the options, and lines that go wrong.
fn line() -> impl Strategy<Value = String> {
    let group = prop::sample::select(vec!["DEFAULT", "ilo", "deploy", "pxe", "ILO", "other"]);
    let name = prop::sample::select(vec![
        "host",
        "state_path",
        "debug",
        "drivers",
        "tags",
        "port",
        "mode",
        "modes",
        "wait",
        "factor",
        "use_web",
        "http_root",
        "http_url",
        "by_arch",
        "steps",
        "old_steps",
        "append",
        "old_url",
    ]);
    // A reference by an older name finds in oslo.config only what is set under that name, and one to an option that
    // nobody declares is refused there: both are taken here, so neither is generated.
    let piece = prop::sample::select(vec![
        "a",
        "b",
        "1",
        "0",
        "443",
        "true",
        "no",
        "bios",
        "uefi",
        ",",
        ":",
        "=",
        " ",
        "'",
        "\"",
        "\\",
        "$",
        "$$",
        "$host",
        "${ilo.port}",
        "${ilo.mode}",
        "$state_path",
        "${deploy.http_root}",
        "$debug",
        "$drivers",
        "${ilo.modes}",
        "http://h",
        "/x",
        ".",
        "_",
        "-",
        "x:y",
        "é",
        "#",
        ";",
        "\t",
        "\u{a0}",
        "${ilo.wait}",
        "${deploy.by_arch}",
        "{",
        "}",
    ]);
    let value = prop::collection::vec(piece, 0..5).prop_map(|pieces| pieces.concat());
    let sign = prop::sample::select(vec![" = ", "=", ": ", " :", " =  "]);
    let assignment = (name, sign, value.clone()).prop_map(|(name, sign, value)| format!("{name}{sign}{value}"));
    let space = prop::sample::select(vec![" ", "\t", "    "]);
    prop_oneof![
        10 => assignment,
        5 => group.prop_map(|group| format!("[{group}]")),
        2 => (space, value).prop_map(|(space, value)| format!("{space}{value}")),
        1 => Just(String::new()),
        1 => Just("# comment = 1".to_owned()),
        1 => prop::sample::select(vec!["; c", "[x", "junk", "= v", "[]", "   ", "[ilo] "]).prop_map(str::to_owned),
    ]
}

#[test]
fn what_is_generated_means_the_same_to_oslo_config() {
    let text = prop::collection::vec(line(), 0..14).prop_map(|lines| format!("[DEFAULT]\n{}\n", lines.join("\n")));
    let several = prop::collection::vec(text, 1..4);
    let (count, mut runner) = generated();
    let cases: Vec<Vec<String>> = (0..count)
        .map(|_| several.new_tree(&mut runner).unwrap().current())
        .collect();
    compare(OPTIONS, &cases);
}

mod refused {
    use super::*;

    fn reason(text: &str, group: &str, name: &str) -> String {
        let answers = ours(OPTIONS, &[text.to_owned()]).unwrap();
        answers[&format!("{group}.{name}")].clone().unwrap_err()
    }

    #[test]
    fn circles_strangers_and_explosions_are_named() {
        let host = |value: &str| reason(&format!("[DEFAULT]\nhost = {value}\n"), "DEFAULT", "host");
        assert_eq!(
            host("$state_path"),
            "refers to `$state_path`: [DEFAULT] state_path is not set, and its default cannot be used: it refers to `$host`: 0.conf:2: [DEFAULT] host refers to itself (DEFAULT.host → DEFAULT.state_path → DEFAULT.host); break the circle"
        );
        assert_eq!(
            host("$hosts"),
            "refers to `$hosts`, which is no option; did you mean `host`?; correct it, or write `$$` for a dollar sign"
        );
        assert_eq!(
            host("$my_ip.example"),
            "refers to `$my_ip.example`, which is no option; correct it, or write `$$` for a dollar sign or `${my_ip}.example` for my_ip alone"
        );
        // Each doubles the one before: 2^40 references, or as many bytes.
        for seed in ["", "0123456789"] {
            let mut bomb = format!("[DEFAULT]\nhost = $b40\nb0 = {seed}\n");
            for step in 1..=40 {
                bomb.push_str(&format!("b{step} = $b{0}$b{0}\n", step - 1));
            }
            let reason = reason(&bomb, "DEFAULT", "host");
            assert!(reason.contains("more than"), "{reason}");
        }
    }
}
