//! The image: the steps of the Dockerfile, worked through without a container engine, and the program in the file system that comes of
//! them. Must not pull anything: on the empty base only.
//!
//! The program is that of the folder `STAGEGATE_DIST`, which `make dist` has written. Without one, the program that was built
//! for these tests is linked once more, as `make dist` links it; it is not optimised then, and has every feature.

use std::collections::BTreeMap;
use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use stagegate_clock::TokioClock;
use stagegate_embedded::Server;
use tokio::net::TcpListener;

use super::{PLAIN, Rendered, read, root};

/// For anything on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(60);

/// Each instruction with what follows it.
fn instructions() -> Vec<(String, String)> {
    let text = read("deploy/Dockerfile");
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let split = lines.map(|line| line.split_once(' ').unwrap_or_else(|| panic!("{line}: no instruction")));
    split.map(|(name, rest)| (name.to_owned(), rest.to_owned())).collect()
}

fn value_of(instruction: &str) -> Vec<String> {
    let all = instructions().into_iter().filter(|(name, _)| name == instruction);
    all.map(|(_, value)| value).collect()
}

#[test]
fn the_image_runs_as_the_user_of_the_manifests_and_names_no_registry() {
    assert_eq!(value_of("FROM"), ["${BASE}"], "the base comes by an argument only");
    assert_eq!(value_of("ARG"), ["BASE=scratch"]);
    assert_eq!(value_of("ENTRYPOINT"), ["[\"/stagegate\"]"]);
    let Some(rendered) = Rendered::by_kustomize(PLAIN) else {
        return;
    };
    let security = &rendered.deployment().expect("a Deployment")["spec"]["template"]["spec"]["securityContext"];
    let user = format!("{}:{}", security["runAsUser"], security["runAsGroup"]);
    assert_eq!(value_of("USER"), [user]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_image_starts_with_no_library_and_not_as_root() {
    let folder = Folder::new();
    let Some(context) = context(&folder.0) else { return };
    let image = Image::build(&context, folder.0.join("root"));
    let program = image.root.join("stagegate");
    let loaded = loaded_with(&fs::read(&program).expect("the Dockerfile brings the program"));
    assert!(loaded.is_empty(), "the program is not static: {loaded:?}");
    assert!(image.root.join("licenses/stagegate/NOTICE").exists());

    let printed = image.command(&["version"]).output().expect("chroot or unshare");
    let (out, said) = (text(&printed.stdout), text(&printed.stderr));
    if ["chroot: ", "unshare: "].iter().any(|tool| said.starts_with(tool)) {
        crate::tell(&format!(
            "SKIPPED: nothing can be run in another root here ({}); the image was not started",
            said.trim()
        ));
        return;
    }
    assert_eq!(out, format!("stagegate {}\n", env!("CARGO_PKG_VERSION")), "{said}");

    // By its command, against an API server that it knows by name, as it knows one beside KubeStellar.
    let server = Server::new(TokioClock::shared());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
    let address = listener.local_addr().expect("it is bound");
    let kubeconfig = server.kubeconfig(address).replace("127.0.0.1", "wds.example");
    // The empty base has no certificates, so a kubeconfig has to name an authority; nothing here is signed by it.
    let of_authority = "    certificate-authority: /etc/authority.pem\n    server:";
    let kubeconfig = kubeconfig.replace("    server:", of_authority);
    let of_cluster = [
        ("kubeconfig", kubeconfig.as_str()),
        ("authority.pem", include_str!("authority.pem")),
        ("hosts", "127.0.0.1 wds.example\n"),
        ("nsswitch.conf", "hosts: files\n"),
    ];
    fs::create_dir(image.root.join("etc")).expect("the image has no etc");
    for (name, content) in of_cluster {
        fs::write(image.root.join("etc").join(name), content).expect("a folder of ours");
    }
    let serving = tokio::spawn(async move { server.serve(listener, std::future::pending::<()>()).await });
    let arguments: Vec<&str> = image
        .arguments
        .iter()
        .map(String::as_str)
        .chain(["--kubeconfig", "/etc/kubeconfig"])
        .collect();
    tokio::task::block_in_place(|| {
        let mut started = Started(
            image
                .command(&arguments)
                .stderr(Stdio::piped())
                .spawn()
                .expect("as before"),
        );
        let (sender, lines) = mpsc::channel();
        let read = BufReader::new(started.0.stderr.take().expect("a pipe")).lines();
        std::thread::spawn(move || read.map_while(Result::ok).try_for_each(|line| sender.send(line)));
        let mut said = String::new();
        // It has found the server, and asks for its kinds, of which there are none.
        while !said.contains("waiting for its CustomResourceDefinition") {
            let line = lines
                .recv_timeout(PATIENCE)
                .unwrap_or_else(|ended| panic!("{ended}; it has said:\n{said}"));
            said = format!("{said}{line}\n");
        }
        assert_eq!(user_of(started.0.id()), image.user);
    });
    serving.abort();
}

/// What the Dockerfile makes of a folder.
struct Image {
    root: PathBuf,
    /// `user:group`.
    user: String,
    entrypoint: Vec<String>,
    arguments: Vec<String>,
}

impl Image {
    fn build(context: &Path, root: PathBuf) -> Self {
        let (user, entrypoint, arguments) = Default::default();
        let mut image = Self {
            root,
            user,
            entrypoint,
            arguments,
        };
        let mut values = BTreeMap::new();
        let words = |json: &str| serde_json::from_str(json).expect("a JSON array, and so no shell");
        for (name, value) in instructions() {
            match (name.as_str(), value.as_str()) {
                ("ARG", value) => {
                    let (name, value) = value.split_once('=').expect("a default");
                    values.insert(format!("${{{name}}}"), value.to_owned());
                }
                ("FROM", base) => {
                    assert_eq!(values.get(base).map(String::as_str), Some("scratch"));
                    fs::create_dir(&image.root).expect("one stage");
                }
                ("COPY", ". /") => copy(context, &image.root),
                ("USER", user) => user.clone_into(&mut image.user),
                ("ENTRYPOINT", json) => image.entrypoint = words(json),
                ("CMD", json) => image.arguments = words(json),
                (name, value) => panic!("{name} {value}: nothing here knows what that does"),
            }
        }
        image
    }

    /// The entry point, in the image's file system and as its user.
    fn command(&self, arguments: &[&str]) -> Command {
        let (user, group) = self.user.split_once(':').expect("user and group");
        let mut command = if rustix::process::getuid().is_root() {
            let mut command = Command::new("chroot");
            command
                .arg(format!("--userspec={}", self.user))
                .arg(format!("--groups={group}"))
                .arg(&self.root);
            command
        } else {
            let mut command = Command::new("unshare");
            command
                .arg(format!("--map-user={user}"))
                .arg(format!("--map-group={group}"));
            command.arg("--user").arg(format!("--root={}", self.root.display()));
            command
        };
        command.args(&self.entrypoint).args(arguments).env_clear();
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        command
    }
}

/// With permissions, as `COPY` copies.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder of the context") {
        let entry = entry.expect("a readable entry");
        let to = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir(&to).expect("nothing is copied twice");
            copy(&entry.path(), &to);
        } else {
            fs::copy(entry.path(), to).expect("a readable file");
        }
    }
}

