//! Errors as problem details (RFC 9457).

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde::Serialize;

use crate::store::StoreError;

/// An answer that says what is wrong. The type is `about:blank`: the status says it all, `detail`
/// says it to people.
#[derive(Debug, Serialize)]
pub(super) struct Problem {
    #[serde(rename = "type")]
    kind: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
}

impl Problem {
    fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self {
            kind: "about:blank",
            title: status.canonical_reason().unwrap_or_default(),
            status: status.as_u16(),
            detail: detail.into(),
        }
    }

    /// What people are told.
    pub(super) fn into_detail(self) -> String {
        self.detail
    }

    pub(super) fn bad_request(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(super) fn unauthorized(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    pub(super) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    pub(super) fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(super) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "this path has other methods: see allow",
        )
    }

    pub(super) fn unprocessable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub(super) fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, detail)
    }

    pub(super) fn too_slow() -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "the answer took too long: narrow the period",
        )
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::TooManyGroups => Self::unprocessable(error.to_string()),
            StoreError::TooSlow => Self::too_slow(),
            StoreError::Calendar(_) => Self::bad_request(error.to_string()),
            StoreError::ForeignSchema { .. }
            | StoreError::InUse { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::OlderSchema
            | StoreError::Path { .. }
            | StoreError::Sqlite(_) => {
                tracing::error!(
                    error = &error as &dyn std::error::Error,
                    "the store cannot be read"
                );
                Self::unavailable("the store cannot be read; the log says why")
            }
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let status = StatusCode::from_u16(self.status).unwrap_or_default();
        let mut response = (status, axum::Json(self)).into_response();
        let headers = response.headers_mut();
        let problem = HeaderValue::from_static("application/problem+json");
        headers.insert(header::CONTENT_TYPE, problem);
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}
