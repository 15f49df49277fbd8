//! What went wrong at a server, in an operator's words.

use std::error::Error;
use std::time::Duration;

use reqwest::StatusCode;

use super::Asked;
use crate::SourceError;
use crate::address::LocalAddress;
use crate::trust::chain;

pub(super) fn by_status(status: StatusCode, asked: &Asked) -> SourceError {
    let reference = asked.shown().to_owned();
    let code = status.as_u16();
    match status {
        StatusCode::NOT_FOUND | StatusCode::GONE => SourceError::NotFound {
            reference,
            reason: format!("the server answers HTTP {code}"),
        },
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => {
            let remedy = match asked {
                Asked::Web { .. } => "put user and password in the URL, or open the file to this machine",
                Asked::OpenStack { .. } => "let the site's OpenStack user read it",
            };
            SourceError::Refused {
                reference,
                reason: format!("the server answers HTTP {code}: {remedy}"),
            }
        }
        status if status.is_server_error() => SourceError::Unreachable {
            reference,
            reason: format!("the server answers HTTP {code}: try again later"),
        },
        _ => SourceError::Refused {
            reference,
            reason: format!("the server answers HTTP {code}"),
        },
    }
}

pub(super) fn unreachable(error: &reqwest::Error, shown: &str) -> SourceError {
    if let Some(local) = find::<LocalAddress>(error) {
        return local_error(local, shown);
    }
    let mut reason = chain(error);
    if reason.contains("certificate") {
        reason.push_str("; have the server's CA trusted by this machine, or name its CA file ([images] server-ca)");
    }
    SourceError::Unreachable {
        reference: shown.to_owned(),
        reason,
    }
}

pub(super) fn local_error(local: &LocalAddress, shown: &str) -> SourceError {
    SourceError::LocalAddress {
        reference: shown.to_owned(),
        host: local.host.clone(),
        address: local.address,
    }
}

pub(super) fn truncated(shown: &str, got: u64, expected: u64) -> SourceError {
    SourceError::Truncated {
        reference: shown.to_owned(),
        got,
        expected,
    }
}

pub(super) fn late(shown: &str, after: Duration, what: &'static str) -> SourceError {
    SourceError::Timeout {
        reference: shown.to_owned(),
        after,
        what,
    }
}

fn find<E: Error + 'static>(error: &reqwest::Error) -> Option<&E> {
    std::iter::successors(error.source(), |&layer| layer.source()).find_map(|layer| layer.downcast_ref())
}
