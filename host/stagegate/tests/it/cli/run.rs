//! `stagegate run` against an API server over a socket.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use stagegate_api::{Binding, BindingPolicy, crd};
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// For anything on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// An API server on loopback.
pub(super) struct Served {
    pub(super) server: Server,
    pub(super) kubeconfig: PathBuf,
    serving: JoinHandle<()>,
}

impl Served {
    pub(super) async fn start(test: &str) -> Self {
        let server = Server::new(TokioClock::shared());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let file = format!("stagegate-test-{}-{test}.kubeconfig", std::process::id());
        let kubeconfig = std::env::temp_dir().join(file);
        std::fs::write(&kubeconfig, server.kubeconfig(listener.local_addr().unwrap())).unwrap();
        let of = server.clone();
        let serving = tokio::spawn(async move { of.serve(listener, std::future::pending::<()>()).await.unwrap() });
        Self {
            server,
            kubeconfig,
            serving,
        }
    }

    fn run(&self, args: &[&str]) -> Process {
        let mut child = Command::new(env!("CARGO_BIN_EXE_stagegate"))
            .args(["run", "--kubeconfig"])
            .arg(&self.kubeconfig)
            .args(args)
            .env_remove("RUST_LOG")
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let read = BufReader::new(child.stderr.take().unwrap()).lines();
        std::thread::spawn(move || read.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Process {
            child,
            lines,
            said: Vec::new(),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.serving.abort();
        drop(std::fs::remove_file(&self.kubeconfig));
    }
}

/// The program, and what it has said so far.
struct Process {
    child: Child,
    lines: mpsc::Receiver<String>,
    said: Vec<String>,
}

impl Process {
    /// Waits for a line that holds the text.
    fn until_says(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
            self.said.push(line);
            if self.said.last().unwrap().contains(text) {
                return;
            }
        }
        panic!("it never said {text:?}:\n{}", self.said.join("\n"));
    }

    fn terminate(&self) {
        let told = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(told.unwrap().success());
    }

    /// Waits for its end; gives the rest of what it said, too.
    fn end(&mut self) -> (ExitStatus, String) {
        let end = Instant::now() + PATIENCE;
        let status = loop {
            match self.child.try_wait().unwrap() {
                Some(status) => break status,
                None if Instant::now() > end => panic!("it does not end:\n{}", self.said.join("\n")),
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        self.said.extend(self.lines.iter());
        (status, self.said.join("\n"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kinds_that_are_missing_are_waited_for_with_a_message_and_sigterm_ends_it_cleanly() {
    let served = Served::start("kinds").await;
    let ended = tokio::task::block_in_place(|| {
        let mut host = served.run(&[]);
        host.until_says("stagedbindingpolicies");
        host.terminate();
        host.end()
    });
    assert_eq!(ended.0.code(), Some(0), "{}", ended.1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_controller_names_each_kind_that_it_waits_for_once_and_goes_on_when_it_is_there() {
    let served = Served::start("named").await;
    let mut host = tokio::task::block_in_place(|| {
        let mut host = served.run(&["--controllers", "binding,combine"]);
        // Of the kinds' watches none is the last for sure, so each gets the time of a few tries.
        for _ in 0..6 {
            host.until_says("waiting for its CustomResourceDefinition");
        }
        std::thread::sleep(Duration::from_secs(3));
        host
    });
    served.server.install_crds(crd::all_for_playground()).unwrap();
    let policies: Api<BindingPolicy> = Api::all(served.server.client());
    let policy = json!({"metadata": {"name": "web"}, "spec": {"downsync": [{"resources": ["configmaps"]}]}});
    let policy = serde_json::from_value(policy).unwrap();
    policies.create(&PostParams::default(), &policy).await.unwrap();
    let bindings: Api<Binding> = Api::all(served.server.client());
    let end = Instant::now() + PATIENCE;
    while bindings.get_opt("web").await.unwrap().is_none() {
        assert!(Instant::now() < end, "no Binding");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (status, said) = tokio::task::block_in_place(|| {
        host.terminate();
        host.end()
    });
    assert_eq!(status.code(), Some(0), "{said}");
    let mut waited = BTreeMap::<String, usize>::new();
    for line in said
        .lines()
        .filter(|line| line.contains("waiting for its CustomResourceDefinition"))
    {
        let kind = line
            .split("kind=")
            .nth(1)
            .and_then(|rest| rest.split(['"', ' ']).find(|word| !word.is_empty()));
        *waited.entry(kind.unwrap_or_default().to_owned()).or_default() += 1;
    }
    let kinds = [
        "bindingpolicies",
        "bindings",
        "combinedstatuses",
        "managedclusters",
        "statuscollectors",
        "workstatuses",
    ];
    let once: BTreeMap<String, usize> = kinds.iter().map(|kind| ((*kind).to_owned(), 1)).collect();
    assert_eq!(waited, once, "{said}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_is_told_to_end_lets_the_other_replica_lead_at_once() {
    let served = Served::start("lease").await;
    served.server.install_crds(crd::all_for_playground()).unwrap();
    let leases: Api<Lease> = Api::namespaced(served.server.client(), "default");
    let elected = [
        "--leader-elect",
        "--lease-namespace",
        "default",
        "--lease-name",
        "web",
        "--lease-duration",
        "10s",
    ];
    let (mut first, mut second) = tokio::task::block_in_place(|| {
        let mut first = served.run(&elected);
        first.until_says("leading");
        let mut second = served.run(&elected);
        second.until_says("standing by");
        (first, second)
    });
    let held = leases.get("web").await.unwrap().spec.unwrap();
    let (lasts, holder) = (held.lease_duration_seconds, held.holder_identity.unwrap_or_default());
    assert_eq!(lasts, Some(10));
    assert!(holder.len() > 37, "a machine and a number of its own: {holder}");
    let released = Instant::now();
    tokio::task::block_in_place(|| {
        first.terminate();
        let (status, said) = first.end();
        assert_eq!(status.code(), Some(0), "{said}");
        second.until_says("leading");
    });
    assert!(
        released.elapsed() < Duration::from_secs(8),
        "before the lease has expired: {:?}",
        released.elapsed()
    );
    let taken = leases.get("web").await.unwrap().spec.unwrap();
    assert_eq!(taken.lease_transitions, Some(1));
    assert_ne!(taken.holder_identity, Some(holder));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_kubestellar_our_own_parts_end_with_exit_code_4_and_the_reason() {
    let served = Served::start("rivals").await;
    served.server.install_crds(crd::all_for_playground()).unwrap();
    let policies: Api<BindingPolicy> = Api::all(served.server.client());
    let policy = json!({"metadata": {"name": "theirs"}, "spec": {"downsync": [{"resources": ["configmaps"]}]}});
    let policy = serde_json::from_value(policy).unwrap();
    policies.create(&PostParams::default(), &policy).await.unwrap();
    let mut host = tokio::task::block_in_place(|| {
        let mut host = served.run(&["--controllers", "staging,binding"]);
        host.until_says("starting");
        host
    });
    let patch = json!({"metadata": {"finalizers": ["bindingpolicy.kubestellar.io/kscontroller"]}});
    policies
        .patch("theirs", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    let (status, said) = tokio::task::block_in_place(|| host.end());
    assert_eq!(status.code(), Some(4), "{said}");
    for word in [
        "BindingPolicy theirs",
        "bindingpolicy.kubestellar.io/kscontroller",
        "--controllers staging",
    ] {
        assert!(said.contains(word), "{word} is not in:\n{said}");
    }
}

#[test]
fn a_lease_needs_an_election_and_a_sensible_duration() {
    let refused: &[&[&str]] = &[
        &["--lease-duration", "15s"],
        &["--lease-name", "web"],
        &["--leader-elect", "--lease-duration", "999ms"],
        &["--leader-elect", "--lease-duration", "601s"],
        &["--leader-elect", "--lease-name", "Not a name"],
        &["--leader-elect", "--lease-namespace", "not.a.label"],
    ];
    for args in refused {
        let ended = Command::new(env!("CARGO_BIN_EXE_stagegate"))
            .arg("run")
            .args(*args)
            .output()
            .unwrap();
        assert_eq!(
            ended.status.code(),
            Some(2),
            "{args:?}: {}",
            String::from_utf8_lossy(&ended.stderr)
        );
    }
}
