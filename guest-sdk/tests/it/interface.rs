//! `wit/README.md` against what is: its JSON texts are those of the types.

use std::path::Path;

use serde_json::Value;
use stagegate_guest::bindings::stagegate::gate::types::{Description, Request, Verdict};

/// The texts in fences of this kind.
fn texts(kind: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../wit/README.md")).unwrap();
    let fences = readme.split("```").skip(1).step_by(2);
    fences
        .filter_map(|fence| fence.strip_prefix(&format!("json {kind}\n")).map(str::to_owned))
        .collect()
}

/// That the text is what the type writes, member by member.
fn is_what_is_written<T: serde::Serialize + serde::de::DeserializeOwned>(kind: &str, count: usize) {
    let texts = texts(kind);
    assert_eq!(texts.len(), count, "{kind}");
    for text in texts {
        let value: T = serde_json::from_str(&text).unwrap();
        assert_eq!(
            serde_json::to_value(value).unwrap(),
            serde_json::from_str::<Value>(&text).unwrap()
        );
    }
}

#[test]
fn the_readmes_texts_are_those_of_the_interface() {
    is_what_is_written::<Request>("request", 1);
    is_what_is_written::<Verdict>("verdict", 3);
    is_what_is_written::<Description>("description", 1);
}
