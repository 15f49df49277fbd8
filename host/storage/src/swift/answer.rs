//! What Swift's refusals mean to us.

use reqwest::Response;

use crate::StorageError;
use crate::objects::answer::explanation;

/// An answer that is no success: who has to do what about it.
pub(super) async fn refused(place: &str, action: &'static str, answer: Response) -> StorageError {
    let status = answer.status().as_u16();
    let reason = explanation(answer).await;
    let place = place.to_owned();
    match status {
        401 | 403 => StorageError::Forbidden {
            place,
            remedy: format!(
                "{action} was refused with HTTP {status}{reason}; give the user a role that may write there (`admin`, `member` or what the cluster names)"
            ),
        },
        413 | 507 => StorageError::Full {
            place,
            remedy: format!(
                "{action} was refused with HTTP {status}{reason}; raise the quota of the account or the container, or the cluster's largest object, or make room"
            ),
        },
        404 => StorageError::Unusable {
            place,
            reason: format!("{action} was answered with HTTP 404{reason}: it is not there, and could not be made"),
        },
        500.. => StorageError::Unusable {
            place,
            reason: format!("{action} was answered with HTTP {status}{reason}; look at the cluster, then try again"),
        },
        _ => StorageError::Unusable {
            place,
            reason: format!("{action} was answered with HTTP {status}{reason}"),
        },
    }
}
