//! kubectl against `playground --serve`: the table below `kubectl/`, one file a subject. Each file is worked through in a
//! namespace of its own, with the files that it brings; all share one playground with the three-stage sample, whose
//! rollout waits in stage test for a gate that is not there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;

use super::{cases, repository, text};

/// One file of the table.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Subject {
    /// Name → content, put into the folder that the steps run in.
    #[serde(default)]
    files: BTreeMap<String, String>,
    steps: Vec<Step>,
}

/// One command line and all that is held against what it did.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// For a shell, after `kubectl `.
    kubectl: String,
    /// Before the command.
    #[serde(default)]
    env: BTreeMap<String, String>,
    #[serde(default)]
    exit: i32,
    /// Parts of standard output.
    #[serde(default)]
    out: Vec<String>,
    /// All of standard output, without space at its ends.
    equals: Option<String>,
    /// Parts of standard error.
    #[serde(default)]
    err: Vec<String>,
    /// Parts of neither.
    #[serde(default)]
    lacks: Vec<String>,
    /// Tried again for so many seconds: for what others bring about.
    #[serde(default)]
    within_s: u64,
}

struct Playground {
    process: Child,
    folder: PathBuf,
}

impl Drop for Playground {
    fn drop(&mut self) {
        drop(self.process.kill().and_then(|()| self.process.wait()));
        drop(std::fs::remove_dir_all(&self.folder));
    }
}

impl Playground {
    fn start() -> Playground {
        let folder = std::env::temp_dir().join(format!("stagegate-test-{}-kubectl", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary directory is writable");
        let process = Command::new(env!("CARGO_BIN_EXE_stagegate"))
            .args(["playground", &repository("deploy/examples/three-stages"), "--serve"])
            .arg("--kubeconfig")
            .arg(folder.join("kubeconfig"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the binary was built with this test");
        let plugin = folder.join("kubectl-stagegate");
        std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_stagegate"), plugin)
            .expect("the temporary directory is writable");
        let playground = Playground { process, folder };
        let ready = Step {
            kubectl: "wait sbp/nginx --for=jsonpath='{.status.reason}'=GateModuleMissing --timeout=20s".to_owned(),
            env: BTreeMap::new(),
            exit: 0,
            out: Vec::new(),
            equals: None,
            err: Vec::new(),
            lacks: Vec::new(),
            within_s: 20,
        };
        let faults = playground.hold(&ready, &playground.folder);
        assert!(faults.is_empty(), "the playground does not get ready: {faults:?}");
        playground
    }

    /// A folder and a namespace of its own; says how to reach them.
    fn room(&self, name: &str) -> PathBuf {
        let room = self.folder.join(name);
        std::fs::create_dir_all(&room).expect("the temporary directory is writable");
        let kubeconfig = std::fs::read_to_string(self.folder.join("kubeconfig")).expect("written before it is ready");
        let own = kubeconfig.replace("namespace: default", &format!("namespace: {name}"));
        std::fs::write(room.join("kubeconfig"), own).expect("the temporary directory is writable");
        let made = self.run(&format!("create namespace {name}"), &BTreeMap::new(), &room);
        assert!(made.status.success(), "{}", text(&made.stderr));
        room
    }

    fn run(&self, line: &str, env: &BTreeMap<String, String>, room: &Path) -> Output {
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("kubectl {line}")])
            .current_dir(room)
            .env("KUBECONFIG", room.join("kubeconfig"))
            .env("HOME", &self.folder)
            .env("PATH", path_with(&self.folder))
            .envs(env)
            .stdin(Stdio::null());
        command.output().expect("sh exists")
    }

    /// What is wrong with what the step did.
    fn hold(&self, step: &Step, room: &Path) -> Vec<String> {
        let begun = Instant::now();
        loop {
            let faults = step.faults(&self.run(&step.kubectl, &step.env, room));
            if faults.is_empty() || begun.elapsed() >= Duration::from_secs(step.within_s) {
                return faults;
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

impl Step {
    fn faults(&self, output: &Output) -> Vec<String> {
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        let mut faults = Vec::new();
        if output.status.code() != Some(self.exit) {
            faults.push(format!("exit code {:?}, not {}", output.status.code(), self.exit));
        }
        if let Some(equals) = &self.equals
            && out.trim() != equals.trim()
        {
            faults.push(format!("stdout is not {equals:?}"));
        }
        let missing = |parts: &[String], of: &str, name: &str| -> Vec<String> {
            let absent = parts.iter().filter(|part| !of.contains(*part));
            absent.map(|part| format!("{part:?} is not in {name}")).collect()
        };
        faults.extend(missing(&self.out, &out, "stdout"));
        faults.extend(missing(&self.err, &err, "stderr"));
        let present = self
            .lacks
            .iter()
            .filter(|part| out.contains(*part) || err.contains(*part));
        faults.extend(present.map(|part| format!("{part:?} is in the output")));
        if !faults.is_empty() {
            faults.push(format!("stdout:\n{out}\nstderr:\n{err}"));
        }
        faults
    }
}

/// Where programs are looked for, with a folder before all others.
fn path_with(folder: &Path) -> OsString {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(&path));
    std::env::join_paths(folders).expect("the temporary directory has no colon in its name")
}

#[test]
fn kubectl_finds_in_the_playground_what_it_finds_in_a_cluster() {
    let version = Command::new("kubectl").args(["version", "--client"]).output();
    if !version.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: kubectl is not on PATH; none of the kubectl table was run");
        return;
    }
    let playground = Playground::start();
    let (mut steps, mut wrong) = (0, Vec::new());
    for path in cases("it/cli/kubectl") {
        let name = path.file_stem().expect("a file").to_string_lossy().into_owned();
        let content = std::fs::read_to_string(&path).expect("a readable file");
        let subject: Subject =
            serde_saphyr::from_str(&content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let room = playground.room(&name);
        for (file, content) in &subject.files {
            std::fs::write(room.join(file), content).expect("the temporary directory is writable");
        }
        for step in &subject.steps {
            steps += 1;
            for fault in playground.hold(step, &room) {
                wrong.push(format!("{name}: kubectl {}: {fault}", step.kubectl));
            }
        }
    }
    crate::tell(&format!("kubectl against the playground: {steps} steps"));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
