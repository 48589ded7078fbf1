//! A workload beside what it is to be by one revision. Must not look at another workload, nor at the time: what comes out is kept in
//! [`Memo`](super::memo::Memo).

use std::collections::BTreeMap;

use stagegate_api::workloads::{
    APPLIED_DIGEST, ContainerView, NODE_POOL_OF_NODE, POOL_NAME, REF_NODE_POOL, REVISION_NUMBER, WorkloadSummary,
    WorkloadView,
};

use super::children::{number_of, revision_of};
use super::render::Rendered;
use super::status::{is_ready, summary};
use crate::health::{Health, health};

/// What keeps a pool's workload from being of the revision, or from being as it was applied.
const OTHER: &str = "has a workload that is not as the revision says: it is of an older one, or was changed";

/// What the two come to.
#[derive(Debug)]
pub(super) struct Compared {
    /// What it is to be.
    pub rendered: Rendered,
    /// It differs in something that is put back.
    pub is_to_be_applied: bool,
    /// It comes from another controller, so that an apply takes fields over.
    pub is_of_others: bool,
    /// What keeps it from proving anything of the revision that is aimed at, as the predicate of a sentence about the pool.
    pub unproven: Option<&'static str>,
    /// What else keeps it from being rolled out.
    pub unhealthy: Option<String>,
    pub is_ready: bool,
    pub summary: WorkloadSummary,
}

impl Compared {
    /// `aimed`: the revision that is aimed at, whatever the workload is to be made from.
    pub fn of(view: &WorkloadView, rendered: Rendered, aimed: &str) -> Self {
        let unhealthy = match health("apps", rendered.kind().plural(), &view.row(&rendered.pool)) {
            Health::Healthy => None,
            Health::Progressing(text) | Health::Failed(text) => Some(text.into_owned()),
        };
        Self {
            is_to_be_applied: is_to_be_applied(view, &rendered),
            is_of_others: is_of_others(view, &rendered),
            unproven: unproven(view, &rendered, aimed),
            unhealthy,
            is_ready: is_ready(view),
            summary: summary(view),
            rendered,
        }
    }
}

fn unproven(view: &WorkloadView, rendered: &Rendered, aimed: &str) -> Option<&'static str> {
    if !is_of(view, rendered, aimed) {
        return Some(OTHER);
    }
    let observed = view.status.observed_generation;
    let is_seen = observed.is_some() && observed == view.metadata.generation;
    (!is_seen).then_some("has a workload whose last change its controller has not seen yet")
}

/// Whether a workload is as the revision and the pool say. One that another controller made from this very revision is, if it has the
/// images of that; of one that was applied from here nothing may have been changed since, for what runs then proves nothing of the revision.
fn is_of(view: &WorkloadView, rendered: &Rendered, revision: &str) -> bool {
    let is_as_applied = || applied_digest(view) == Some(rendered.digest.as_str()) && !differs(view, rendered);
    let is_as_said = match is_of_others(view, rendered) {
        true => !lacks_images(view, rendered),
        false => is_as_applied(),
    };
    revision_of(&view.metadata) == Some(revision) && is_as_said
}

/// Whether the workload differs from what it is to be in something that is put back. One that another controller made waits for its next
/// revision, so that a takeover restarts nothing.
fn is_to_be_applied(view: &WorkloadView, rendered: &Rendered) -> bool {
    if is_of_others(view, rendered) {
        return revision_of(&view.metadata) != Some(&rendered.common.revision);
    }
    applied_digest(view) != Some(rendered.digest.as_str()) || differs(view, rendered)
}

/// Whether another controller made it: it has none of the annotations that are applied from here, nor the name that is given here. Without
/// the name, one of ours that lost both annotations would be proof of its revision whatever it runs.
fn is_of_others(view: &WorkloadView, rendered: &Rendered) -> bool {
    applied_digest(view).is_none() && number_of(&view.metadata).is_none() && !rendered.has_our_name
}

/// In labels, replicas, nodes or images.
fn differs(view: &WorkloadView, wanted: &Rendered) -> bool {
    let common = &wanted.common.view;
    let none = BTreeMap::new();
    let of = |map: &Option<BTreeMap<String, String>>, key: &str| -> Option<String> { map.as_ref()?.get(key).cloned() };
    let labels = view.metadata.labels.as_ref().unwrap_or(&none);
    let (found_pod, pod) = (&view.spec.template.spec, &common.spec.template.spec);
    let annotations = [&view.metadata.annotations, &common.metadata.annotations];
    let [found_number, number] = annotations.map(|all| of(all, REVISION_NUMBER));
    lacks(
        labels,
        common.metadata.labels.as_ref().unwrap_or(&none),
        (POOL_NAME, &wanted.pool),
    ) || of(&view.metadata.annotations, REF_NODE_POOL).as_deref() != Some(&*wanted.pool)
        || found_number != number
        || common.spec.replicas.is_some() && common.spec.replicas != view.spec.replicas
        || lacks(
            &view.spec.template.metadata.labels,
            &common.spec.template.metadata.labels,
            (POOL_NAME, &wanted.pool),
        )
        || lacks(
            &found_pod.node_selector,
            &pod.node_selector,
            (NODE_POOL_OF_NODE, &wanted.pool),
        )
        || found_pod.tolerations != wanted.tolerations
        || lacks_images(view, wanted)
}

/// Whether one of these, or this one besides, is absent or has another value.
fn lacks(found: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>, (key, value): (&str, &str)) -> bool {
    wanted.iter().any(|(key, value)| found.get(key) != Some(value)) || found.get(key).is_none_or(|it| it != value)
}

/// Whether a container has another image than the template says, or is not there.
fn lacks_images(view: &WorkloadView, wanted: &Rendered) -> bool {
    let [found, wanted] = [&view.spec.template.spec, &wanted.common.view.spec.template.spec];
    let lacks = |found: &[ContainerView], wanted: &[ContainerView]| {
        let has = |container: &ContainerView| {
            let mut of_name = found.iter().filter(|it| it.name == container.name);
            container.image.is_none() || of_name.any(|it| it.image == container.image)
        };
        !wanted.iter().all(has)
    };
    lacks(&found.containers, &wanted.containers) || lacks(&found.init_containers, &wanted.init_containers)
}

fn applied_digest(view: &WorkloadView) -> Option<&str> {
    Some(view.metadata.annotations.as_ref()?.get(APPLIED_DIGEST)?.as_str())
}
