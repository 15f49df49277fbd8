//! `farrier image serve`: one command, one image, and who has read how much of it.

use std::collections::HashMap;
use std::fs;
use std::io::{BufRead as _, BufReader, Lines, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::run::{Folder, farrier, make, tool, words};
use crate::share::{foreign_iso, pattern};

/// A serving process; killed when the test ends, however it ends.
pub(crate) struct Serving {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    pub(crate) url: String,
    beginning: Value,
}

impl Serving {
    pub(crate) fn start(line: &str) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_farrier"))
            .args(words(line))
            .args(["--listen", "127.0.0.1:0", "-o", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let beginning = lines.next().expect("it says what it serves").unwrap();
        let beginning: Value = serde_json::from_str(&beginning).unwrap();
        assert_eq!(beginning["event"], "serving");
        Self {
            child,
            lines,
            url: beginning["url"].as_str().unwrap().to_owned(),
            beginning,
        }
    }

    fn next(&mut self) -> Value {
        let line = self.lines.next().expect("it goes on talking").unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Interrupts it; its exit code and all it had left to say.
    fn stop(mut self) -> (Option<i32>, Vec<Value>) {
        kill_process(Pid::from_child(&self.child), Signal::INT).unwrap();
        let said = self
            .lines
            .by_ref()
            .map(|line| serde_json::from_str(&line.unwrap()).unwrap())
            .collect();
        (self.child.wait().unwrap().code(), said)
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Answer {
    status: u16,
    headers: HashMap<String, String>,
    body: Vec<u8>,
}

fn ask(url: &str, method: &str, headers: &[(&str, &str)]) -> Answer {
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut request = format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    for (name, value) in headers {
        request.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{request}\r\n").as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines.map(|line| line.split_once(": ").unwrap());
    Answer {
        status,
        headers: headers
            .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
            .collect(),
        body: answer.split_off(end + 4),
    }
}

#[test]
fn a_file_is_served_exactly_and_its_reader_is_told() {
    let folder = Folder::new();
    let content = pattern(1, 3_000_001);
    let image = folder.write("disk.img", &content);
    let mut serving = Serving::start(&format!("image serve {image}"));
    let (url, size) = (serving.url.clone(), content.len());
    assert!(
        url.starts_with("http://127.0.0.1:") && url.ends_with(".img") && url.len() < 80,
        "{url}"
    );
    assert_eq!(
        (&serving.beginning["size"], &serving.beginning["image"]),
        (&size.into(), &image.clone().into())
    );

    let head = ask(&url, "HEAD", &[]);
    assert_eq!(
        (head.status, head.headers["content-length"].as_str(), head.body.len()),
        (200, "3000001", 0)
    );
    assert_eq!(head.headers["accept-ranges"], "bytes");
    let etag = head.headers["etag"].clone();
    let part = ask(&url, "GET", &[("Range", "bytes=1000-1999")]);
    assert_eq!(
        (part.status, part.headers["content-range"].as_str()),
        (206, "bytes 1000-1999/3000001")
    );
    assert!(part.body == content[1000..2000]);
    let past = ask(&url, "GET", &[("Range", "bytes=3000001-")]);
    assert_eq!(
        (past.status, past.headers["content-range"].as_str()),
        (416, "bytes */3000001")
    );
    assert_eq!(ask(&url, "GET", &[("If-None-Match", &etag)]).status, 304);
    assert_eq!(ask(&url, "POST", &[]).status, 405);
    let other = url.replace(".img", "x.img");
    assert_eq!(ask(&other, "GET", &[]).status, 404);
    let folder_of_all = format!("{}/", url.rsplit_once('/').unwrap().0);
    assert_eq!(ask(&folder_of_all, "GET", &[]).status, 404, "nothing is listed");

    let first = serving.next();
    assert_eq!(
        (&first["event"], &first["client"]),
        (&"read".into(), &"127.0.0.1".into()),
        "{first}"
    );
    let whole = ask(&url, "GET", &[]);
    assert!(whole.status == 200 && whole.body == content);
    let deadline = Instant::now() + Duration::from_secs(60);
    let all = loop {
        let read = serving.next();
        if read["percent"] == 100 {
            break read;
        }
        assert!(Instant::now() < deadline, "{read}");
    };
    assert_eq!(
        (&all["read"], &all["bytes"]),
        (&size.into(), &(size + 1000).into()),
        "{all}"
    );
    let (code, said) = serving.stop();
    assert_eq!(code, Some(0));
    let last = said.last().unwrap();
    assert_eq!(
        (&last["event"], &last["clients"][0]["percent"]),
        (&"stopped".into(), &100.into()),
        "{last}"
    );
}

#[test]
fn an_image_that_was_never_written_is_served_and_read_by_the_other_commands() {
    let folder = Folder::new();
    let file = folder.write("file", pattern(1, 5_000_000));
    let line = format!("--param ipa-agent-token=t --file {file}:d/file");
    let serving = Serving::start(&format!("image serve floppy {line}"));
    let out = folder.at("f.img");
    let made = make(&format!("image floppy {line} -o {out}"));
    assert_eq!(serving.beginning["digest"], made["digest"]);
    assert!(ask(&serving.url, "GET", &[]).body == fs::read(&out).unwrap());
    let ran = farrier(["image", "cat", &serving.url, "parameters.txt"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "ipa-agent-token=t\n"),
        "{}",
        ran.stderr
    );
    let to = folder.at("to");
    let ran = farrier(["image", "extract", &serving.url, "d/file", "--to", &to]);
    assert_eq!(ran.code, Some(0), "{}", ran.stderr);
    assert!(fs::read(format!("{to}/d/file")).unwrap() == pattern(1, 5_000_000));
    assert_eq!(serving.stop().0, Some(0));

    let recipe = folder.at("r.json");
    make(&format!("image floppy {line} --recipe {recipe}"));
    let again = Serving::start(&format!("image serve {recipe}"));
    assert!(ask(&again.url, "GET", &[("Range", "bytes=0-511")]).body == fs::read(&out).unwrap()[..512]);
}

/// On a terminal each reader has a bar, and what it has read stands there at the end.
#[test]
fn a_terminal_shows_a_bar_for_each_reader() {
    let folder = Folder::new();
    let content = pattern(1, 3_000_000);
    let (image, seen) = (folder.write("x.img", &content), folder.at("seen"));
    let farrier = env!("CARGO_BIN_EXE_farrier");
    let line = format!("{farrier} image serve {image} --listen 127.0.0.1:0 --for 60s");
    let mut terminal = Command::new("script")
        .args(["-qfec", &line, &seen])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap_or_else(|error| panic!("script is needed (Debian package bsdutils): {error}"));
    let deadline = Instant::now() + Duration::from_secs(50);
    let wait_for = |wanted: &dyn Fn(&str) -> Option<String>| loop {
        let text = String::from_utf8_lossy(&fs::read(&seen).unwrap_or_default()).into_owned();
        if let Some(found) = wanted(&text) {
            return found;
        }
        assert!(Instant::now() < deadline, "{text}");
        std::thread::sleep(Duration::from_millis(20));
    };
    let url = wait_for(&|text| {
        // Before it stands what takes the bar of the reading away.
        let (url, _) = text[text.find("http://127.0.0.1:")?..].split_once(".img")?;
        Some(format!("{url}.img"))
    });
    assert!(ask(&url, "GET", &[("Range", "bytes=0-1499999")]).body == content[..1_500_000]);
    wait_for(&|text| text.contains("50 % read, 1.4 MiB in 1 requests").then(String::new));
    assert!(ask(&url, "GET", &[]).body == content);
    wait_for(&|text| text.contains("100 % read, 4.2 MiB in 2 requests").then(String::new));
    terminal.kill().unwrap();
    terminal.wait().unwrap();
}

#[test]
fn a_patched_iso_is_served_without_being_written() {
    let folder = Folder::new();
    let iso = foreign_iso(&folder, &["-R"]);
    let file = folder.write("file", "new");
    let serving = Serving::start(&format!("image serve patch {iso} --file {file}:added"));
    assert!(serving.url.ends_with(".iso"), "{}", serving.url);
    let ran = farrier(["image", "cat", &serving.url, "added", "readme.txt"]);
    assert_eq!(
        (ran.code, ran.stdout.as_str()),
        (Some(0), "newhello\n"),
        "{}",
        ran.stderr
    );
}

#[test]
fn an_iso_is_known_by_its_end_and_the_time_that_is_given_ends_it() {
    let folder = Folder::new();
    let held = folder.at("held");
    fs::create_dir(&held).unwrap();
    fs::write(format!("{held}/file"), "x").unwrap();
    let iso = folder.at("x.iso");
    tool("xorriso", "xorriso", &["-as", "mkisofs", "-quiet", "-o", &iso, &held]);
    let mut serving = Serving::start(&format!("image serve {iso} --for 1s"));
    assert!(serving.url.ends_with(".iso"), "{}", serving.url);
    let last = serving.next();
    assert_eq!(
        (&last["event"], last["clients"].as_array().unwrap().len()),
        (&"stopped".into(), 0)
    );
    assert_eq!(serving.child.wait().unwrap().code(), Some(0));
    let text = farrier(words(&format!("image serve {iso} --listen 127.0.0.1:0 --for 1s")));
    let lines: Vec<&str> = text.stdout.lines().collect();
    assert!(
        lines[0].starts_with("http://127.0.0.1:") && lines[0].ends_with(".iso"),
        "{}",
        text.stdout
    );
    assert!(
        lines[1].starts_with("serving ") && lines[2] == "nobody has read it",
        "{}",
        text.stdout
    );
}

#[test]
fn a_reader_that_is_not_named_sees_nothing() {
    let folder = Folder::new();
    let image = folder.write("x.img", pattern(1, 10_000));
    let serving = Serving::start(&format!("image serve {image} --only 192.0.2.9"));
    assert_eq!(ask(&serving.url, "GET", &[]).status, 404);
    drop(serving);
    let serving = Serving::start(&format!("image serve {image} --only 192.0.2.9 --only 127.0.0.1"));
    assert_eq!(ask(&serving.url, "GET", &[]).status, 200);
}

#[test]
fn a_file_that_changes_while_it_is_served_ends_it_with_an_error() {
    let folder = Folder::new();
    let image = folder.write("x.img", pattern(1, 10_000));
    let mut serving = Serving::start(&format!("image serve {image}"));
    fs::write(&image, pattern(2, 10_000)).unwrap();
    while serving.lines.next().is_some() {}
    assert_eq!(serving.child.wait().unwrap().code(), Some(1));
}
