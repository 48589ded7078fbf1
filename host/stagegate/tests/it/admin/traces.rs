//! Detections of the real binary, as a collector of OTLP over HTTP receives them, and collectors that mean ill.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use tokio::net::TcpListener;

use super::binary::Cluster;
use crate::harness::{policy, shop, workload};

/// What was received: service names and spans.
type Received = Arc<Mutex<Vec<(String, Span)>>>;

/// Serves on a port of its own.
async fn collector() -> (String, Received) {
    let received = Received::default();
    let taking = received.clone();
    let router = Router::new().route(
        "/v1/traces",
        post(move |headers: HeaderMap, body: Bytes| async move {
            assert_eq!(headers["content-type"], "application/x-protobuf");
            let request = ExportTraceServiceRequest::decode(body).unwrap();
            for of_resource in request.resource_spans {
                let resource = of_resource.resource.unwrap();
                let service = attributes(&resource.attributes)["service.name"].clone();
                let spans = of_resource.scope_spans.into_iter().flat_map(|scope| scope.spans);
                taking.lock().unwrap().extend(spans.map(|span| (service.clone(), span)));
            }
        }),
    );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (endpoint, received)
}

fn attributes(of: &[opentelemetry_proto::tonic::common::v1::KeyValue]) -> BTreeMap<String, String> {
    let text = |value: &Value| match value {
        Value::StringValue(text) => text.clone(),
        other => format!("{other:?}"),
    };
    let pairs = of
        .iter()
        .filter_map(|pair| Some((pair.key.clone(), text(pair.value.as_ref()?.value.as_ref()?))));
    pairs.collect()
}

async fn rollout(cluster: &Cluster) {
    cluster.create(&[shop(), workload("web"), policy("web")]).await;
    cluster.until_completed("web").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_is_spans_of_its_policy_with_requests_and_evaluations_below() {
    let (endpoint, received) = collector().await;
    let cluster = Cluster::start("traces").await;
    let process = cluster.run(&[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]);
    rollout(&cluster).await;
    let (code, took, lines) = process.terminate();
    assert_eq!(code, Some(0), "{lines:#?}");
    assert!(took < Duration::from_secs(4), "{took:?}");
    cluster.stop().await;

    let received = received.lock().unwrap();
    assert!(received.iter().all(|(service, _)| service == "stagegate"));
    let by_id: BTreeMap<&[u8], &Span> = received.iter().map(|(_, span)| (&*span.span_id, span)).collect();
    let ours = |span: &Span| {
        let attributes = attributes(&span.attributes);
        attributes.get("controller").map(String::as_str) == Some("staging")
            && attributes.get("key").map(String::as_str) == Some("web")
    };
    let reconciles = received
        .iter()
        .filter(|(_, span)| span.name == "reconcile" && ours(span))
        .count();
    assert!(reconciles >= 6, "{reconciles} reconciles of the policy");
    let below = |name: &str, is: &dyn Fn(&BTreeMap<String, String>) -> bool| {
        let named = received
            .iter()
            .filter(|(_, span)| span.name == name && is(&attributes(&span.attributes)));
        let below = named.filter(|(_, span)| {
            let parent = by_id.get(&*span.parent_span_id);
            parent.is_some_and(|parent| ours(parent) && parent.trace_id == span.trace_id)
        });
        below.count()
    };
    let is_open = |of: &BTreeMap<String, String>| {
        let of = |name: &str| of.get(name).map(String::as_str);
        (of("verb"), of("kind"), of("code")) == (Some("patch"), Some("bindingpolicies"), Some("2xx"))
    };
    assert!(
        below("request", &is_open) >= 3,
        "a stage is opened by a request below its reconcile"
    );
    assert!(below("evaluate", &|_| true) >= 3, "conditions are evaluated below it");
    for (_, span) in received.iter() {
        assert!(span.end_time_unix_nano >= span.start_time_unix_nano);
    }
}

/// Nobody there, one that never answers, one that refuses, one that is no address.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_collector_however_ill_slows_or_stops_a_rollout() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let gone = {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        listener.local_addr().unwrap()
    };
    let refusing = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoints = [
        format!("http://{}", silent.local_addr().unwrap()),
        format!("http://{gone}"),
        format!("http://{}", refusing.local_addr().unwrap()),
        "https://127.0.0.1:1".to_owned(),
        "no address".to_owned(),
    ];
    tokio::spawn(async move { axum::serve(refusing, Router::new()).await });
    for endpoint in endpoints {
        let cluster = Cluster::start("ill").await;
        let environment = [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_BSP_SCHEDULE_DELAY", "100"),
        ];
        let process = cluster.run(&[], &environment);
        let begun = std::time::Instant::now();
        rollout(&cluster).await;
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "{endpoint}: {:?}",
            begun.elapsed()
        );
        let (code, took, lines) = process.terminate();
        assert_eq!(code, Some(0), "{endpoint}: {lines:#?}");
        assert!(took < Duration::from_secs(5), "{endpoint}: {took:?}");
        cluster.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_endpoint_or_with_the_switch_off_nothing_is_exported() {
    let (endpoint, received) = collector().await;
    for environment in [
        vec![("OTEL_SERVICE_NAME", "web")],
        vec![
            ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
            ("OTEL_SDK_DISABLED", "true"),
        ],
    ] {
        let cluster = Cluster::start("none").await;
        let process = cluster.run(&[], &environment);
        rollout(&cluster).await;
        assert_eq!(process.terminate().0, Some(0));
        cluster.stop().await;
    }
    assert!(received.lock().unwrap().is_empty());
}
