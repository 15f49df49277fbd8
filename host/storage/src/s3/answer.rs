//! What S3's answers mean to us.

use std::time::Duration;

use instant_xml::FromXml;
use reqwest::Response;

use crate::StorageError;
use crate::objects::answer::unusable;

/// Largest document that is read.
const CAP: usize = 4 << 20;
/// How long reading one may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Longest explanation that is passed on.
const REASON: usize = 200;

#[derive(FromXml)]
#[xml(rename = "Error")]
struct Error {
    #[xml(rename = "Code")]
    code: String,
    #[xml(rename = "Message")]
    message: Option<String>,
}

/// The document of an answer.
pub(super) async fn document(place: &str, answer: Response) -> Result<String, StorageError> {
    let body = sources::openstack::read(answer, CAP, PATIENCE).await;
    let body = body.map_err(|error| unusable(place, error))?;
    Ok(String::from_utf8_lossy(&body).into_owned())
}

/// " (Code: message)", or nothing.
pub(super) fn explanation(document: &str) -> String {
    let Ok(error) = instant_xml::from_str::<Error>(document) else {
        return String::new();
    };
    let told = match error.message {
        Some(message) => format!("{}: {message}", error.code),
        None => error.code,
    };
    let told: String = told.chars().filter(|c| !c.is_control()).take(REASON).collect();
    format!(" ({told})")
}

/// An answer that is no success: who has to do what about it.
pub(super) async fn refused(place: &str, action: &'static str, answer: Response) -> StorageError {
    let status = answer.status().as_u16();
    let document = document(place, answer).await.unwrap_or_default();
    let reason = explanation(&document);
    let place = place.to_owned();
    let told = |what: &str| format!("{action} was answered with HTTP {status}{reason}{what}");
    match status {
        401 | 403 => StorageError::Forbidden {
            place,
            remedy: told("; check access-key, region, and what the bucket allows that key"),
        },
        413 | 507 => StorageError::Full {
            place,
            remedy: told("; raise the quota of the bucket, or make room"),
        },
        _ if reason.contains("EntityTooLarge") || reason.contains("QuotaExceeded") => StorageError::Full {
            place,
            remedy: told("; lower part-size, raise the quota of the bucket, or make room"),
        },
        404 => StorageError::Unusable {
            place,
            reason: told("; make the bucket, or correct its name"),
        },
        _ => StorageError::Unusable {
            place,
            reason: told("; look at the service, then try again"),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_document_is_told_in_a_line_and_anything_else_is_not_told() {
        let error = "<?xml version='1.0' encoding='UTF-8'?><Error><Code>AccessDenied</Code><Message>Access\nDenied.</Message><RequestId>tx</RequestId></Error>";
        assert_eq!(explanation(error), " (AccessDenied: AccessDenied.)");
        assert_eq!(explanation("<Error><Code>SlowDown</Code></Error>"), " (SlowDown)");
        for other in ["", "<html><body>no</body></html>", "<Error>", "plain"] {
            assert_eq!(explanation(other), "", "{other}");
        }
    }
}
