//! The command line as users meet it: the real binary, its output and its exit codes.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

mod cel;
mod conditions;
mod gate;
mod kubectl;
mod lint;
mod playground;
mod run;
mod small;
mod status;
mod view;

/// The binary with arguments, run to its end.
fn stagegate(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagegate"));
    command.args(arguments).env_remove("KUBECONFIG").env_remove("RUST_LOG");
    command.output().expect("the binary was built with this test")
}

/// The same with a text on standard input.
fn stagegate_reading(arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_stagegate"));
    command.args(arguments).env_remove("KUBECONFIG").env_remove("RUST_LOG");
    command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().expect("the binary was built with this test");
    let written = child.stdin.take().expect("a pipe").write_all(input.as_bytes());
    written.expect("it reads its input");
    child.wait_with_output().expect("it ends")
}

/// A path inside this crate's `tests` folder.
fn tests(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(path)
}

/// A path from the repository's root.
fn repository(path: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    root.join(path).display().to_string()
}

/// The `.yaml` files of a folder of cases, in name order.
fn cases(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(tests(folder)).expect("the folder of cases is in the repository");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    assert!(!files.is_empty(), "no case in {folder}");
    files
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is text")
}
