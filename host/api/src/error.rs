//! What a request is refused with. The only place where a status is decided from an error.

use axum::http::header::{HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use nodes::StoreError;

use crate::state::PluginRefusal;

/// One variant per status; the text is for the client and holds no secret.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApiError {
    /// 400: the request itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// 401: no or wrong credentials.
    #[error("this API wants a user name and a password (HTTP basic)")]
    Unauthorized,
    /// 403: a browser asks on behalf of another site's page.
    #[error(
        "a page of another site may not change anything here (`Origin`: `{0}`); open this API under its own address"
    )]
    Foreign(String),
    /// 404.
    #[error("{0}")]
    NotFound(String),
    /// 405.
    #[error("this address does not take {0}")]
    Method(String),
    /// 406: a microversion that is not served.
    #[error("{0}")]
    Version(String),
    /// 408: the request took too long to arrive or to be answered.
    #[error("the request took longer than {0} s")]
    TooSlow(u64),
    /// 409: not now, or somebody else has it.
    #[error("{0}")]
    Conflict(String),
    /// 413.
    #[error("the body is longer than {0} bytes")]
    TooLarge(usize),
    /// 503: the client may try again.
    #[error("{0}")]
    Busy(String),
    /// By the store's error.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<PluginRefusal> for ApiError {
    fn from(refusal: PluginRefusal) -> Self {
        match refusal {
            PluginRefusal::NotFound(text) => Self::NotFound(text),
            PluginRefusal::Invalid(text) => Self::Invalid(text),
            PluginRefusal::Conflict(text) => Self::Conflict(text),
            PluginRefusal::Busy(text) => Self::Busy(text),
        }
    }
}

impl ApiError {
    /// 400 with this text.
    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::Invalid(text.into())
    }

    /// The status, and the text that the client sees.
    fn outside(&self) -> (StatusCode, String) {
        let status = match self {
            Self::Invalid(_) => StatusCode::BAD_REQUEST,
            Self::Unauthorized => StatusCode::UNAUTHORIZED,
            Self::Foreign(_) => StatusCode::FORBIDDEN,
            Self::NotFound(_) => StatusCode::NOT_FOUND,
            Self::Method(_) => StatusCode::METHOD_NOT_ALLOWED,
            Self::Version(_) => StatusCode::NOT_ACCEPTABLE,
            Self::TooSlow(_) => StatusCode::REQUEST_TIMEOUT,
            Self::Conflict(_) => StatusCode::CONFLICT,
            Self::TooLarge(_) => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Busy(_) => StatusCode::SERVICE_UNAVAILABLE,
            Self::Store(error) => return store_status(error),
        };
        (status, self.to_string())
    }
}

fn store_status(error: &StoreError) -> (StatusCode, String) {
    match error {
        StoreError::VersionConflict { .. }
        | StoreError::Duplicate { .. }
        | StoreError::StaleTerm { .. }
        | StoreError::ValueConflict { .. } => (StatusCode::CONFLICT, error.to_string()),
        StoreError::NotFound { .. } => (StatusCode::NOT_FOUND, error.to_string()),
        StoreError::TooBig { .. } => (StatusCode::BAD_REQUEST, error.to_string()),
        // The details name files and are for the operator, not for whoever asks.
        StoreError::Database { .. }
        | StoreError::LeaseLost { .. }
        | StoreError::NameInUse { .. }
        | StoreError::SiteMismatch { .. } => {
            tracing::error!(%error, "the store failed");
            let text = "the store does not work at the moment; this conductor's log says why";
            (StatusCode::SERVICE_UNAVAILABLE, text.to_owned())
        }
        StoreError::Corrupt { .. } | StoreError::Key { .. } => {
            tracing::error!(%error, "the store holds something that cannot be read");
            let text = "a record cannot be read; this conductor's log says which and why";
            (StatusCode::INTERNAL_SERVER_ERROR, text.to_owned())
        }
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        let (status, text) = self.outside();
        let mut response = fault(status, &text);
        let headers = response.headers_mut();
        if status == StatusCode::UNAUTHORIZED {
            let challenge = HeaderValue::from_static("Basic realm=\"Baremetal API\"");
            headers.insert(WWW_AUTHENTICATE, challenge);
        }
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        response
    }
}

/// An error body as Ironic's clients parse it.
fn fault(status: StatusCode, text: &str) -> Response {
    let code = if status.is_server_error() { "Server" } else { "Client" };
    let body = wire::ironic::ErrorBody::new(code, text);
    let body = serde_json::to_vec(&body).unwrap_or_default();
    let json = [(header::CONTENT_TYPE, "application/json")];
    (status, json, body).into_response()
}

/// What every handler answers with.
pub(crate) type ApiResult<T = Response> = Result<T, ApiError>;
