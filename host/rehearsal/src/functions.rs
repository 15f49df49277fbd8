//! The host functions that a scenario answers, with the names of their arguments and the shape of their replies.

use model::ArtefactKind;

use crate::nearest::unknown;

/// What a function replies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shape {
    Done,
    Image(ArtefactKind),
    Location,
    MaybeLocation,
    Renewal,
    Number,
    Value,
    Media,
    Flag,
    BootMode,
    Power,
    Raw,
    Text,
}

/// One host function.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) arguments: &'static [&'static str],
    pub(crate) shape: Shape,
}

const fn f(name: &'static str, arguments: &'static [&'static str], shape: Shape) -> Function {
    Function { name, arguments, shape }
}

pub(crate) const FUNCTIONS: &[Function] = &[
    f("state.get", &["key"], Shape::Value),
    f("state.put", &["key", "value", "expect"], Shape::Number),
    f("state.delete", &["key"], Shape::Done),
    f(
        "image.build-floppy",
        &["label", "parameters", "files"],
        Shape::Image(ArtefactKind::Floppy),
    ),
    f(
        "image.build-boot-iso",
        &[
            "source",
            "label",
            "kernel-arguments",
            "parameters",
            "files",
            "boot-modes",
        ],
        Shape::Image(ArtefactKind::BootIso),
    ),
    f(
        "storage.publish",
        &["image", "minimum-lifetime-s", "backend"],
        Shape::Location,
    ),
    f("storage.find", &["kind"], Shape::MaybeLocation),
    f("storage.renew", &["location", "minimum-lifetime-s"], Shape::Renewal),
    f("storage.withdraw", &["kind"], Shape::Done),
    f("storage.external", &["url"], Shape::Location),
    f("bmc.media-state", &["device"], Shape::Media),
    f("bmc.insert", &["device", "location", "options"], Shape::Done),
    f("bmc.eject", &["device"], Shape::Done),
    f("bmc.set-boot-device", &["device", "persistent"], Shape::Done),
    f("bmc.boot-mode-of", &[], Shape::BootMode),
    f("bmc.set-boot-mode", &["mode"], Shape::Done),
    f("bmc.secure-boot-of", &[], Shape::Flag),
    f("bmc.set-secure-boot", &["enabled"], Shape::Done),
    f("power.state-of", &[], Shape::Power),
    f("power.set", &["action", "deadline-ms"], Shape::Done),
    f("bmc-raw.redfish", &["method", "path", "body"], Shape::Raw),
    f("bmc-raw.ribcl", &["command", "attributes"], Shape::Text),
];

/// Counted, and answered without a line under `host`.
pub(crate) const SLEEP: &str = "clock.sleep-ms";
pub(crate) const LOG: &str = "log.event";

/// The function that an entry under `host` answers.
pub(crate) fn find(name: &str) -> Result<&'static Function, String> {
    if let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) {
        return Ok(function);
    }
    let interface = name.split('.').next().unwrap_or(name);
    Err(match interface {
        "log" => "log lines need no entry under `host`".to_owned(),
        "clock" => "the clock answers by itself: it begins at `clock`, and a sleep moves it on".to_owned(),
        "config" => "`config.get` is answered from `settings`".to_owned(),
        "node" => "facts and fields are answered from `node`".to_owned(),
        "vmedia-service" => {
            "the next plugin down the chain answers `vmedia-service`: list the host calls that it makes".to_owned()
        }
        _ => unknown("host function", name, &names()),
    })
}

/// Whether `expect.calls` and `expect.never` may name it: a function, or `interface.*`.
pub(crate) fn check_counted(name: &str) -> Result<(), String> {
    let mut known = names();
    known.extend([SLEEP, LOG]);
    let is_known = match name.strip_suffix(".*") {
        Some(interface) => known.iter().any(|function| interface_of(function) == interface),
        None => known.contains(&name),
    };
    if is_known {
        Ok(())
    } else {
        Err(unknown("host function", name, &known))
    }
}

/// Whether a name out of `expect` means this function.
pub(crate) fn means(name: &str, function: &str) -> bool {
    match name.strip_suffix(".*") {
        Some(interface) => interface_of(function) == interface,
        None => name == function,
    }
}

fn interface_of(function: &str) -> &str {
    function.split('.').next().unwrap_or(function)
}

fn names() -> Vec<&'static str> {
    FUNCTIONS.iter().map(|function| function.name).collect()
}
