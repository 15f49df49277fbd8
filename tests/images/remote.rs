//! Images on web servers, friendly and not: read by ranges, or refused with a reason.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use crate::run::{Folder, Ran, farrier, make};
use crate::share::pattern;

/// Answers each request for a range with what `answer` says to first and last byte, one connection each.
fn server(answer: impl Fn(u64, u64) -> Vec<u8> + Send + Sync + 'static) -> (String, Arc<AtomicU64>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!(
        "http://user:hunter2@{}/x.img?sig=hunter2",
        listener.local_addr().unwrap()
    );
    let sent = Arc::new(AtomicU64::new(0));
    let (answer, count) = (Arc::new(answer), Arc::clone(&sent));
    // Ends with the process: nobody waits for it.
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer, count) = (stream.unwrap(), Arc::clone(&answer), Arc::clone(&count));
            thread::spawn(move || {
                let mut range = None;
                let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
                while let Some(Ok(line)) = lines
                    .next()
                    .filter(|line| line.as_ref().is_ok_and(|line| !line.is_empty()))
                {
                    if let Some(wanted) = line.to_lowercase().strip_prefix("range: bytes=") {
                        let (first, last) = wanted.split_once('-').unwrap();
                        range = Some((first.parse().unwrap(), last.parse().unwrap()));
                    }
                }
                let (first, last) = range.expect("only ranges are asked for");
                let answer = answer(first, last);
                count.fetch_add(answer.len() as u64, Ordering::Relaxed);
                let _ = stream.write_all(&answer);
            });
        }
    });
    (url, sent)
}

fn part(image: &[u8], first: u64, last: u64, more: &str) -> Vec<u8> {
    let (from, to) = (usize::try_from(first).unwrap(), usize::try_from(last).unwrap());
    let body = &image[from..=to.min(image.len() - 1)];
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {first}-{last}/{}\r\nContent-Length: {}\r\n{more}Connection: close\r\n\r\n",
        image.len(),
        body.len()
    );
    [head.as_bytes(), body].concat()
}

fn image(folder: &Folder) -> Vec<u8> {
    let file = folder.write("file", pattern(1, 20_000_000));
    let out = folder.at("f.img");
    make(&format!("image floppy --param a=b --file {file}:file --force -o {out}"));
    std::fs::read(out).unwrap()
}

fn refused(ran: &Ran, says: &[&str]) {
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), ""), "{}", ran.stderr);
    for said in says {
        assert!(ran.stderr.contains(said), "`{said}` in {}", ran.stderr);
    }
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
}

#[test]
fn only_what_is_needed_crosses_the_network() {
    let folder = Folder::new();
    let bytes = image(&folder);
    let (url, sent) = server(move |first, last| part(&bytes, first, last, "ETag: \"1\"\r\n"));
    let ran = farrier(["image", "cat", &url, "parameters.txt"]);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "a=b\n"), "{}", ran.stderr);
    let sent = sent.load(Ordering::Relaxed);
    assert!(sent < 2_000_000, "{sent} bytes for a few");
}

#[test]
fn servers_that_do_not_do_what_they_should_are_refused_with_a_reason() {
    let folder = Folder::new();
    let whole = image(&folder);
    let ls = |url: &str| farrier(["image", "ls", url]);
    let plain =
        |status: &str| format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\nno").into_bytes();
    for (answer, says) in [
        (plain("200 OK"), "answers no ranges: download"),
        (plain("404 Not Found"), "is not there (404)"),
        (plain("500 Oh"), "answers 500"),
        (plain("416 Range Not Satisfiable"), "is empty"),
        (plain("206 Partial Content"), "more than it was asked for"),
        (
            b"HTTP/1.1 206 Partial Content\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx".to_vec(),
            "tells no length",
        ),
        (b"nonsense\r\n\r\n".to_vec(), "could not read http://127.0.0.1"),
        (Vec::new(), "could not read http://127.0.0.1"),
    ] {
        let (url, _) = server(move |_, _| answer.clone());
        refused(&ls(&url), &[says]);
    }
    // Right at first; then it changes, sends too little, too much, or another part.
    let changed = [
        "Last-Modified: Tue, 15 Nov 1994 12:45:26 GMT\r\n",
        "Content-Encoding: gzip\r\n",
    ];
    for more in changed {
        let bytes = whole.clone();
        let (url, _) = server(move |first, last| part(&bytes, first, last, if last == 0 { "" } else { more }));
        refused(&ls(&url), &["could not read"]);
    }
    let bytes = whole.clone();
    let (url, _) = server(move |first, last| match last {
        0 => part(&bytes, first, last, ""),
        _ => part(&bytes[..bytes.len() - 512], first, last, ""),
    });
    refused(&ls(&url), &["was changed while it was read"]);
    let bytes = whole.clone();
    let (url, _) = server(move |first, last| {
        let mut answer = part(&bytes, first, last, "");
        if last > 0 {
            answer.truncate(answer.len() - 1);
        }
        answer
    });
    refused(&ls(&url), &["could not read"]);
    let (url, _) = server(move |first, last| match last {
        0 => part(&whole, 0, 0, ""),
        _ => part(&whole, first + 512, last + 512, ""),
    });
    refused(&ls(&url), &["another part"]);
    refused(
        &ls("http://127.0.0.1:1/x.iso"),
        &["could not read http://127.0.0.1:1/x.iso"],
    );
    refused(&ls("http://"), &["does not parse"]);
}

#[test]
fn an_endless_answer_is_cut_off() {
    let folder = Folder::new();
    let whole = image(&folder);
    let (url, _) = server(move |first, last| match last {
        0 => part(&whole, first, last, ""),
        _ => {
            let mut answer = b"HTTP/1.1 206 Partial Content\r\nConnection: close\r\n\r\n".to_vec();
            answer.resize(50_000_000, 0);
            answer
        }
    });
    refused(&farrier(["image", "ls", &url]), &["more than it was asked for"]);
}
