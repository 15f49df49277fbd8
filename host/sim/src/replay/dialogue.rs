//! Which recorded exchange answers a request: pure, and the only place that knows how far a dialogue has got.

use std::collections::HashMap;
use std::sync::Arc;

use super::recording::{Form, Recorded, Recording};

/// A recording and how far it has been played.
pub(super) struct Dialogue {
    exchanges: Arc<[Recorded]>,
    /// Where each kind of request stands in the recording, in order.
    places: HashMap<Key, Vec<usize>>,
    /// Behind the change that was played last.
    from: usize,
    /// For each kind of read the place that was played last since then.
    read: HashMap<Key, usize>,
    /// URLs of the recording that were asked for, and what the client has in their place.
    urls: Vec<(String, String)>,
}

/// What tells one kind of request from another.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Key {
    form: Form,
    method: String,
    path: String,
    commands: String,
}

impl Key {
    pub(super) fn new(form: Form, method: &str, path: &str, body: &str) -> Self {
        let ribcl = form == Form::Raw || path.eq_ignore_ascii_case("/ribcl");
        Self {
            form,
            method: method.to_ascii_uppercase(),
            path: path.to_owned(),
            commands: if ribcl { commands(body) } else { String::new() },
        }
    }

    /// The same with a slash at the end of its path, or without: most BMCs answer to both.
    fn with_the_other_ending(&self) -> Self {
        let path = match self.path.strip_suffix('/') {
            Some(path) => path.to_owned(),
            None => format!("{}/", self.path),
        };
        Self { path, ..self.clone() }
    }

    /// Whether it changes nothing.
    fn reads(&self) -> bool {
        if self.commands.is_empty() {
            return matches!(self.method.as_str(), "GET" | "HEAD");
        }
        self.commands
            .split('<')
            .skip(1)
            .all(|command| command.starts_with("GET_"))
    }

    fn logs_in(&self) -> bool {
        let path = self.path.trim_end_matches('/').to_ascii_lowercase();
        self.method == "POST" && path.ends_with("/sessionservice/sessions")
    }

    /// Method and path.
    pub(super) fn line(&self) -> (&str, &str) {
        (&self.method, &self.path)
    }

    /// As an explanation calls it.
    pub(super) fn shown(&self) -> String {
        match self.commands.as_str() {
            "" => format!("{} {}", self.method, self.path),
            commands => format!("{} {} {commands}", self.method, self.path),
        }
    }
}

impl Dialogue {
    pub(super) fn new(recording: &Recording) -> Self {
        let mut places: HashMap<Key, Vec<usize>> = HashMap::new();
        for (place, exchange) in recording.all().iter().enumerate() {
            let request = &exchange.request;
            let body = request.body.as_deref().unwrap_or_default();
            let key = Key::new(exchange.form, &request.method, &request.path, body);
            places.entry(key).or_default().push(place);
        }
        Self {
            exchanges: Arc::clone(recording.all()),
            places,
            from: 0,
            read: HashMap::new(),
            urls: Vec::new(),
        }
    }

    /// What answers this request; `None`: nothing in the recording does. An image that the client inserted bears the client's URL.
    pub(super) fn next(&mut self, key: &Key, body: &str) -> Option<Recorded> {
        let mut found = self.find(key)?;
        if !key.reads() {
            let recorded = found.request.body.as_deref().unwrap_or_default();
            let pairs = urls(recorded)
                .into_iter()
                .zip(urls(body))
                .filter(|(from, to)| from != to);
            for (from, to) in pairs {
                self.urls.retain(|(known, _)| known != from);
                self.urls.push((from.to_owned(), to.to_owned()));
            }
        }
        if let Some(reply) = &mut found.reply {
            for (from, to) in &self.urls {
                reply.body = reply.body.replace(from, to);
            }
        }
        Some(found)
    }

    fn find(&mut self, key: &Key) -> Option<Recorded> {
        let known = |key: &Key| self.places.contains_key(key);
        let other = Some(key.with_the_other_ending()).filter(|other| !known(key) && known(other));
        let key = other.as_ref().unwrap_or(key);
        let places = self.places.get(key)?;
        let place = if key.reads() {
            let place = self.next_read(key, places)?;
            self.read.insert(key.clone(), place);
            place
        } else {
            let behind = places.iter().copied().find(|place| *place >= self.from);
            let again = || places.first().copied().filter(|_| key.logs_in());
            let place = behind.or_else(again)?;
            self.from = place + 1;
            self.read.clear();
            place
        };
        self.exchanges.get(place).cloned()
    }

