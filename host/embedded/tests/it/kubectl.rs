//! kubectl against the server over a socket. Skipped, with a line that says so, where there is no kubectl.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use serde_json::json;
use stagegate_embedded::Server;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::Command;

use crate::fixture::{server, widgets};

/// A served widget server, and a directory for kubectl's files.
struct Setup {
    server: Server,
    client: kube::Client,
    directory: PathBuf,
    _stop: tokio::sync::oneshot::Sender<()>,
}

struct Output {
    ok: bool,
    text: String,
}

impl Setup {
    /// `None` without kubectl.
    async fn new(name: &str) -> Option<Setup> {
        if Command::new("kubectl")
            .arg("version")
            .arg("--client")
            .output()
            .await
            .is_err()
        {
            eprintln!("skipped: kubectl is not on PATH");
            return None;
        }
        let (server, client) = server();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let directory = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("kubeconfig"), server.kubeconfig(address)).unwrap();
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let served = server.clone();
        tokio::spawn(async move {
            let stopped = async { drop(stopped.await) };
            served.serve(listener, stopped).await.unwrap();
        });
        Some(Setup {
            server,
            client,
            directory,
            _stop: stop,
        })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("kubectl");
        command
            .args(line.split(' '))
            .env("KUBECONFIG", self.directory.join("kubeconfig"))
            .env("HOME", &self.directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        command
    }

    async fn kubectl(&self, line: &str) -> Output {
        self.kubectl_with(line, "").await
    }

    async fn kubectl_with(&self, line: &str, input: &str) -> Output {
        let mut child = self.command(line).spawn().unwrap();
        child.stdin.take().unwrap().write_all(input.as_bytes()).await.unwrap();
        let done = tokio::time::timeout(Duration::from_secs(60), child.wait_with_output()).await;
        let output = done.unwrap_or_else(|_| panic!("kubectl {line}: hangs")).unwrap();
        let text = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        Output {
            ok: output.status.success(),
            text,
        }
    }

    /// Runs it and wants it to work and to say `wanted`.
    async fn expect(&self, line: &str, wanted: &str) -> String {
        let output = self.kubectl(line).await;
        assert!(
            output.ok && output.text.contains(wanted),
            "kubectl {line}: wanted {wanted:?}\n{}",
            output.text
        );
        output.text
    }
}

