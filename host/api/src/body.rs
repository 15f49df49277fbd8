//! Reading what a request carries: the name in its address, its body as JSON, its query as known parameters.

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::IntoResponse;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::error::{ApiError, ApiResult};
use crate::state::clip;

/// Longest body: a config drive is the biggest thing that is ever sent.
pub(crate) const MAX_BODY: usize = 1 << 20;

/// The name in the address of a request, decoded.
pub(crate) struct Path(pub(crate) String);

impl<S: Send + Sync> FromRequestParts<S> for Path {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match axum::extract::Path::from_request_parts(parts, state).await {
            Ok(axum::extract::Path(name)) => Ok(Self(name)),
            Err(_) => {
                let path = clip(parts.uri.path());
                Err(ApiError::Invalid(format!("`{path}` holds bytes that are no text")))
            }
        }
    }
}

/// The request's body, whatever its content type says (as Ironic reads it). An empty body is `null`.
pub(crate) struct Json(pub(crate) Value);

impl<S: Send + Sync> FromRequest<S> for Json {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let bytes = Bytes::from_request(request, state).await;
        let bytes = bytes.map_err(|rejection| match rejection.into_response().status() {
            StatusCode::PAYLOAD_TOO_LARGE => ApiError::TooLarge(MAX_BODY),
            _ => ApiError::invalid("the body could not be read to its end"),
        })?;
        if bytes.iter().all(u8::is_ascii_whitespace) {
            return Ok(Self(Value::Null));
        }
        let value = serde_json::from_slice(&bytes)
            .map_err(|error| ApiError::Invalid(format!("the body is not JSON: {error}")))?;
        Ok(Self(value))
    }
}

impl Json {
    /// The body as a shape; `what` names it in the error.
    pub(crate) fn shape<T: DeserializeOwned>(self, what: &str) -> ApiResult<T> {
        if !self.0.is_object() {
            return Err(ApiError::Invalid(format!("the body is no {what}: it is no object")));
        }
        serde_json::from_value(self.0).map_err(|error| ApiError::Invalid(format!("the body is no {what}: {error}")))
    }
}

/// A query string, with only parameters that the address knows, each at most once.
pub(crate) struct Params(Vec<(String, String)>);

impl Params {
    /// Reads a query; `known` are all that may stand in it.
    pub(crate) fn read(query: Option<&str>, known: &[&str]) -> ApiResult<Self> {
        let mut params: Vec<(String, String)> = Vec::new();
        for (key, value) in url::form_urlencoded::parse(query.unwrap_or("").as_bytes()) {
            if !known.contains(&&*key) {
                let (key, known) = (clip(&key), known.join(", "));
                let text = format!("unknown query parameter `{key}`; known here are: {known}");
                return Err(ApiError::Invalid(text));
            }
            if params.iter().any(|(seen, _)| *seen == *key) {
                return Err(ApiError::Invalid(format!("query parameter `{key}` came twice")));
            }
            params.push((key.into_owned(), value.into_owned()));
        }
        Ok(Self(params))
    }

    /// The value of a parameter.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }

    /// The value as something that parses.
    pub(crate) fn parse<T>(&self, key: &str) -> ApiResult<Option<T>>
    where
        T: std::str::FromStr,
        T::Err: std::fmt::Display,
    {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        text.parse()
            .map(Some)
            .map_err(|error| ApiError::Invalid(format!("query parameter `{key}`: `{}`: {error}", clip(text))))
    }

    /// The value as a yes or no, in the spellings that Ironic's clients use.
    pub(crate) fn flag(&self, key: &str) -> ApiResult<Option<bool>> {
        let Some(text) = self.text(key) else {
            return Ok(None);
        };
        match text.to_ascii_lowercase().as_str() {
            "true" | "1" | "yes" | "on" | "t" | "y" => Ok(Some(true)),
            "false" | "0" | "no" | "off" | "f" | "n" => Ok(Some(false)),
            _ => {
                let text = clip(text);
                let text = format!("query parameter `{key}`: `{text}` is neither True nor False");
                Err(ApiError::Invalid(text))
            }
        }
    }
}
