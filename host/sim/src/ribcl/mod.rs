//! RIBCL: scripts of XML-like tags, each of which an iLO answers with a document of its own while it reads on. An error of a
//! command is followed by the successes of what comes after it; a syntax error or a failed login ends the answer.
//!
//! Over HTTP the documents travel in one chunked reply (`http`), on an iLO 2 straight on the TLS connection (`raw`).

use std::sync::Arc;

use serde_json::Value;

use crate::faults::{AnswerBody, Applied, Asked, Content, Delivery, Effect, ResetAt, garbage};
use crate::redfish;
use crate::server::Server;
use crate::trace::{self, Exchange};

mod boot;
mod commands;
pub(crate) mod http;
mod identity;
mod media;
mod power;
pub(crate) mod raw;
mod read;
mod write;

pub(crate) use media::Settings;

use commands::Command;
use read::{Element, Tag};
use write::{Answer, Code, LOGIN_FAILED, NOT_SUPPORTED, UNLISTED, text_of};

/// Most commands of one script.
const COMMANDS_CAP: usize = 64;

/// What becomes of a script.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// These documents, and how a fault spoils their delivery.
    Documents(Vec<String>, Delivery),
    /// This HTTP status, text and these headers instead.
    Http(u16, String, Vec<(String, String)>),
    /// The connection is reset.
    Break,
    /// The connection ends.
    Drop,
    /// No answer, ever.
    Hang,
}

/// The answer as it goes over HTTP; with a fault, only so many bytes of its body.
pub(crate) fn wire(server: &Server, documents: &[String], delivery: Delivery) -> Vec<u8> {
    // The numbers of a server's answers differ, so that each is cut at other places.
    let number = {
        let mut state = server.state();
        state.ribcl.answers += 1;
        state.ribcl.answers
    };
    let facts = &server.config.profile.ribcl;
    let text = documents.concat();
    let date = trace::http_date(delivery.skew);
    let (head, chunks) = write::chunked(facts, &text, number, &date);
    let mut body = match delivery.split {
        Some(size) => write::chunks_of(text.as_bytes(), size),
        None => chunks.concat(),
    };
    body.truncate(delivery.cut.unwrap_or(body.len()));
    [head.into_bytes(), body].concat()
}

/// Takes a script in: faults, then the commands one by one, and the trace of it all.
pub(crate) async fn take(server: &Arc<Server>, method: &str, script: &str) -> Outcome {
    let time = trace::now();
    let (tags, nonsense) = read::tags(script);
    let names = commands_of(&tags);
    // Rules name a command by its path: `/ribcl/GET_VM_STATUS`, or `/ribcl*` for all of them.
    let path = format!(
        "/ribcl/{}",
        names.first().map_or("", |(element, _)| element.name.as_str())
    );
    let fault = server.config.faults.apply(&Asked {
        server: server.index,
        method,
        path: &path,
        body: script.as_bytes(),
    });
    if let Some(delay) = fault.as_ref().and_then(|fault| fault.delay) {
        tokio::time::sleep(delay).await;
    }
    let mut exchange = Exchange {
        time,
        server: server.index,
        method: method.to_owned(),
        path: "/ribcl".to_owned(),
        body: Some(shown(&names)),
        status: None,
        message: None,
        fault: fault.as_ref().map(|fault| fault.name.clone()),
    };
    let outcome = decide(server, &tags, nonsense, fault.as_ref(), &mut exchange);
    let answer = match &outcome {
        Outcome::Documents(documents, _) => Some(Value::from(trace::scrub_xml(&documents.concat()))),
        _ => None,
    };
    trace::record(server, exchange, answer.as_ref());
    outcome
}

fn decide(
    server: &Arc<Server>,
    tags: &[Tag],
    nonsense: Option<read::Nonsense>,
    fault: Option<&Applied>,
    exchange: &mut Exchange,
) -> Outcome {
    let none = Effect::None;
    let effect = fault.map_or(&none, |fault| &fault.effect);
    let mut instead = None;
    match effect {
        Effect::Hang => return Outcome::Hang,
        Effect::Drop => return Outcome::Drop,
        Effect::Reset(ResetAt::Request) => return Outcome::Break,
        Effect::Answer { status, body, headers } => {
            // `message = "0x0023"` with status 200: the command fails so.
            let (text, code) = match body {
                AnswerBody::Message(id) => (id.clone(), code_of(id).filter(|_| *status == 200)),
                AnswerBody::Text(text) => (text.clone(), None),
                AnswerBody::Empty => (String::new(), None),
            };
            if code.is_none() {
                exchange.status = Some(*status);
                return Outcome::Http(*status, text, headers.clone());
            }
            instead = code;
        }
        _ => {}
    }
    let mut run = Run {
        server,
        answer: Answer::new(&server.config.profile.ribcl),
        fault: effect,
        instead,
        resets: false,
    };
    run.script(tags, nonsense);
    if run.resets || *effect == Effect::BmcReset {
        redfish::reset_bmc(server);
    }
    if *effect == Effect::BmcReset {
        return Outcome::Break;
    }
    exchange.status = Some(200);
    exchange.message = Some(run.answer.summary());
    let documents = spoilt(run.answer.documents, server, fault, tags);
    let length = documents.iter().map(String::len).sum();
    Outcome::Documents(documents, effect.delivery(length))
}

