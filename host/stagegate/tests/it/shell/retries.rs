//! Nobody sends a write a second time behind the back of who asked for it: not the client as it is shipped, over a real
//! socket, and not the one in process.

use std::time::Duration;

use kube::api::PostParams;
use kube::{Api, Client};
use stagegate::args::ClusterArgs;
use stagegate::commands::connection;
use stagegate_api::{BindingPolicy, BindingPolicySpec, crd};
use stagegate_clock::TokioClock;
use stagegate_embedded::{Fault, FaultAnswer, Server};
use stagegate_runtime::request::{DEADLINE, RequestError, request};
use tokio::net::TcpListener;

const KIND: &str = "bindingpolicies.control.kubestellar.io";

/// What a busy, a stopping or a slow server answers; a client that retries does so for these.
const CODES: [u16; 4] = [429, 500, 503, 504];

fn server() -> Server {
    let server = Server::new(TokioClock::shared());
    server.install_crds(crd::all_for_playground()).unwrap();
    server
}

/// The client that `run` uses, over a socket.
async fn shipped(server: &Server, name: &str) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let kubeconfig = std::env::temp_dir().join(format!("stagegate-test-{}-{name}.kubeconfig", std::process::id()));
    std::fs::write(&kubeconfig, server.kubeconfig(address)).unwrap();
    let served = server.clone();
    tokio::spawn(async move { served.serve(listener, std::future::pending::<()>()).await });
    let args = ClusterArgs {
        kubeconfig: Some(kubeconfig.clone()),
        context: None,
    };
    let client = connection::cluster(&args).await.unwrap().client;
    drop(std::fs::remove_file(kubeconfig));
    client
}

async fn create(client: &Client) -> Result<BindingPolicy, RequestError> {
    let api: Api<BindingPolicy> = Api::all(client.clone());
    let object = BindingPolicy::new("web", BindingPolicySpec::default());
    request(
        "create bindingpolicies web",
        api.create(&PostParams::default(), &object),
    )
    .await
}

async fn one_request_for_each_refusal(server: &Server, client: &Client) {
    for (nth, code) in (1u64..).zip(CODES) {
        server.inject(Fault::new("create", KIND, FaultAnswer::Status(code)));
        let refused = create(client).await;
        assert!(
            matches!(refused, Err(RequestError::Refused { code: of, .. }) if of == code),
            "{refused:?}"
        );
        // The first of kube's own retries would come after some milliseconds.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(server.requests().count("create", KIND), nth, "after {code}");
    }
}

#[tokio::test]
async fn the_shipped_client_sends_a_refused_write_once() {
    let server = server();
    let client = shipped(&server, "refused").await;
    one_request_for_each_refusal(&server, &client).await;
}

#[tokio::test(start_paused = true)]
async fn the_client_in_process_sends_a_refused_write_once() {
    let server = server();
    one_request_for_each_refusal(&server, &server.client()).await;
}

#[tokio::test]
async fn after_the_deadline_of_a_write_nothing_more_is_sent() {
    let server = server();
    let client = shipped(&server, "deadline").await;
    let slow = FaultAnswer::Delay(DEADLINE + Duration::from_secs(1));
    server.inject(Fault::new("create", KIND, slow));
    let answer = create(&client).await;
    assert!(matches!(answer, Err(RequestError::NoAnswer { .. })), "{answer:?}");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.requests().count("create", KIND), 1);
}

#[tokio::test]
async fn a_write_whose_connection_breaks_is_sent_once() {
    let server = server();
    let client = shipped(&server, "broken").await;
    server.inject(Fault::new("create", KIND, FaultAnswer::LoseAnswer));
    let answer = create(&client).await;
    assert!(matches!(answer, Err(RequestError::Failed { .. })), "{answer:?}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(server.requests().count("create", KIND), 1);
}