const RED: &str = "apiVersion: test.stagegate.dev/v1\nkind: Widget\nmetadata: {name: a}\nspec: {colour: red}\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_applied_shown_changed_and_deleted() {
    let Some(setup) = Setup::new("objects").await else {
        return;
    };
    let applied = setup.kubectl_with("apply -f -", RED).await;
    assert!(applied.ok && applied.text.contains("created"), "{}", applied.text);
    setup.expect("get widgets", "red").await;
    setup.expect("get wd a -o yaml", "colour: red").await;
    setup.expect("describe widget a", "Colour:  red").await;
    setup.expect("label widget a tier=x", "labeled").await;
    setup
        .expect("get widgets -l tier=x -o name", "widget.test.stagegate.dev/a")
        .await;
    setup.expect("annotate widget a note=x", "annotated").await;
    setup
        .expect(
            "patch widget a --type=merge -p {\"spec\":{\"colour\":\"blue\"}}",
            "patched",
        )
        .await;
    setup
        .expect(
            "patch widget a --type=json -p [{\"op\":\"remove\",\"path\":\"/spec/colour\"}]",
            "patched",
        )
        .await;
    let again = setup.kubectl_with("apply -f -", RED).await;
    assert!(again.ok && again.text.contains("configured"), "{}", again.text);
    let same = setup.kubectl_with("apply -f -", RED).await;
    assert!(same.ok && same.text.contains("unchanged"), "{}", same.text);
    let dry = setup
        .kubectl_with("apply -f - --dry-run=server", &RED.replace("red", "green"))
        .await;
    assert!(dry.ok && dry.text.contains("server dry run"), "{}", dry.text);
    let diff = setup.kubectl_with("diff -f -", &RED.replace("red", "green")).await;
    assert!(diff.text.contains("+  colour: green"), "{}", diff.text);
    setup
        .expect(
            "patch widget a --subresource=status --type=merge -p {\"status\":{\"seen\":3}}",
            "patched",
        )
        .await;
    setup
        .expect(
            "wait widget a --for=jsonpath={.status.seen}=3 --timeout=10s",
            "condition met",
        )
        .await;
    setup.expect("delete widget a", "deleted").await;
    let gone = setup.kubectl("get widget a").await;
    assert!(!gone.ok && gone.text.contains("NotFound"), "{}", gone.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mistakes_are_refused_by_the_server() {
    let Some(setup) = Setup::new("mistakes").await else {
        return;
    };
    let unknown = setup.kubectl_with("apply -f -", &RED.replace("colour", "taste")).await;
    assert!(
        !unknown.ok && unknown.text.contains("unknown field \"spec.taste\""),
        "{}",
        unknown.text
    );
    let wrong = setup.kubectl_with("create -f -", &RED.replace("red", "[1]")).await;
    assert!(
        !wrong.ok && wrong.text.contains("spec.colour: Invalid value"),
        "{}",
        wrong.text
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn server_side_apply_reports_conflicts() {
    let Some(setup) = Setup::new("apply").await else { return };
    let first = setup
        .kubectl_with("apply --server-side --field-manager=one -f -", RED)
        .await;
    assert!(first.ok && first.text.contains("serverside-applied"), "{}", first.text);
    let blue = RED.replace("red", "blue");
    let second = setup
        .kubectl_with("apply --server-side --field-manager=two -f -", &blue)
        .await;
    assert!(
        !second.ok && second.text.contains("conflict with \"one\": .spec.colour"),
        "{}",
        second.text
    );
    let forced = setup
        .kubectl_with("apply --server-side --force-conflicts --field-manager=two -f -", &blue)
        .await;
    assert!(forced.ok, "{}", forced.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_changes_an_object() {
    let Some(setup) = Setup::new("edit").await else { return };
    setup.kubectl_with("apply -f -", RED).await;
    let editor = setup.directory.join("editor.sh");
    std::fs::write(&editor, "#!/bin/sh\nsed -i 's/colour: red/colour: green/' \"$1\"\n").unwrap();
    let output = setup
        .command("edit widget a")
        .env("KUBE_EDITOR", format!("sh {}", editor.display()))
        .output()
        .await
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(widgets(&setup.client).get("a").await.unwrap().spec.colour, "green");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_are_watched() {
    let Some(setup) = Setup::new("watch").await else { return };
    setup.kubectl_with("apply -f -", RED).await;
    let mut child = setup.command("get widgets -w").spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = async |wanted: &str| {
        let read = async {
            while let Some(line) = lines.next_line().await.unwrap() {
                if line.contains(wanted) {
                    return;
                }
            }
            panic!("the watch ended before {wanted:?}");
        };
        tokio::time::timeout(Duration::from_secs(60), read).await.unwrap();
    };
    next("red").await;
    let patch = Patch::Merge(json!({"spec": {"colour": "blue"}}));
    widgets(&setup.client)
        .patch("a", &PatchParams::default(), &patch)
        .await
        .unwrap();
    next("blue").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_are_awaited() {
    let Some(setup) = Setup::new("wait").await else { return };
    setup
        .expect(
            "wait crd/widgets.test.stagegate.dev --for=condition=Established --timeout=10s",
            "condition met",
        )
        .await;
    setup.kubectl_with("apply -f -", RED).await;
    let waiting = setup.kubectl("wait widget a --for=delete --timeout=30s");
    let deleting = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        widgets(&setup.client).delete("a", &Default::default()).await.unwrap();
    };
    let (waited, ()) = tokio::join!(waiting, deleting);
    assert!(waited.ok, "{}", waited.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_api_is_discovered_and_explained() {
    let Some(setup) = Setup::new("explain").await else {
        return;
    };
    setup.expect("api-resources", "widgets").await;
    setup.expect("api-versions", "test.stagegate.dev/v1").await;
    setup.expect("explain widget.spec", "colour").await;
    setup.expect("version", "Server Version: v1.34").await;
    setup.expect("get namespaces", "Active").await;
    setup.expect("get all -A", "No resources found").await;
    setup.expect("describe namespace default", "Status:       Active").await;
    assert!(setup.server.requests().count("list", "namespaces") > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn built_in_kinds_are_applied_and_described() {
    let Some(setup) = Setup::new("builtin").await else {
        return;
    };
    let manifest = r#"{"apiVersion": "v1", "kind": "List", "items": [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"k": "v"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"k": "v"}},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
            "selector": {"matchLabels": {"x": "y"}}, "template": {"metadata": {"labels": {"x": "y"}},
            "spec": {"containers": [{"name": "a", "image": "a:1", "ports": [{"containerPort": 80}]}]}}}}]}"#;
    let applied = setup.kubectl_with("apply -f -", manifest).await;
    assert!(applied.ok, "{}", applied.text);
    let changed = setup.kubectl_with("apply -f -", &manifest.replace("a:1", "a:2")).await;
    assert!(
        changed.ok && changed.text.contains("deployment.apps/d configured"),
        "{}",
        changed.text
    );
    setup
        .expect(
            "get deployment d -o jsonpath={.spec.template.spec.containers[0].image}",
            "a:2",
        )
        .await;
    setup
        .expect("get deployment d -o jsonpath={.metadata.generation}", "2")
        .await;
    setup.expect("get secret s -o jsonpath={.data.k}", "dg==").await;
    setup.expect("describe configmap c", "Data").await;
    setup.expect("describe deployment d", "a:2").await;
    setup.expect("get deployments", "AVAILABLE").await;
    setup.expect("set image deployment/d a=a:3", "image updated").await;
    setup
        .expect("delete configmap,secret,deployment --all", "deleted")
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_are_created_by_flags() {
    let Some(setup) = Setup::new("flags").await else { return };
    let file = setup.directory.join("gate.wasm");
    std::fs::write(&file, b"\0asm\xff\xfe").unwrap();
    setup.expect("create namespace gates", "namespace/gates created").await;
    let line = format!(
        "create configmap gate -n gates --from-file={} --from-literal=k=v",
        file.display()
    );
    setup.expect(&line, "configmap/gate created").await;
    setup
        .expect(
            "get configmap gate -n gates -o jsonpath={.data.k}:{.binaryData}",
            "v:{\"gate.wasm\":\"AGFzbf/+\"}",
        )
        .await;
    setup
        .expect("create secret generic s --from-literal=k=v", "secret/s created")
        .await;
    setup
        .expect("get secret s -o jsonpath={.data.k}:{.type}", "dg==:Opaque")
        .await;
    setup
        .expect("create serviceaccount a", "serviceaccount/a created")
        .await;
    setup.expect("delete namespace gates", "deleted").await;
}

/// Bytes that no text is, and that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_be_bytes()[0]
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_config_map_of_a_large_file_is_created_by_flags_and_one_beyond_a_mebibyte_is_refused() {
    let Some(setup) = Setup::new("large").await else { return };
    let maps: Api<ConfigMap> = Api::namespaced(setup.client.clone(), "default");
    for (name, length) in [("small", 100_000), ("large", 700_000), ("most", 1 << 20)] {
        let (file, bytes) = (setup.directory.join("gate.wasm"), noise(length));
        std::fs::write(&file, &bytes).unwrap();
        let line = format!("create configmap {name} --from-file={}", file.display());
        setup.expect(&line, &format!("configmap/{name} created")).await;
        let stored = maps.get(name).await.unwrap().binary_data.unwrap();
        assert!(stored["gate.wasm"].0 == bytes, "{name} is not what was sent");
    }
    let file = setup.directory.join("gate.wasm");
    std::fs::write(&file, noise((1 << 20) + 1)).unwrap();
    let refused = setup
        .kubectl(&format!("create configmap more --from-file={}", file.display()))
        .await;
    assert!(
        !refused.ok && refused.text.contains("may not be more than 1048576 bytes"),
        "{}",
        refused.text
    );
    let slim: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(setup.client.clone(), "default");
    let large = slim.get("large").await.unwrap();
    assert_eq!(
        large.metadata.resource_version,
        maps.get("large").await.unwrap().metadata.resource_version
    );
    setup.expect("get configmaps", "most").await;
    setup.expect("delete configmap large", "deleted").await;
}
