//! `stagegate run` as a process, against an embedded API server over a socket: what it writes and serves. Must not look
//! into it.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use stagegate_api::{Phase, StagedBindingPolicy, crd};
use stagegate_clock::TokioClock;
use stagegate_embedded::{Server, clusters};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::shell::world;

/// A token of the kubeconfig: nothing may ever say it.
pub const SECRET: &str = "s3cret-t0ken";

/// An API server with simulated clusters, and how to reach it.
pub struct Cluster {
    pub server: Server,
    kubeconfig: PathBuf,
    serving: JoinHandle<std::io::Result<()>>,
    clusters: clusters::RunningClusters,
}

impl Cluster {
    pub async fn start(name: &str) -> Self {
        let clock = TokioClock::shared();
        let server = Server::new(clock.clone());
        server.install_crds(crd::all_for_playground()).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kubeconfig = std::env::temp_dir().join(format!("stagegate-test-{}-{name}.kubeconfig", std::process::id()));
        std::fs::write(&kubeconfig, config(address)).unwrap();
        let (serving, told) = (server.clone(), std::future::pending::<()>());
        Self {
            clusters: clusters::Clusters::start(server.client(), clock, clusters::Settings::default()),
            serving: tokio::spawn(async move { serving.serve(listener, told).await }),
            server,
            kubeconfig,
        }
    }

    pub async fn create(&self, texts: &[String]) {
        for text in texts {
            world::create(&self.server.client(), text).await;
        }
    }

    pub async fn until_completed(&self, policy: &str) {
        let api = kube::Api::<StagedBindingPolicy>::all(self.server.client());
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let status = api.get(policy).await.unwrap().status;
            if status.as_ref().and_then(|status| status.phase) == Some(Phase::Completed) {
                return;
            }
            assert!(Instant::now() < deadline, "{status:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// All controllers as a process.
    pub fn run(&self, arguments: &[&str], environment: &[(&str, &str)]) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_stagegate"));
        command
            .args([
                "run",
                "--controllers",
                "staging,binding,combine",
                "--settle",
                "200ms",
                "--kubeconfig",
            ])
            .arg(&self.kubeconfig)
            .args(arguments)
            .env_remove("RUST_LOG")
            .envs(environment.iter().copied())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        let (sender, said) = channel();
        std::thread::spawn(move || {
            for line in lines.map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Process { child, said }
    }

    pub async fn stop(self) {
        self.clusters.stop().await;
        self.serving.abort();
        drop(std::fs::remove_file(self.kubeconfig));
    }
}

fn config(address: SocketAddr) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: 'http://{address}'}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
         users: [{{name: u, user: {{token: {SECRET}}}}}]\n"
    )
}

/// A running binary; dropping it kills it.
pub struct Process {
    child: Child,
    said: Receiver<String>,
}

impl Process {
    /// SIGTERM, and what it came to: the exit code, how long it took, all lines of standard error.
    pub fn terminate(mut self) -> (Option<i32>, Duration, Vec<String>) {
        let told = Instant::now();
        let killed = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        let code = self.child.wait().unwrap().code();
        (code, told.elapsed(), self.said.iter().collect())
    }

    /// The next line that has `word`.
    pub fn line_with(&self, word: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let line = self
                .said
                .recv_timeout(left)
                .unwrap_or_else(|_| panic!("no line with {word}"));
            if line.contains(word) {
                return line;
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
