//! The SBOM that `make dist` writes: whether it names what is linked, and that no folder is in it.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::process::Command;

use serde_json::Value;

use super::root;

const TARGET: &str = "x86_64-unknown-linux-gnu";

/// `None` where python3 is absent, and says so.
fn bill(features: &[&str]) -> Option<Value> {
    let printed = Command::new(root().join("deploy/dist/sbom"))
        .arg(TARGET)
        .args(features)
        .current_dir(root())
        .env("CARGO", env!("CARGO"))
        .env("CARGO_NET_OFFLINE", "true")
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .output();
    let printed = match printed {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        // What env(1) ends with, which looks for python3.
        Ok(output) if output.status.code() == Some(127) => None,
        printed => Some(printed.expect("the script can be started")),
    };
    let Some(printed) = printed else {
        crate::tell("SKIPPED: python3 is not on PATH; the SBOM was not written");
        return None;
    };
    let said = String::from_utf8_lossy(&printed.stderr);
    assert!(printed.status.success(), "{said}");
    let text = String::from_utf8(printed.stdout).expect("JSON is text");
    let here = root().canonicalize().expect("the repository is there");
    assert!(!text.contains(&*here.to_string_lossy()), "it names this folder");
    Some(serde_json::from_str(&text).expect("JSON"))
}

fn names(bill: &Value) -> BTreeSet<&str> {
    let components = bill["components"].as_array().expect("components");
    components
        .iter()
        .map(|component| component["name"].as_str().expect("a name"))
        .collect()
}

#[test]
fn the_bill_of_materials_names_what_is_linked_and_nothing_else() {
    let (Some(full), Some(image)) = (bill(&[]), bill(&["--no-default-features"])) else {
        return;
    };
    assert_eq!(full["metadata"]["timestamp"], "2023-11-14T22:13:20Z");
    assert_eq!(full["metadata"]["component"]["name"], "stagegate");
    let (full_names, image_names) = (names(&full), names(&image));
    for linked in [
        "stagegate-decide",
        "wasmtime",
        "kube-client",
        "ring",
        "rust-std",
        "glibc",
    ] {
        assert!(full_names.contains(linked), "{linked} is linked");
    }
    for other in [
        "serde_derive",
        "syn",
        "cc",
        "mlua",
        "opentelemetry",
        "windows-sys",
        "stagegate",
    ] {
        assert!(!full_names.contains(other), "{other} is no component of it");
    }
    let only_full: Vec<_> = full_names.difference(&image_names).copied().collect();
    assert_eq!(only_full, ["stagegate-embedded"]);

    let components = full["components"].as_array().expect("components");
    let reference = |of: &Value, field: &str| of[field].as_str().expect("a reference").to_owned();
    let all = components.iter().chain([&full["metadata"]["component"]]);
    let known: BTreeSet<String> = all.map(|component| reference(component, "bom-ref")).collect();
    let (mut of, mut needed) = (BTreeSet::new(), BTreeSet::new());
    for edges in full["dependencies"].as_array().expect("dependencies") {
        of.insert(reference(edges, "ref"));
        let to = edges["dependsOn"].as_array().expect("a list").iter();
        needed.extend(to.map(|to| to.as_str().expect("a reference").to_owned()));
    }
    assert_eq!(of, known);
    of.remove(&reference(&full["metadata"]["component"], "bom-ref"));
    assert_eq!(needed, of, "all but the program are needed by something");
    for component in components {
        let (name, purl) = (&component["name"], component["purl"].as_str().expect("a purl"));
        let is_ours = name.as_str().is_some_and(|name| name.starts_with("stagegate"));
        let has_checksum = component["hashes"][0]["content"]
            .as_str()
            .is_some_and(|hash| hash.len() == 64);
        assert_eq!(has_checksum, purl.starts_with("pkg:cargo/") && !is_ours, "{name}");
    }
}
