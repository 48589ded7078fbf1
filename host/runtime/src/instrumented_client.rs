//! The client that all requests of the controllers go through: each is counted, timed and traced. Must not change,
//! hold back or repeat one.

use std::sync::Arc;
use std::time::Duration;

use http::{Method, Request, Response};
use kube::Client;
use kube::client::Body;
use tokio::time::Instant;
use tracing::{Instrument as _, Span, debug_span, field};

use super::metrics::RuntimeMetrics;

/// What is no object: versions and discovery.
const NO_KIND: &str = "none";

/// The same client, measured.
pub fn instrumented(client: Client, metrics: Arc<RuntimeMetrics>) -> Client {
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, metrics) = (client.clone(), metrics.clone());
        async move {
            let about = About::of(request.method(), request.uri(), &metrics);
            let span = debug_span!("request", verb = about.verb, kind = about.kind, code = field::Empty);
            let call = Call {
                metrics,
                about,
                span: span.clone(),
                begun: Instant::now(),
                code: UNANSWERED,
            };
            call.carry(client, request).instrument(span).await
        }
    });
    Client::new(service, namespace)
}

/// The caller gave up.
const UNANSWERED: &str = "unanswered";

/// A request under way; counted when it is dropped, since a caller that gives up drops it.
struct Call {
    metrics: Arc<RuntimeMetrics>,
    about: About,
    span: Span,
    begun: Instant,
    code: &'static str,
}

impl Call {
    async fn carry(mut self, client: Client, request: Request<Body>) -> kube::Result<Response<Body>> {
        let answer = client.send(request).await;
        self.code = match &answer {
            Ok(response) => class(response.status().as_u16()),
            Err(_) => "error",
        };
        answer
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.span.record("code", self.code);
        let took: Duration = self.begun.elapsed();
        self.metrics
            .request((self.about.verb, self.about.kind, self.code), took);
    }
}

const fn class(code: u16) -> &'static str {
    match code {
        100..=199 => "1xx",
        200..=299 => "2xx",
        300..=399 => "3xx",
        400..=499 => "4xx",
        _ => "5xx",
    }
}

/// What a request is about, in words of which there are few.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct About {
    verb: &'static str,
    kind: &'static str,
}

impl About {
    /// Paths are `/api/v1/…` and `/apis/GROUP/VERSION/…`, then `[namespaces/NAME/]PLURAL[/NAME[/SUBRESOURCE]]`.
    fn of(method: &Method, uri: &http::Uri, metrics: &RuntimeMetrics) -> Self {
        let mut steps = uri.path().split('/').filter(|step| !step.is_empty());
        let before = match steps.next() {
            Some("api") => 1,
            Some("apis") => 2,
            _ => return Self::without_kind(method),
        };
        let mut rest: Vec<&str> = steps.skip(before).collect();
        if rest.len() > 2
            && rest.first() == Some(&"namespaces")
            && !matches!(rest.get(2), Some(&("status" | "finalize")))
        {
            rest.drain(..2);
        }
        let Some(plural) = rest.first() else {
            return Self::without_kind(method);
        };
        let is_watch = uri
            .query()
            .is_some_and(|query| query.split('&').any(|pair| pair == "watch=true"));
        Self {
            verb: verb(method, (is_watch, rest.len() > 1)),
            kind: metrics.label(plural),
        }
    }

    fn without_kind(method: &Method) -> Self {
        Self {
            verb: verb(method, (false, true)),
            kind: NO_KIND,
        }
    }
}

fn verb(method: &Method, (is_watch, is_named): (bool, bool)) -> &'static str {
    match method.as_str() {
        "GET" | "HEAD" if is_watch => "watch",
        "GET" | "HEAD" if is_named => "get",
        "GET" | "HEAD" => "list",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" => "delete",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::{About, RuntimeMetrics};

    #[test]
    fn a_request_is_counted_under_words_of_which_there_are_few() {
        let control = "/apis/control.kubestellar.io/v1alpha1";
        let cases = [
            (Method::GET, "/version".to_owned(), "get", "none"),
            (Method::GET, "/apis".to_owned(), "get", "none"),
            (
                Method::GET,
                "/api/v1/namespaces?limit=500".to_owned(),
                "list",
                "namespaces",
            ),
            (Method::GET, "/api/v1/namespaces/shop".to_owned(), "get", "namespaces"),
            (
                Method::PATCH,
                "/api/v1/namespaces/shop/status".to_owned(),
                "patch",
                "namespaces",
            ),
            (
                Method::GET,
                "/api/v1/namespaces/gates/configmaps/x".to_owned(),
                "get",
                "configmaps",
            ),
            (
                Method::GET,
                format!("{control}/bindings?&watch=true&timeoutSeconds=290"),
                "watch",
                "bindings",
            ),
            (
                Method::PATCH,
                format!("{control}/bindingpolicies/x"),
                "patch",
                "bindingpolicies",
            ),
            (
                Method::POST,
                "/apis/events.k8s.io/v1/namespaces/default/events".to_owned(),
                "create",
                "events",
            ),
            (
                Method::GET,
                "/apis/apps/v1/namespaces/shop/deployments/x".to_owned(),
                "get",
                "workload",
            ),
            (
                Method::DELETE,
                "/apis/acme.example/v1/anvils/x".to_owned(),
                "delete",
                "workload",
            ),
        ];
        let metrics = RuntimeMetrics::new(&["namespaces", "configmaps", "bindings", "bindingpolicies", "events"]);
        for (method, uri, verb, kind) in cases {
            let about = About::of(&method, &uri.parse().unwrap(), &metrics);
            assert_eq!((about.verb, about.kind), (verb, kind), "{method} {uri}");
        }
    }
}
