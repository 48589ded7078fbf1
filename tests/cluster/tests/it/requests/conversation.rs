//! Sends a subject's requests one after the other. Must not judge an answer.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use http_body_util::BodyExt as _;
use kube::Client;
use kube::client::Body;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

use super::answer::{Answer, Words};
use super::subject::{Request, Subject};

/// Who owns fields of which a request does not say who owns them.
const USER_AGENT: &str = "requests/1";

/// Watches say that they want to end after a second.
const ANSWER_MAX: Duration = Duration::from_secs(20);

const UNTIL_MAX: Duration = Duration::from_secs(30);
const UNTIL_LOOK: Duration = Duration::from_millis(50);

/// A client that hands on every answer. (kube's own asks again after some.)
pub async fn connect(kubeconfig: &Path) -> anyhow::Result<Client> {
    let read = Kubeconfig::read_from(kubeconfig).with_context(|| format!("reading {}", kubeconfig.display()))?;
    let mut config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(Client::try_from(config)?)
}

pub async fn ask(client: &Client, subject: &Subject) -> anyhow::Result<Vec<Answer>> {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": subject.namespace()}});
    let create = http::Request::post("/api/v1/namespaces").header("content-type", "application/json");
    let _: Value = client.request(create.body(namespace.to_string().into_bytes())?).await?;
    let mut words = Words::default();
    let mut answers = Vec::new();
    for request in &subject.requests {
        let answer = send_until(client, subject, request, &mut words).await;
        answers.push(answer.with_context(|| request.name.clone())?);
    }
    Ok(answers)
}

async fn send_until(
    client: &Client,
    subject: &Subject,
    request: &Request,
    words: &mut Words,
) -> anyhow::Result<Answer> {
    let begun = Instant::now();
    loop {
        let answered = tokio::time::timeout(ANSWER_MAX, send(client, &filled(subject, request, words))).await;
        let raw = answered.with_context(|| format!("no end of the answer within {ANSWER_MAX:?}"))??;
        let wanted = request.until.unwrap_or(raw.status);
        if raw.status == wanted {
            words.keep(request, &raw);
            return Ok(Answer::of(request, raw, words));
        }
        ensure!(
            begun.elapsed() < UNTIL_MAX,
            "still {}, not {wanted}: {}",
            raw.status,
            raw.body
        );
        tokio::time::sleep(UNTIL_LOOK).await;
    }
}

/// A request without any `${…}`.
struct Filled {
    method: String,
    target: String,
    headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

/// An answer as it came.
pub struct Raw {
    pub status: u16,
    pub headers: http::HeaderMap,
    pub body: Value,
}

fn filled(subject: &Subject, request: &Request, words: &Words) -> Filled {
    let fill = |text: &str| words.fill(&text.replace("${ns}", &subject.namespace()));
    let sent = fill(&request.send);
    let (method, target) = sent.split_once(' ').unwrap_or((&sent, "/"));
    let body = match (&request.body, &request.text) {
        (Some(body), _) => Some(fill(&body.to_string())),
        (None, text) => text.as_deref().map(fill),
    };
    let mut headers: BTreeMap<String, String> = [("accept", "application/json"), ("user-agent", USER_AGENT)]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    if body.is_some() {
        headers.insert("content-type".to_owned(), request.media_type().to_owned());
    }
    let given = request.headers.iter();
    headers.extend(given.map(|(name, value)| (name.to_lowercase(), fill(value))));
    Filled {
        method: method.to_owned(),
        target: target.replace(' ', "%20"),
        headers,
        body: body.unwrap_or_default().into_bytes(),
    }
}

async fn send(client: &Client, filled: &Filled) -> anyhow::Result<Raw> {
    let mut request = http::Request::builder()
        .method(filled.method.as_str())
        .uri(&filled.target);
    for (name, value) in &filled.headers {
        request = request.header(name, value);
    }
    let response = client.send(request.body(Body::from(filled.body.clone()))?).await?;
    let (parts, body) = response.into_parts();
    let bytes = body.collect().await.context("reading an answer")?.to_bytes();
    Ok(Raw {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: read(&bytes),
    })
}

/// JSON; lines of JSON as an array, for watches; any other text as it is.
fn read(bytes: &[u8]) -> Value {
    if let Ok(value) = serde_json::from_slice(bytes) {
        return value;
    }
    let lines = serde_json::Deserializer::from_slice(bytes).into_iter();
    match lines.collect::<Result<Vec<Value>, _>>() {
        Ok(lines) if !lines.is_empty() => Value::Array(lines),
        _ => Value::String(String::from_utf8_lossy(bytes).into_owned()),
    }
}