/// The files of the image: those of `make dist`, or such as it would write. `None` where there are none, and says so.
fn context(folder: &Path) -> Option<PathBuf> {
    if let Some(dist) = std::env::var_os("STAGEGATE_DIST") {
        return Some(PathBuf::from(dist).join("image"));
    }
    if !cfg!(all(target_os = "linux", target_env = "gnu")) {
        crate::tell("SKIPPED: images are for Linux with glibc; none was put together");
        return None;
    }
    let context = folder.join("image");
    let licenses = context.join("licenses/stagegate");
    fs::create_dir_all(&licenses).expect("a folder of ours");
    for name in ["LICENSE", "NOTICE"] {
        fs::copy(root().join(name), licenses.join(name)).expect("the repository has it");
    }
    let program = context.join("stagegate");
    let linked = link(&program);
    if linked.contains("-lc") || linked.contains("libc.a") {
        crate::tell("SKIPPED: there is no static C library; the image was not put together");
        return None;
    }
    assert!(program.exists(), "{linked}");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("a file of ours");
    Some(context)
}

/// Compiles `main` once more and links it with the library that was built for this test; says what went wrong. Must not ask cargo: without
/// the features of development dependencies it would build most of the libraries anew, and the program that other tests run.
fn link(to: &Path) -> String {
    let libraries = Path::new(env!("CARGO_BIN_EXE_stagegate")).with_file_name("deps");
    let library = newest_library(&libraries);
    let linked = Command::new(Path::new(env!("CARGO")).with_file_name("rustc"))
        .args([
            "--edition",
            "2024",
            "--crate-name",
            "stagegate",
            "host/stagegate/src/main.rs",
        ])
        .arg(format!("--extern=stagegate={}", library.display()))
        .arg(format!("-Ldependency={}", libraries.display()))
        .args(["-C", "target-feature=+crt-static", "-C", "strip=symbols", "-o"])
        .arg(to)
        .current_dir(root())
        .output();
    text(&linked.expect("rustc is beside cargo").stderr)
}

