//! About the transport: when it writes ManifestWorks, and of what. The Bindings are our own, so that nobody else moves them.

use anyhow::ensure;
use k8s_openapi::jiff::Timestamp;
use stagegate_cluster_tests::audit::Answered;

use super::case::{Case, Work};

/// How long nothing happens where nothing may happen. What the transport does after an event it does within a second.
const QUIET_S: u64 = 10;

pub async fn one_missing_object_stops_all(case: Case) -> anyhow::Result<()> {
    case.write("one", "web:1").await?;
    case.write("two", "web:1").await?;
    case.bind(&["one", "two"], &["a", "b"]).await?;
    case.comes(&[
        ("a/one", "web:1"),
        ("a/two", "web:1"),
        ("b/one", "web:1"),
        ("b/two", "web:1"),
    ])
    .await?;
    let mut works = case.works().await?;
    let observed = case.binding().await?["status"]["observedGeneration"].clone();

    // Without the missing object, b/one would change, both in a would go, and both in c would come.
    let since = Timestamp::now();
    case.join("c").await?;
    case.write("one", "web:2").await?;
    case.bind(&["one", "two", "missing"], &["b", "c"]).await?;
    case.delete_work("b/two").await?;
    works.retain(|work| work.place != "b/two");
    case.report("b/one").await?;
    case.stay(&works, QUIET_S).await?;
    let binding = case.binding().await?;
    ensure!(
        binding["status"]["observedGeneration"] == observed && binding["metadata"]["generation"] != observed,
        "the transport says that it has observed the Binding: {binding}"
    );
    case.looks("missing", since).await?;

    // Only the object was missing.
    case.write("missing", "web:1").await?;
    case.report("b/one").await?;
    case.comes(&[
        ("b/missing", "web:1"),
        ("b/one", "web:2"),
        ("b/two", "web:1"),
        ("c/missing", "web:1"),
        ("c/one", "web:2"),
        ("c/two", "web:1"),
    ])
    .await
}

pub async fn nothing_else_rewrites(case: Case) -> anyhow::Result<()> {
    case.write("one", "web:1").await?;
    case.bind(&["one"], &["a"]).await?;
    case.comes(&[("a/one", "web:1")]).await?;
    let works = case.works().await?;
    let generation = case.binding().await?["metadata"]["generation"].clone();

    // A newer version waits.
    case.write("one", "web:2").await?;
    for note in ["first", "second"] {
        let since = Timestamp::now();
        case.report("a/one").await?;
        case.looks("one", since).await?;
        let since = Timestamp::now();
        case.annotate(serde_json::json!({ "note": note })).await?;
        case.looks("one", since).await?;
    }
    case.stay(&works, QUIET_S).await?;

    // Another object under the same name.
    case.delete("one").await?;
    case.write("one", "web:3").await?;
    case.report("a/one").await?;
    case.comes(&[("a/one", "web:3")]).await?;
    let made_anew = case.works().await?;
    ensure!(
        names(&made_anew) != names(&works),
        "the ManifestWork of another object has the same name: {made_anew:?}"
    );
    ensure!(
        case.binding().await?["metadata"]["generation"] == generation,
        "the Binding's generation has changed, although the test did not write it"
    );

    // Another generation of the Binding.
    case.write("one", "web:4").await?;
    case.bind(&["one"], &["a"]).await?;
    case.comes(&[("a/one", "web:4")]).await?;
    let rewritten = case.works().await?;
    ensure!(
        uids(&rewritten) == uids(&made_anew),
        "the ManifestWork was made anew: {rewritten:?}, before {made_anew:?}"
    );
    Ok(())
}

pub async fn contents_are_read_live(case: Case) -> anyhow::Result<()> {
    case.write("one", "web:1").await?;
    case.write("two", "web:1").await?;
    case.bind(&["one", "two"], &["a"]).await?;
    case.comes(&[("a/one", "web:1"), ("a/two", "web:1")]).await?;

    let since = Timestamp::now();
    case.write("two", "web:2").await?;
    case.bind(&["one", "two"], &["a"]).await?;
    case.comes(&[("a/one", "web:1"), ("a/two", "web:2")]).await?;
    read_observed_written(&case.asked_by_transport(since)?)?;

    // The Binding still lists the version from before, and that is not what comes.
    case.write("two", "web:3").await?;
    let listed = case.binding().await?;
    case.delete_work("a/two").await?;
    case.comes(&[("a/one", "web:1"), ("a/two", "web:3")]).await?;
    ensure!(
        case.binding().await?["spec"] == listed["spec"],
        "the Binding's spec has changed, although the test did not write it"
    );
    Ok(())
}

/// One look at a Binding: its objects are read, then its status says so, then the first ManifestWork is written.
fn read_observed_written(asked: &[Answered]) -> anyhow::Result<()> {
    let steps: Vec<String> = asked.iter().filter_map(step).collect();
    let looks = ["read one", "read two", "observe", "write"];
    ensure!(
        steps.windows(looks.len()).any(|steps| steps == looks),
        "the transport does not do {looks:?} in this order, but {steps:?}"
    );
    let observed = steps.iter().position(|step| step == "observe");
    let written = steps.iter().position(|step| step == "write");
    ensure!(observed < written, "the transport writes before it observes: {steps:?}");
    Ok(())
}

/// Requests that were refused, as those about an older version, did nothing.
fn step(request: &Answered) -> Option<String> {
    let right = &request.right;
    let is_done = request.code < 300;
    match (right.verb.as_str(), right.resource.as_str(), right.subresource.as_str()) {
        ("get", "deployments", "") => Some(format!("read {}", request.name)),
        ("update", "bindings", "status") if is_done => Some("observe".to_owned()),
        ("create" | "update", "manifestworks", "") if is_done => Some("write".to_owned()),
        _ => None,
    }
}

fn names(works: &[Work]) -> Vec<&str> {
    works.iter().map(|work| work.name.as_str()).collect()
}

fn uids(works: &[Work]) -> Vec<&str> {
    works.iter().map(|work| work.uid.as_str()).collect()
}
