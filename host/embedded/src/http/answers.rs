//! Forms of answers that several verbs share. Must not look at a stored object.

use axum::body::{Body, Bytes};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, header};
use serde_json::{Value, json};

use crate::kinds::SharedKind;

/// What nobody has registered a path for: no Status, for it need not be a Kubernetes API that was meant. So is a group whose definitions
/// are not there.
pub(super) fn no_such_page() -> Response {
    (http::StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

/// An answer whose body breaks off, in process as over a connection.
pub(super) fn broken() -> Response {
    let error = std::io::Error::new(
        std::io::ErrorKind::ConnectionReset,
        "injected fault: the connection broke",
    );
    let body = Body::from_stream(futures::stream::once(std::future::ready(Err::<Bytes, _>(error))));
    (
        [(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))],
        body,
    )
        .into_response()
}

pub(super) fn json_response(code: u16, body: impl Into<Body>) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR);
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// An answer with texts in `Warning` headers.
pub(super) fn warned(mut response: Response, warnings: &[String]) -> Response {
    for warning in warnings {
        let text = format!("299 - \"{}\"", warning.replace('\\', "\\\\").replace('"', "\\\""));
        if let Ok(value) = HeaderValue::from_bytes(text.as_bytes()) {
            response.headers_mut().append(header::WARNING, value);
        }
    }
    response
}

/// The answer to a deletion that is done.
pub(super) fn deleted_status(kind: &SharedKind, name: &str, uid: &str) -> Value {
    json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": name, "group": kind.group, "kind": kind.plural, "uid": uid},
    })
}