/// The documents as a fault changes them.
fn spoilt(documents: Vec<String>, server: &Server, fault: Option<&Applied>, tags: &[Tag]) -> Vec<String> {
    let Some(fault) = fault else { return documents };
    let content = match fault.effect {
        Effect::Content(content) => content,
        Effect::Stale => {
            let commands = commands_of(tags);
            if !commands.iter().all(|(element, _)| element.name.starts_with("GET_")) {
                return documents;
            }
            let key = shown(&commands).to_string();
            let said = fault.stale(server.index, &key, documents.into());
            return serde_json::from_value(said).unwrap_or_default();
        }
        _ => return documents,
    };
    let whole = documents.concat();
    match content {
        // One character for each byte; control characters are among them.
        Content::Garbage => vec![garbage(whole.len()).into_iter().map(char::from).collect()],
        _ => vec![String::from_utf8_lossy(&content.spoil(whole.as_bytes(), "text/xml").0).into_owned()],
    }
}

/// `0x0023`, with or without a text of one's own behind it.
fn code_of(id: &str) -> Option<(Code, String)> {
    let (number, text) = id.split_once(' ').unwrap_or((id, ""));
    let code = Code(u16::from_str_radix(number.strip_prefix("0x")?, 16).ok()?);
    let text = if text.is_empty() { text_of(code) } else { text };
    Some((code, text.to_owned()))
}

/// A script being carried out.
struct Run<'a> {
    server: &'a Arc<Server>,
    answer: Answer<'a>,
    fault: &'a Effect,
    /// How every command fails by a fault.
    instead: Option<(Code, String)>,
    /// The BMC resets at the end of the script.
    resets: bool,
}

/// Where in a script.
enum Place {
    Outside,
    Ribcl,
    Login,
    /// In this wrapper, which was opened for writing or not.
    Wrapper(String, bool),
}

impl Run<'_> {
    fn script(&mut self, tags: &[Tag], nonsense: Option<read::Nonsense>) {
        if self.tags(tags)
            && let Some(nonsense) = nonsense
        {
            self.answer.syntax_error(&nonsense.near, nonsense.line);
        }
    }

    /// `false`: the script ended before its end.
    fn tags(&mut self, tags: &[Tag]) -> bool {
        let mut place = Place::Outside;
        let mut tags = tags.iter();
        while let Some(tag) = tags.next() {
            place = match (place, tag) {
                (place, Tag::Declaration) => {
                    self.answer.fine();
                    place
                }
                (Place::Outside, Tag::Open(element)) if element.name == "RIBCL" && !element.empty => {
                    self.ribcl(element);
                    Place::Ribcl
                }
                (Place::Ribcl, Tag::Open(element)) if element.name == "LOGIN" && !element.empty => {
                    if !self.login(element) {
                        return false;
                    }
                    Place::Login
                }
                (Place::Login, Tag::Open(element)) if commands::is_wrapper(&element.name) && !element.empty => {
                    self.answer.fine();
                    let writes = element
                        .attribute("MODE")
                        .is_some_and(|mode| mode.eq_ignore_ascii_case("write"));
                    Place::Wrapper(element.name.clone(), writes)
                }
                (Place::Wrapper(wrapper, writes), Tag::Open(element)) => {
                    let Some(command) = commands::find(&element.name, &wrapper) else {
                        self.answer.syntax_error(&element.name, element.line);
                        return false;
                    };
                    let Some(children) = children(element, &mut tags) else {
                        self.answer.syntax_error(&element.name, element.line);
                        return false;
                    };
                    if !self.command(command, element, &children, writes) {
                        return false;
                    }
                    Place::Wrapper(wrapper, writes)
                }
                (Place::Wrapper(wrapper, _), Tag::Close(name, _)) if *name == wrapper => {
                    self.answer.fine();
                    Place::Login
                }
                (Place::Login, Tag::Close(name, _)) if name == "LOGIN" => {
                    self.answer.fine();
                    Place::Ribcl
                }
                (Place::Ribcl, Tag::Close(name, _)) if name == "RIBCL" => Place::Outside,
                (_, Tag::Open(element)) => {
                    self.answer.syntax_error(&element.name, element.line);
                    return false;
                }
                (_, Tag::Close(name, line)) => {
                    self.answer.syntax_error(name, *line);
                    return false;
                }
            };
        }
        true
    }

    fn ribcl(&mut self, element: &Element) {
        let version = element.attribute("VERSION").unwrap_or_default();
        if !version.starts_with("2.") {
            let schema = &self.server.config.profile.ribcl.schema;
            self.answer.inform(&format!(
                "The RIBCL version is incorrect. The correct version is {schema} or later."
            ));
        } else if self.server.config.profile.ribcl.remark {
            self.answer
                .inform("Scripting utility should be updated to the latest version.");
        } else {
            self.answer.fine();
        }
    }

    fn login(&mut self, element: &Element) -> bool {
        let (Some(user), Some(password)) = (element.raw("USER_LOGIN"), element.raw("PASSWORD")) else {
            self.answer.syntax_error("LOGIN", element.line);
            return false;
        };
        let config = &self.server.config;
        if read::is_secret(user, &config.user) && read::is_secret(password, &config.password) {
            self.answer.fine();
            true
        } else {
            self.answer.fail(LOGIN_FAILED, text_of(LOGIN_FAILED));
            false
        }
    }

    fn command(&mut self, command: &Command, element: &Element, children: &[Element], writes: bool) -> bool {
        if let Some((code, text)) = self.instead.clone() {
            self.answer.fail(code, &text);
        } else if command.writes && !writes {
            let what = match command.wrapper {
                "SERVER_INFO" => "Server information",
                _ => "RILOE information",
            };
            let message = format!("{what} is open for read-only access. Write access is required for this operation.");
            self.answer.fail(UNLISTED, &message);
        } else if command.licensed && !self.server.media_licensed() {
            self.answer.fail(NOT_SUPPORTED, text_of(NOT_SUPPORTED));
        } else if let Err(near) = (command.run)(self, element, children) {
            self.answer.syntax_error(&near, element.line);
            return false;
        }
        true
    }
}