    fn next_read(&self, key: &Key, places: &[usize]) -> Option<usize> {
        let last = self.read.get(key).copied();
        let after = last.map_or(self.from, |last| last + 1);
        let until = self.next_change();
        // The next one before anything changes; else the same once more; else the nearest one before, or at all.
        let here = places.iter().copied().find(|place| (after..until).contains(place));
        let before = || places.iter().copied().rfind(|place| *place < after);
        here.or(last).or_else(before).or_else(|| places.first().copied())
    }

    /// Where the next change stands.
    fn next_change(&self) -> usize {
        let changes = self.places.iter().filter(|(key, _)| !key.reads());
        let next = changes
            .filter_map(|(_, places)| places.iter().copied().find(|place| *place >= self.from))
            .min();
        next.unwrap_or(self.exchanges.len())
    }
}

/// The quoted URLs of a body, in order.
fn urls(body: &str) -> Vec<&str> {
    body.split(['"', '\''])
        .filter(|text| text.starts_with("http://") || text.starts_with("https://"))
        .collect()
}

/// The commands of an RIBCL document with their attributes, without what a recording does not hold.
fn commands(document: &str) -> String {
    let mut found = String::new();
    let mut rest = document;
    while let Some((_, after)) = rest.split_once('<') {
        let Some(end) = tag_end(after) else { break };
        let (tag, behind) = after.split_at(end);
        rest = behind;
        let tag = tag.trim_end_matches('/').trim();
        let name = tag.split(|c: char| c.is_whitespace()).next().unwrap_or_default();
        let upper = name.to_ascii_uppercase();
        let outer = matches!(upper.as_str(), "RIBCL" | "LOGIN") || upper.ends_with("_INFO");
        if outer || name.is_empty() || name.starts_with(['/', '?', '!']) {
            continue;
        }
        found.push('<');
        found.push_str(&upper);
        for (name, value) in attributes(&tag[name.len()..]) {
            let name = name.to_ascii_uppercase();
            if !["URL", "USER", "PASSWORD", "KEY"]
                .iter()
                .any(|word| name.contains(word))
            {
                found.push_str(&format!(" {name}={value}"));
            }
        }
    }
    found
}

/// Where a tag ends; `>` in a quoted value does not end it.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '>') => return Some(at),
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if open == c => quote = None,
            _ => {}
        }
    }
    None
}

