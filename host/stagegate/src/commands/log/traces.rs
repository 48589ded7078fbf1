//! Detections by OTLP, over HTTP with protobuf: spans of reconciles, requests, evaluations and gates. Configured by the standard
//! variables (`OTEL_EXPORTER_OTLP_ENDPOINT` and its like); without them nothing is exported.
//!
//! Must not slow or stop the process, whatever a collector does: spans wait in a bounded queue, what does not fit is lost,
//! they are sent by a thread of their own, and each sending has a deadline.

use std::io::{self, Write as _};
use std::time::Duration;

use async_trait::async_trait;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::SdkTracerProvider;
use tokio::runtime::Handle;
use tracing::{Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::registry::LookupSpan;

/// Any of them asks for traces.
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];
/// Longest wait for a collector's answer, whatever is configured.
const SEND_MAX: Duration = Duration::from_secs(10);
/// Longest wait for the last spans when the process ends.
const END_MAX: Duration = Duration::from_secs(2);
/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// What is to be ended with the process.
#[derive(Debug)]
pub struct Detections(SdkTracerProvider);

/// The layer that exports, if the environment asks for it. To be called within a runtime.
pub fn exported<S>() -> (Option<impl Layer<S>>, Option<Detections>)
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let is_set = |name: &&str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_disabled = std::env::var("OTEL_SDK_DISABLED").is_ok_and(|value| value.eq_ignore_ascii_case("true"));
    if is_disabled || !ENDPOINTS.iter().any(is_set) {
        return (None, None);
    }
    let exporter = SpanExporter::builder()
        .with_http()
        .with_http_client(Sender::new())
        .with_protocol(Protocol::HttpBinary)
        .build();
    let exporter = match exporter {
        Ok(exporter) => exporter,
        Err(error) => {
            // There is no log yet, and without a standard error nobody to tell.
            drop(writeln!(io::stderr(), "no traces are exported: {error}"));
            return (None, None);
        }
    };
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(exporter)
        .with_resource(resource())
        .build();
    let tracer = provider.tracer("stagegate");
    // What the exporter's own requests say of themselves must not become spans, which were to be exported.
    let ours = Targets::new().with_target("stagegate", Level::DEBUG);
    let layer = tracing_opentelemetry::layer().with_tracer(tracer).with_filter(ours);
    (Some(layer), Some(Detections(provider)))
}

/// `OTEL_SERVICE_NAME` and `OTEL_RESOURCE_ATTRIBUTES` go before.
fn resource() -> Resource {
    let version = opentelemetry::KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let resource = Resource::builder().with_attribute(version);
    if std::env::var_os("OTEL_SERVICE_NAME").is_some() {
        return resource.build();
    }
    resource.with_service_name("stagegate").build()
}

impl Detections {
    /// Sends what is not sent yet.
    pub async fn end(self) {
        let ended = tokio::task::spawn_blocking(move || self.0.shutdown_with_timeout(END_MAX));
        // The provider's own limit is that of its thread, which may wait for a sending that has begun.
        drop(tokio::time::timeout(END_MAX, ended).await);
    }
}

/// Sends from the exporter's thread by the runtime, which that thread is none of.
#[derive(Debug)]
struct Sender {
    runtime: Handle,
    client: Client<HttpConnector, Full<Bytes>>,
}

impl Sender {
    fn new() -> Self {
        Self {
            runtime: Handle::current(),
            client: Client::builder(TokioExecutor::new()).build_http(),
        }
    }
}

#[async_trait]
impl HttpClient for Sender {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let client = self.client.clone();
        // Everything that has to do with time or sockets, even its making, is for a thread of the runtime.
        let sent = self.runtime.spawn(async move {
            let sending = async {
                let (head, body) = client.request(request.map(Full::new)).await?.into_parts();
                let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
                Ok::<_, HttpError>(Response::from_parts(head, body))
            };
            tokio::time::timeout(SEND_MAX, sending).await
        });
        sent.await??
    }
}