/// What stands in a command up to its closing tag; `None` if that is missing.
fn children(element: &Element, tags: &mut std::slice::Iter<'_, Tag>) -> Option<Vec<Element>> {
    let mut children = Vec::new();
    if element.empty {
        return Some(children);
    }
    loop {
        match tags.next()? {
            Tag::Open(child) => children.push(child.clone()),
            Tag::Close(name, _) if *name == element.name => return Some(children),
            Tag::Close(..) => {}
            Tag::Declaration => return None,
        }
    }
}

/// The commands of a script with what stands in them, known or not.
fn commands_of(tags: &[Tag]) -> Vec<(Element, Vec<Element>)> {
    let mut found: Vec<(Element, Vec<Element>)> = Vec::new();
    let mut inside = false;
    let mut open: Option<String> = None;
    for tag in tags {
        match tag {
            Tag::Open(element) if commands::is_wrapper(&element.name) => inside = true,
            Tag::Close(name, _) if commands::is_wrapper(name) => inside = false,
            Tag::Close(name, _) if open.as_ref() == Some(name) => open = None,
            Tag::Open(element) if inside && open.is_some() => {
                if let Some((_, children)) = found.last_mut() {
                    children.push(element.clone());
                }
            }
            Tag::Open(element) if inside && found.len() < COMMANDS_CAP => {
                open = (!element.empty).then(|| element.name.clone());
                found.push((element.clone(), Vec::new()));
            }
            _ => {}
        }
    }
    found
}

/// The commands as the trace keeps them: without the login, and without what may be secret.
fn shown(commands: &[(Element, Vec<Element>)]) -> Value {
    let texts: Vec<String> = commands
        .iter()
        .map(|(element, children)| {
            let open = shown_tag(element);
            if children.is_empty() {
                return format!("<{open}/>");
            }
            let inner: String = children
                .iter()
                .map(|child| format!("<{}/>", shown_tag(child)))
                .collect();
            format!("<{open}>{inner}</{}>", element.name)
        })
        .collect();
    Value::from(texts.concat())
}

fn shown_tag(element: &Element) -> String {
    let mut text = element.name.clone();
    for (name, _) in &element.attributes {
        let value = element.attribute(name).unwrap_or_default();
        let secret = ["PASSWORD", "KEY", "SECRET"]
            .iter()
            .any(|word| name.to_ascii_uppercase().contains(word));
        let value = match trace::without_credentials(&value) {
            _ if secret => "***".to_owned(),
            Some(clean) => clean,
            None => value,
        };
        text.push_str(&format!(" {name}=\"{}\"", write::escaped(&value)));
    }
    text
}
