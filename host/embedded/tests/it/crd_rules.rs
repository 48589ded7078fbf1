//! The rules of our own definitions against manifests: one file per case, whose first line says `accept` or
//! `refuse: <text of the message>`.

use serde_json::Value;
use stagegate_clock::TokioClock;
use stagegate_embedded::Server;

use crate::fixture::send;

const CASES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/data/crd-rules");

/// The collection a manifest belongs into.
fn path_of(manifest: &Value) -> String {
    let definitions = stagegate_api::crd::all_for_playground();
    let definition = definitions
        .iter()
        .find(|crd| crd.spec.names.kind == manifest["kind"])
        .unwrap();
    let api_version = manifest["apiVersion"].as_str().unwrap();
    format!(
        "/apis/{api_version}/{}?fieldValidation=Strict",
        definition.spec.names.plural
    )
}

#[tokio::test(start_paused = true)]
async fn manifests_are_accepted_or_refused_with_a_clear_message() {
    let mut wrong = Vec::new();
    let mut files: Vec<_> = std::fs::read_dir(CASES)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(files.len() >= 25, "only {} cases", files.len());
    for file in files {
        let server = Server::new(TokioClock::shared());
        server.install_crds(stagegate_api::crd::all_for_playground()).unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        let manifest: Value = serde_saphyr::from_str(&text).unwrap();
        let (code, answer) = send(&server.client(), "POST", &path_of(&manifest), manifest.clone()).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let as_wished = match text.lines().next().unwrap_or_default() {
            "# accept" => code == 201,
            header => {
                let wanted = header
                    .strip_prefix("# refuse: ")
                    .unwrap_or_else(|| panic!("{}: no header", file.display()));
                matches!(code, 400 | 422) && message.contains(wanted)
            }
        };
        if !as_wished {
            wrong.push(format!("{}: {code} {message}", file.file_name().unwrap().display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
