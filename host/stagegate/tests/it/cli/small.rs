//! The commands that only print, and what is common to all: usage errors and exit codes.

use std::collections::BTreeMap;

use clap::CommandFactory as _;
use stagegate::args::Args;

use super::{repository, stagegate, text};

#[test]
fn the_definitions_in_deploy_are_what_the_binary_prints() {
    let files: [(&[&str], &str); 2] = [
        (&["crds"], "deploy/crds/stagedbindingpolicies.yaml"),
        (&["crds", "--workloads"], "deploy/crds/workloads/yurtappdaemons.yaml"),
    ];
    for (arguments, path) in files {
        let printed = stagegate(arguments);
        assert_eq!(printed.status.code(), Some(0), "{arguments:?}");
        let kept = std::fs::read_to_string(repository(path)).unwrap_or_default();
        assert!(kept == text(&printed.stdout), "{path} is not fresh: run `make crds`");
    }
}

#[test]
fn completions_name_every_subcommand() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let printed = stagegate(&["completions", shell]);
        assert_eq!(printed.status.code(), Some(0), "{shell}");
        let script = text(&printed.stdout);
        for command in [
            "playground",
            "run",
            "status",
            "revisions",
            "watch",
            "lint",
            "cel",
            "crds",
            "completions",
            "man",
            "version",
        ] {
            assert!(script.contains(command), "{shell} completes no {command}");
        }
    }
}

#[test]
fn each_command_that_people_may_use_has_a_man_page() {
    fn pages(of: &clap::Command, name: &str, all: &mut BTreeMap<String, String>) {
        let about = of.get_about().expect("each command says what it does").to_string();
        all.insert(format!("{name}.1"), about);
        let visible = of.get_subcommands().filter(|command| !command.is_hide_set());
        visible.for_each(|command| pages(command, &format!("{name}-{}", command.get_name()), all));
    }
    let mut expected = BTreeMap::new();
    pages(&Args::command(), "stagegate", &mut expected);
    assert!(expected.contains_key("stagegate-gate-check.1"));
    let folder = std::env::temp_dir().join(format!("stagegate-test-{}-man", std::process::id()));
    let written = stagegate(&["man", &folder.join("made/on/the/way").display().to_string()]);
    assert_eq!(written.status.code(), Some(0), "{}", text(&written.stderr));
    let files = std::fs::read_dir(folder.join("made/on/the/way")).expect("it was made");
    let files = files.map(|file| file.expect("a readable entry").path());
    let read = files.map(|path| (path.file_name().expect("a file").to_string_lossy().into_owned(), path));
    let mut found: BTreeMap<String, String> = read
        .map(|(name, path)| (name, std::fs::read_to_string(path).expect("a page is text")))
        .collect();
    drop(std::fs::remove_dir_all(folder));
    for (name, about) in expected {
        let page = found.remove(&name).unwrap_or_else(|| panic!("{name} is missing"));
        // Hyphens and apostrophes are written with a backslash there.
        assert!(
            page.replace("\\-", "-").replace("\\*(Aq", "'").contains(&about),
            "{name} does not say {about:?}"
        );
    }
    assert!(found.is_empty(), "pages for no command: {:?}", found.keys());
}

#[test]
fn the_version_is_the_packages() {
    let printed = stagegate(&["version"]);
    assert_eq!(
        text(&printed.stdout),
        format!("stagegate {}\n", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(text(&stagegate(&["--version"]).stdout), text(&printed.stdout));
}

#[test]
fn a_usage_error_is_exit_code_2_and_leaves_standard_output_empty() {
    let wrong: [&[&str]; 10] = [
        &[],
        &["no-such-command"],
        &["playground"],
        &["playground", "x.yaml", "--until", "Perfect"],
        &["playground", "x.yaml", "--timeout", "soon"],
        &["playground", "x.yaml", "--settle", "0s"],
        &["lint"],
        &["lint", "/no/such/file.yaml"],
        &["cel", "true"],
        &["run", "--controllers", "everything"],
    ];
    for arguments in wrong {
        let ended = stagegate(arguments);
        assert_eq!(ended.status.code(), Some(2), "{arguments:?}: {}", text(&ended.stderr));
        assert_eq!(text(&ended.stdout), "", "{arguments:?}");
        assert_ne!(text(&ended.stderr), "", "{arguments:?}");
    }
}

#[test]
fn a_flag_names_one_range_for_whatever_lies_outside_of_it() {
    for (flag, range) in [
        ("--settle", "between 10ms and 10m"),
        ("--lease-duration", "between 1s and 10m"),
    ] {
        for outside in ["9ms", "601s", "25h"] {
            let ended = stagegate(&["run", "--leader-elect", flag, outside]);
            assert_eq!(ended.status.code(), Some(2), "{flag} {outside}");
            let said = text(&ended.stderr);
            assert!(said.contains(range), "{flag} {outside}: {said}");
        }
    }
}

#[test]
fn a_cluster_that_does_not_answer_is_exit_code_4() {
    let kubeconfig = std::env::temp_dir().join(format!("stagegate-test-{}-nobody.kubeconfig", std::process::id()));
    // Port 9 of the loopback: discard, where nobody listens.
    let text_of_it = "\
apiVersion: v1
kind: Config
current-context: nobody
contexts: [{name: nobody, context: {cluster: nobody}}]
clusters: [{name: nobody, cluster: {server: 'http://127.0.0.1:9'}}]
";
    std::fs::write(&kubeconfig, text_of_it).expect("the temporary directory is writable");
    let path = kubeconfig.display().to_string();
    let sentence = "the connection to the server 127.0.0.1:9 was refused: check that the server runs, and that the kubeconfig names \
                    the right host and port\n";
    for (command, before) in [
        (&["run"][..], "error: starting the controllers: "),
        (&["watch"], "error: "),
        (&["status", "nginx"], "error: "),
        (&["revisions", "nginx"], "error: "),
    ] {
        let ended = stagegate(&[command, &["--kubeconfig", &path]].concat());
        assert_eq!(ended.status.code(), Some(4), "{command:?}: {}", text(&ended.stderr));
        // `run` has a log, too.
        let said = text(&ended.stderr);
        assert!(said.ends_with(&format!("{before}{sentence}")), "{command:?}: {said}");
    }
    let wrong_context = stagegate(&["watch", "--kubeconfig", &path, "--context", "other"]);
    assert_eq!(wrong_context.status.code(), Some(2));
    let said =
        format!("error: using {path}: there is no context \"other\": it has nobody; choose one with --context\n");
    assert_eq!(text(&wrong_context.stderr), said);
    drop(std::fs::remove_file(kubeconfig));
}
