//! What a child may not do, tried from inside, and what the kernel says about one from outside.

use std::collections::BTreeSet;
use std::process::Command;

use super::{HOSTILE, SAMPLE, having, holds, process_of};

#[test]
fn a_child_that_tries_to_open_connect_execute_or_fork_fails_at_each() {
    let output = Command::new(env!("CARGO_BIN_EXE_stagegate"))
        .args(["sandbox", "probe", "--parent", &std::process::id().to_string()])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let attempts: Vec<(&str, &str)> = text.lines().filter_map(|line| line.split_once(": ")).collect();
    let names: BTreeSet<&str> = attempts.iter().map(|(name, _)| *name).collect();
    let expected = [
        "open",
        "create",
        "socket",
        "connect",
        "execve",
        "fork",
        "thread",
        "kill",
        "set a limit",
        "read another file",
    ];
    assert_eq!(names, BTreeSet::from(expected));
    for (name, number) in attempts {
        assert_eq!(number, rustix::io::Errno::PERM.raw_os_error().to_string(), "{name}");
    }
}

#[test]
fn a_child_whose_host_is_another_one_ends_before_it_reads() {
    for child in ["compile", "run"] {
        let output = Command::new(env!("CARGO_BIN_EXE_stagegate"))
            .args(["sandbox", child, "--parent", "1"])
            .output()
            .unwrap();
        let words = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && words.contains("gone"), "{child}: {words}");
    }
}

#[test]
fn a_run_child_has_no_environment_no_files_but_its_own_and_all_its_threads_are_filtered() {
    let sandbox = having(&HOSTILE);
    assert!(holds(&sandbox));
    let child = format!("/proc/{}", process_of(&sandbox, &HOSTILE.digest));
    assert!(std::fs::read(format!("{child}/environ")).unwrap().is_empty());
    assert_eq!(std::fs::read_link(format!("{child}/cwd")).unwrap().as_os_str(), "/");

    for task in std::fs::read_dir(format!("{child}/task")).unwrap() {
        let status = std::fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        assert!(status.contains("\nSeccomp:\t2\n"), "{status}");
        assert!(status.contains("\nNoNewPrivs:\t1\n"), "{status}");
        // The second one takes the opening of files away again.
        assert!(status.contains("\nSeccomp_filters:\t2\n"), "{status}");
    }

    let limits = std::fs::read_to_string(format!("{child}/limits")).unwrap();
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap_or_default();
        line[name.len()..]
            .split_whitespace()
            .next()
            .unwrap_or_default()
            .to_owned()
    };
    assert_eq!(limit("Max cpu time"), "120");
    assert_eq!(limit("Max data size"), (512 << 20).to_string());
    assert_eq!(limit("Max file size"), "0");
    assert_eq!(limit("Max core file size"), "0");
}

/// Where the descriptors of a process lead to.
fn files(process: u32) -> BTreeSet<String> {
    let entries = std::fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let links = entries.filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
    links.map(|link| link.display().to_string()).collect()
}

/// What this process was started with and hands on to its children, because nobody has said that it should not.
fn handed_on() -> BTreeSet<String> {
    const CLOSED_ON_EXEC: u32 = 0o2_000_000;
    let entries = std::fs::read_dir("/proc/self/fdinfo").unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let handed_on = names.filter(|name| {
        let info = std::fs::read_to_string(format!("/proc/self/fdinfo/{name}")).unwrap_or_default();
        let flags = info
            .lines()
            .find_map(|line| line.strip_prefix("flags:"))
            .unwrap_or("2000000");
        u32::from_str_radix(flags.trim(), 8).unwrap() & CLOSED_ON_EXEC == 0
    });
    let links = handed_on.filter_map(|name| std::fs::read_link(format!("/proc/self/fd/{name}")).ok());
    links.map(|link| link.display().to_string()).collect()
}

#[test]
fn no_module_s_child_has_anything_of_another_s() {
    let (one, other) = (having(&HOSTILE), having(&SAMPLE));
    assert!(holds(&one));
    assert!(other.check_config(&SAMPLE.digest, "[]").unwrap().is_err());
    assert!(holds(&one));
    let one = files(process_of(&one, &HOSTILE.digest));
    let other = files(process_of(&other, &SAMPLE.digest));
    // It cannot be closed from outside, and is fenced off by the filter.
    let foreign = handed_on();
    let own = |of_child: &BTreeSet<String>| -> BTreeSet<String> { of_child.difference(&foreign).cloned().collect() };
    for files in [&one, &other] {
        let own = own(files);
        let sorts = own.iter().map(|link| link.split([':', ' ']).next().unwrap_or_default());
        assert_eq!(sorts.collect::<Vec<_>>(), ["/memfd", "pipe", "socket"], "{files:?}");
    }
    let named = |files: &BTreeSet<String>| -> BTreeSet<String> {
        let named = own(files).into_iter().filter(|link| !link.starts_with("/memfd"));
        named.collect()
    };
    assert!(named(&one).is_disjoint(&named(&other)));
}