/// Of those that were there when this test was linked, for it is made of one of them.
fn newest_library(folder: &Path) -> PathBuf {
    let made = |path: &Path| fs::metadata(path).and_then(|file| file.modified()).expect("a file");
    let test = made(&std::env::current_exe().expect("this program has a path"));
    let files = fs::read_dir(folder).expect("the folder of libraries");
    let paths = files.map(|file| file.expect("a readable entry").path());
    let libraries = paths.filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let hash = name
            .strip_prefix("libstagegate-")
            .and_then(|rest| rest.strip_suffix(".rlib"));
        hash.is_some() && made(path) <= test
    });
    let newest = libraries.max_by_key(|path| made(path));
    newest.unwrap_or_else(|| panic!("{} holds no library that this test was linked with", folder.display()))
}

/// Interpreters and shared libraries that an ELF file of 64 bits asks for, by the numbers of its program headers and dynamic entries.
fn loaded_with(elf: &[u8]) -> Vec<String> {
    const INTERPRETER: u64 = 3;
    const DYNAMIC: u64 = 2;
    const NEEDED: u64 = 1;
    let number = |at: usize, bytes: usize| {
        let field = &elf[at..at + bytes];
        field
            .iter()
            .rev()
            .fold(0, |number, byte| (number << 8) | u64::from(*byte))
    };
    let place = |at: usize| usize::try_from(number(at, 8)).expect("within the file");
    assert_eq!(elf[..6], *b"\x7fELF\x02\x01", "64 bits, little-endian");
    let (headers, size) = (place(0x20), usize::try_from(number(0x36, 2)).expect("16 bits"));
    let mut found = Vec::new();
    for header in (0..usize::try_from(number(0x38, 2)).expect("16 bits")).map(|index| headers + index * size) {
        let (from, length) = (place(header + 0x08), place(header + 0x20));
        match number(header, 4) {
            INTERPRETER => found.push(text(&elf[from..from + length])),
            DYNAMIC => {
                let entries = (from..from + length).step_by(16);
                found.extend(
                    entries
                        .filter(|entry| number(*entry, 8) == NEEDED)
                        .map(|_| "a library".to_owned()),
                );
            }
            _ => {}
        }
    }
    found
}

/// As it is called where the process is: with user namespaces, another one than here.
fn user_of(process: u32) -> String {
    let read = |name: &str| fs::read_to_string(format!("/proc/{process}/{name}")).expect("it runs");
    let status = read("status");
    let inside = |name: &str, map: &str| {
        let line = status
            .lines()
            .find(|line| line.starts_with(name))
            .expect("a line of status");
        let outside: u64 = line
            .split_whitespace()
            .nth(1)
            .and_then(|id| id.parse().ok())
            .expect("a number");
        let map = read(map);
        let ranges = map.lines().map(|line| {
            let range: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
            (range[0], range[1], range[2])
        });
        let mut mapped = ranges.filter(|(_, from, length)| (*from..from + length).contains(&outside));
        mapped
            .next()
            .map(|(to, from, _)| to + outside - from)
            .expect("it is mapped")
    };
    format!("{}:{}", inside("Uid:", "uid_map"), inside("Gid:", "gid_map"))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Goes with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("image");
        drop(fs::remove_dir_all(&folder));
        fs::create_dir_all(&folder).expect("cargo's own folder");
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.0));
    }
}

struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}