fn attributes(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some((name, after)) = rest.split_once('=') {
        let after = after.trim_start();
        let Some(quote) = after.chars().next().filter(|quote| matches!(quote, '"' | '\'')) else {
            break;
        };
        let Some((value, behind)) = after[1..].split_once(quote) else {
            break;
        };
        found.push((name.trim(), value));
        rest = behind;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A recording of `METHOD PATH answer` lines.
    fn dialogue(lines: &[&str]) -> Dialogue {
        let lines = lines.iter().map(|line| {
            let words: Vec<&str> = line.split(' ').collect();
            serde_json::json!({"at_ms": 0, "took_ms": 0, "form": "http",
                "request": {"method": words[0], "path": words[1], "headers": [], "body": null},
                "reply": {"status": 200, "headers": [], "body": words[2]}})
            .to_string()
        });
        let text: Vec<String> = std::iter::once("{\"farrier-bmc-trace\":1}".to_owned())
            .chain(lines)
            .collect();
        Dialogue::new(&Recording::parse("x", &text.join("\n")).unwrap())
    }

    fn say(dialogue: &mut Dialogue, request: &str) -> String {
        let (method, path) = request.split_once(' ').unwrap();
        let found = dialogue.next(&Key::new(Form::Http, method, path, ""), "");
        found.map_or_else(|| "nothing".to_owned(), |recorded| recorded.reply.unwrap().body)
    }

    #[test]
    fn reads_go_with_the_changes_between_them_however_often_they_are_made() {
        let recorded = [
            "GET /slot full",
            "POST /eject ok",
            "GET /slot full",
            "GET /slot empty",
            "POST /insert ok",
            "GET /slot new",
        ];
        for reads in 1..4 {
            let mut played = dialogue(&recorded);
            let mut said = Vec::new();
            for change in ["", "POST /eject", "POST /insert"] {
                if !change.is_empty() {
                    assert_eq!(say(&mut played, change), "ok");
                }
                said.push((0..reads).map(|_| say(&mut played, "GET /slot")).last().unwrap());
            }
            let settled = if reads == 1 { "full" } else { "empty" };
            assert_eq!(said, ["full", settled, "new"], "{reads}");
        }
    }

    #[test]
    fn what_was_not_recorded_or_was_played_is_not_answered() {
        let mut played = dialogue(&["GET /a 1", "POST /b 2", "GET /a 3"]);
        assert_eq!(say(&mut played, "GET /c"), "nothing");
        assert_eq!(say(&mut played, "POST /a"), "nothing");
        assert_eq!(say(&mut played, "POST /b"), "2");
        assert_eq!(say(&mut played, "POST /b"), "nothing");
        assert_eq!(say(&mut played, "GET /a"), "3");
        assert_eq!(say(&mut played, "GET /a"), "3");
    }

    #[test]
    fn an_inserted_image_bears_the_url_of_who_inserts_it() {
        let line = |method: &str, body: &str, answer: &str| {
            serde_json::json!({"at_ms": 0, "took_ms": 0, "form": "http",
                "request": {"method": method, "path": "/slot", "headers": [], "body": body},
                "reply": {"status": 200, "headers": [], "body": answer}})
        };
        let insert = line("POST", r#"{"Image":"http://192.0.2.1/image-1"}"#, "");
        let read = line("GET", "", r#"{"Image":"http://192.0.2.1/image-1","Inserted":true}"#);
        let text = format!("{{\"farrier-bmc-trace\":1}}\n{insert}\n{read}");
        let mut played = Dialogue::new(&Recording::parse("x", &text).unwrap());
        let key = |method| Key::new(Form::Http, method, "/slot", "");
        played.next(&key("POST"), r#"{"Image":"https://h/x.iso"}"#).unwrap();
        let told = played.next(&key("GET"), "").unwrap().reply.unwrap().body;
        assert_eq!(told, r#"{"Image":"https://h/x.iso","Inserted":true}"#);
    }

    #[test]
    fn a_slash_at_the_end_matters_only_where_both_were_recorded() {
        let mut played = dialogue(&["GET /a 1", "GET /a/ 2", "GET /b 3"]);
        assert_eq!([say(&mut played, "GET /a/"), say(&mut played, "GET /a")], ["2", "1"]);
        assert_eq!(
            [say(&mut played, "GET /b/"), say(&mut played, "GET /c/")],
            ["3", "nothing"]
        );
    }

    #[test]
    fn a_read_that_was_recorded_elsewhere_only_says_what_it_said_there() {
        let mut played = dialogue(&["GET /root r", "POST /x 1", "GET /late l", "POST /x 2"]);
        assert_eq!(say(&mut played, "GET /late"), "l");
        assert_eq!(say(&mut played, "POST /x"), "1");
        assert_eq!(say(&mut played, "GET /root"), "r");
    }

    #[test]
    fn a_further_login_starts_again() {
        let login = "POST /redfish/v1/SessionService/Sessions";
        let mut played = dialogue(&[&format!("{login} t"), "GET /a 1", "POST /b 2", "GET /a 3"]);
        for _ in 0..2 {
            assert_eq!(say(&mut played, login), "t");
            assert_eq!(say(&mut played, "GET /a"), "1");
            assert_eq!(say(&mut played, "POST /b"), "2");
            assert_eq!(say(&mut played, "GET /a"), "3");
        }
    }

    #[test]
    fn ribcl_is_told_apart_by_its_commands_and_not_by_what_is_scrubbed() {
        let document = |command: &str, password: &str| {
            format!(
                "<?xml version=\"1.0\"?>\r\n<RIBCL VERSION=\"2.0\"><LOGIN USER_LOGIN=\"u\" PASSWORD=\"{password}\">\r\n<RIB_INFO MODE=\"write\">\r\n{command}\r\n</RIB_INFO></LOGIN></RIBCL>"
            )
        };
        let key = |command: &str, password: &str| Key::new(Form::Raw, "POST", "/ribcl", &document(command, password));
        let insert = |url: &str| format!("<INSERT_VIRTUAL_MEDIA DEVICE=\"CDROM\" IMAGE_URL=\"{url}\"/>");
        assert_eq!(key(&insert("http://a>b"), "x"), key(&insert("http://c"), "y&quot;"));
        assert_ne!(
            key("<SET_HOST_POWER HOST_POWER=\"Yes\"/>", ""),
            key("<SET_HOST_POWER HOST_POWER=\"No\"/>", "")
        );
        assert!(key("<GET_VM_STATUS DEVICE='CDROM'/>", "").reads());
        let status = "<SET_VM_STATUS DEVICE=\"CDROM\"><VM_BOOT_OPTION VALUE=\"CONNECT\"/></SET_VM_STATUS>";
        assert!(!key(status, "").reads());
        assert!(
            key(status, "")
                .shown()
                .ends_with("<SET_VM_STATUS DEVICE=CDROM<VM_BOOT_OPTION VALUE=CONNECT")
        );
        for odd in ["", "<", "<a", "<a b=", "<a b='>", "<é é='é'>", "plain"] {
            let _ = commands(odd);
        }
    }
}
