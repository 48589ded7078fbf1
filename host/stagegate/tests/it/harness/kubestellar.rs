//! What KubeStellar 0.30 does wrong, for the scenarios that must survive it. The program's own controllers do not.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use http::{Method, Request, Response};
use kube::{Api, Client, ResourceExt as _};
use stagegate_api::{Binding, BindingSpec, CollectorResult, CombinedStatus, label};
use tower::ServiceExt as _;

/// Writes each Binding without objects and clusters.
pub async fn empty_bindings(client: &Client) {
    let bindings: Api<Binding> = Api::all(client.clone());
    for binding in bindings.list(&Default::default()).await.unwrap() {
        let name = binding.metadata.name.clone().unwrap();
        let emptied = Binding {
            spec: BindingSpec::default(),
            ..binding
        };
        match bindings.replace(&name, &Default::default(), &emptied).await {
            // It is held at what it names.
            Err(kube::Error::Api(refused)) if refused.code == 403 => {}
            answer => drop(answer.unwrap()),
        }
    }
}

/// A client through which no CombinedStatus is made for a Binding that has not changed from here on: after a restart KubeStellar's status
/// controller knows a Binding only when KubeStellar has changed it. Those that are there are deleted.
pub async fn client_that_knows_changed_bindings(client: &Client, router: Router) -> Client {
    let generation = |binding: &Binding| binding.metadata.generation.unwrap_or_default();
    let bindings: Api<Binding> = Api::all(client.clone());
    let known = bindings.list(&Default::default()).await.unwrap();
    let known: BTreeMap<String, i64> = known
        .iter()
        .filter(|binding| binding.spec != BindingSpec::default())
        .map(|binding| (binding.name_any(), generation(binding)))
        .collect();
    let combined: Api<CombinedStatus> = Api::all(client.clone());
    let is_unknown = |status: &CombinedStatus| known.contains_key(&status.labels()[label::BINDING_POLICY]);
    for status in combined
        .list(&Default::default())
        .await
        .unwrap()
        .into_iter()
        .filter(is_unknown)
    {
        let namespaced: Api<CombinedStatus> = Api::namespaced(client.clone(), &status.namespace().unwrap());
        namespaced
            .delete(&status.name_any(), &Default::default())
            .await
            .unwrap();
    }
    let known = Arc::new(known);
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let (router, bindings, known) = (router.clone(), bindings.clone(), known.clone());
        async move {
            let is_made = request.method() == Method::POST && request.uri().path().contains("/combinedstatuses");
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(Body::new(body), usize::MAX).await.unwrap();
            if is_made {
                let status: CombinedStatus = serde_json::from_slice(&body).unwrap();
                let name = status.labels().get(label::BINDING_POLICY).cloned().unwrap_or_default();
                let live = bindings.get_opt(&name).await.unwrap();
                if live.is_some_and(|live| known.get(&name) == Some(&generation(&live))) {
                    return Ok::<_, Infallible>(answer_of(&status));
                }
            }
            Ok(answer(&router, Request::from_parts(parts, Body::from(body))).await)
        }
    });
    Client::new(service, "default")
}

fn answer_of(status: &CombinedStatus) -> Response<Body> {
    let body = serde_json::to_vec(status).unwrap();
    Response::builder().status(201).body(Body::from(body)).unwrap()
}

/// A client through which no CombinedStatus is replaced by one that has as many rows and all the old ones.
pub fn client_that_compares_one_way(router: Router) -> Client {
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let router = router.clone();
        async move { Ok::<_, Infallible>(pass_on(router, request).await) }
    });
    Client::new(service, "default")
}

async fn pass_on(router: Router, request: Request<kube::client::Body>) -> Response<Body> {
    let is_replaced = request.method() == Method::PUT && request.uri().path().contains("/combinedstatuses/");
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(Body::new(body), usize::MAX).await.unwrap();
    if is_replaced {
        let live = answer(&router, Request::get(parts.uri.clone()).body(Body::empty()).unwrap()).await;
        let (head, live) = (live.status(), bytes(live).await);
        if head.is_success() && holds_old_rows(&live, &body) {
            return Response::new(Body::from(live));
        }
    }
    answer(&router, Request::from_parts(parts, Body::from(body))).await
}

async fn answer(router: &Router, request: Request<Body>) -> Response<Body> {
    let Ok(answer) = router.clone().oneshot(request).await;
    answer
}

async fn bytes(answer: Response<Body>) -> Bytes {
    axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap()
}

/// Errors do not count, and what was added does not, where as much is gone.
fn holds_old_rows(live: &[u8], wanted: &[u8]) -> bool {
    let results = |text: &[u8]| serde_json::from_slice::<CombinedStatus>(text).unwrap().results;
    let (old, new) = (results(live), results(wanted));
    let holds = |(old, new): (&CollectorResult, &CollectorResult)| {
        (&old.name, &old.column_names) == (&new.name, &new.column_names)
            && old.rows.len() == new.rows.len()
            && old.rows.iter().all(|row| new.rows.contains(row))
    };
    old.len() == new.len() && old.iter().zip(&new).all(holds)
}
