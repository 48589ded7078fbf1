//! A small custom resource and a server that serves it.

use kube::api::{Api, PostParams};
use kube::{Client, CustomResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;

#[derive(kube::CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
#[kube(
    group = "test.stagegate.dev",
    version = "v1",
    kind = "Widget",
    namespaced,
    shortname = "wd",
    status = "WidgetStatus"
)]
#[kube(printcolumn(name = "Colour", type_ = "string", json_path = ".spec.colour"))]
#[kube(selectable = ".spec.colour")]
#[serde(rename_all = "camelCase")]
pub struct WidgetSpec {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub colour: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Part>,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
pub struct Part {
    pub name: String,
    #[serde(default)]
    pub weight: i64,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema, PartialEq)]
pub struct WidgetStatus {
    #[serde(default)]
    pub seen: i64,
}

/// A server that serves widgets, and a client for it.
pub fn server() -> (Server, Client) {
    let server = Server::new(TokioClock::shared());
    let mut widgets = serde_json::to_value(Widget::crd()).unwrap();
    let parts =
        &mut widgets["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["parts"];
    parts["x-kubernetes-list-type"] = json!("map");
    parts["x-kubernetes-list-map-keys"] = json!(["name"]);
    server
        .install_crds(vec![serde_json::from_value(widgets).unwrap()])
        .unwrap();
    let client = server.client();
    (server, client)
}

pub fn widgets(client: &Client) -> Api<Widget> {
    Api::namespaced(client.clone(), "default")
}

pub fn widget(name: &str, colour: &str) -> Widget {
    Widget::new(
        name,
        WidgetSpec {
            colour: colour.to_owned(),
            ..WidgetSpec::default()
        },
    )
}

pub async fn create(client: &Client, name: &str) -> Widget {
    widgets(client)
        .create(&PostParams::default(), &widget(name, "red"))
        .await
        .unwrap()
}

/// Sends a raw request and returns the status code with the body.
pub async fn send(client: &Client, method: &str, path: &str, body: Value) -> (u16, Value) {
    send_as(client, (method, "application/json"), path, body).await
}

pub async fn send_as(client: &Client, (method, media_type): (&str, &str), path: &str, body: Value) -> (u16, Value) {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    let request = http::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media_type)
        .body(body)
        .unwrap();
    let response = client.send(request.map(kube::client::Body::from)).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect_bytes().await.unwrap();
    (code, serde_json::from_slice(&bytes).unwrap_or(Value::Null))
}

/// The code of a refused call.
pub fn code<T: std::fmt::Debug>(result: Result<T, kube::Error>) -> u16 {
    match result.unwrap_err() {
        kube::Error::Api(status) => status.code,
        other => panic!("not an API error: {other}"),
    }
}
