//! `stagegate run` against an API server over a socket.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use stagegate_embedded::{Server, TokioClock};
use tokio::net::TcpListener;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_are_missing_are_waited_for_with_a_message_and_sigterm_ends_it_cleanly() {
    let server = Server::new(TokioClock::shared());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let address = listener.local_addr().expect("a bound socket");
    let kubeconfig = std::env::temp_dir().join(format!("stagegate-test-{}-run.kubeconfig", std::process::id()));
    std::fs::write(&kubeconfig, server.kubeconfig(address)).expect("the temporary directory is writable");
    let serving = tokio::spawn(async move { server.serve(listener, std::future::pending::<()>()).await });

    let path = kubeconfig.display().to_string();
    let said = tokio::task::spawn_blocking(move || {
        let mut child = Command::new(env!("CARGO_BIN_EXE_stagegate"))
            .args(["run", "--kubeconfig", &path])
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary was built with this test");
        let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
        let mut said = String::new();
        for line in lines.map_while(Result::ok) {
            said.push_str(&line);
            said.push('\n');
            if line.contains("stagedbindingpolicies") {
                let told = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
                assert!(told.expect("kill exists").success());
            }
        }
        (said, child.wait().expect("the child was started").code())
    });
    let waited = tokio::time::timeout(std::time::Duration::from_secs(30), said).await;
    let (said, code) = waited
        .expect("a message about the missing kind, and an end")
        .expect("no panic");
    assert_eq!(code, Some(0), "{said}");
    serving.abort();
    drop(std::fs::remove_file(kubeconfig));
}
