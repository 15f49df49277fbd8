//! Ironic's options: what each is, what becomes of it here, and why some have no effect.
//!
//! The reader, the warnings and the operator's guide all go by these rows.

use crate::oslo::option::{Kind, Opt, Other, Why};

mod agent;
mod api;
mod auth;
mod conductor;
mod default;
mod deploy;
mod glance;
mod ilo;
mod pxe;
mod redfish;
mod unread;

pub(crate) use unread::UNREAD;

/// An option of Ironic.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) opt: Opt,
    pub(crate) fate: Fate,
}

/// What becomes of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// It is read.
    Becomes {
        /// Settings of farrier.toml that it sets, separated by commas.
        settings: &'static str,
        /// How, where that is not plain; else empty.
        how: &'static str,
    },
    /// Farrier does as if it had this value; with the other one it has no effect: what Farrier does instead.
    Always(bool, &'static str),
    /// It has no effect: what Farrier does instead.
    Instead(&'static str),
}

/// Every option of the sections that are read.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    [
        default::ROWS,
        api::ROWS,
        conductor::ROWS,
        agent::ROWS,
        deploy::ROWS,
        ilo::ROWS,
        pxe::ROWS,
        redfish::ROWS,
        auth::SWIFT,
        glance::ROWS,
        auth::GLANCE,
        auth::KEYSTONE_AUTHTOKEN,
        auth::SERVICE_CATALOG,
    ]
    .into_iter()
    .flatten()
}

/// An option that is read.
const fn read(group: &'static str, name: &'static str, kind: Kind, default: Option<&'static str>) -> Reading {
    Reading {
        group,
        name,
        kind,
        default,
        secret: false,
        others: &[],
    }
}

/// A row in the making.
struct Reading {
    group: &'static str,
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    secret: bool,
    others: &'static [Other],
}

impl Reading {
    const fn called(mut self, others: &'static [Other]) -> Self {
        self.others = others;
        self
    }

    const fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    const fn becomes(self, settings: &'static str) -> Row {
        self.how(settings, "")
    }

    const fn how(self, settings: &'static str, how: &'static str) -> Row {
        self.with(Fate::Becomes { settings, how })
    }

    /// As if it had this value.
    const fn always(self, value: bool, instead: &'static str) -> Row {
        self.with(Fate::Always(value, instead))
    }

    const fn with(self, fate: Fate) -> Row {
        Row {
            opt: Opt {
                group: self.group,
                name: self.name,
                kind: self.kind,
                default: self.default,
                secret: self.secret,
                others: self.others,
            },
            fate,
        }
    }
}

/// An option without effect.
const fn instead(group: &'static str, name: &'static str, what: &'static str) -> Row {
    instead_of(group, name, Kind::Text, what)
}

/// An option without effect that is no text, for others that refer to it.
const fn instead_of(group: &'static str, name: &'static str, kind: Kind, what: &'static str) -> Row {
    Row {
        opt: Opt {
            group,
            name,
            kind,
            default: None,
            secret: false,
            others: &[],
        },
        fate: Fate::Instead(what),
    }
}

const fn renamed(group: &'static str, name: &'static str) -> Other {
    Other {
        group,
        name,
        why: Why::Renamed,
    }
}

const fn former(group: &'static str, name: &'static str) -> Other {
    Other {
        group,
        name,
        why: Why::Former,
    }
}

const fn equal(group: &'static str, name: &'static str) -> Other {
    Other {
        group,
        name,
        why: Why::Equal,
    }
}
