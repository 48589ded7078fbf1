//! The `binding` controller: a BindingPolicy resolved to a Binding, where no KubeStellar does it.
//!
//! KubeStellar's rules for matching, cluster selection and the Binding's form; not its defects: nothing is written
//! before the facts are whole, one version of an object is bound, and a selector that cannot be read is reported.
//! Whoever builds the facts waits until every watched kind has been listed once.

mod matching;
mod plan;
mod resolve;
mod watched;

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;
use serde::Deserialize;
use stagegate_api::{BINDING_POLICY_FINALIZER, Binding, BindingPolicy, BindingPolicyStatus, BindingSpec};

pub use matching::Clauses;
pub use plan::{Plan, Write};
pub use watched::is_watched;

use crate::precondition::Precondition;
use crate::selector::SelectorError;

/// What one decision is made of. All of it was read at about the same time.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// The one to translate.
    pub policy: &'a BindingPolicy,
    /// Objects of all watched kinds, the preferred version of a kind first; those that do not match are fine.
    pub objects: &'a [Candidate],
    /// Labels of each Namespace. A namespace that is not here matches no namespace selector.
    pub namespaces: &'a BTreeMap<String, Labels>,
    /// The inventory.
    pub clusters: &'a [Cluster],
    /// The Binding of the policy's name.
    pub binding: Option<&'a Binding>,
    /// Whether each BindingPolicy gets a finalizer, as KubeStellar's have: at once, and in a write of its own.
    pub adds_finalizer: bool,
}

/// Of an object, by key.
pub type Labels = BTreeMap<String, String>;

/// A workload object, as far as a clause can see it.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Candidate {
    /// Empty for the core group.
    #[serde(default)]
    pub group: String,
    /// Of the API that it was listed by.
    pub version: String,
    /// Lower-case plural.
    pub resource: String,
    /// `None` for a cluster-scoped object.
    #[serde(default)]
    pub namespace: Option<String>,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
    /// `metadata.labels`.
    #[serde(default)]
    pub labels: Labels,
}

/// An inventory entry; nothing but labels counts for a selection.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "camelCase")]
pub struct Cluster {
    /// Of the ManagedCluster.
    pub name: String,
    /// Of the ManagedCluster.
    #[serde(default)]
    pub labels: Labels,
}

/// What to do about one BindingPolicy now. An empty plan means that the cluster is as it should be.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use stagegate_api::BindingPolicy;
/// use stagegate_decide::binding::{Facts, Write, decide};
///
/// let policy: BindingPolicy = serde_json::from_value(serde_json::json!({
///     "apiVersion": "control.kubestellar.io/v1alpha1",
///     "kind": "BindingPolicy",
///     "metadata": {"name": "nginx", "uid": "1", "resourceVersion": "7", "generation": 1},
///     "spec": {"clusterSelectors": [{"matchLabels": {"env": "dev"}}], "downsync": []},
/// }))?;
/// let plan = decide(&Facts {
///     policy: &policy,
///     objects: &[],
///     namespaces: &BTreeMap::new(),
///     clusters: &[],
///     binding: None,
///     adds_finalizer: false,
/// });
/// assert!(matches!(plan.writes[0], Write::CreateBinding(_)));
/// # Ok::<(), serde_json::Error>(())
/// ```
pub fn decide(facts: &Facts) -> Plan {
    let policy = facts.policy;
    let Some(precondition) = Precondition::of(&policy.metadata) else {
        return Plan::default();
    };
    let name = policy.metadata.name.clone().unwrap_or_default();
    let finalizers = policy.metadata.finalizers.as_deref().unwrap_or_default();
    let has_finalizer = finalizers.iter().any(|finalizer| finalizer == BINDING_POLICY_FINALIZER);
    if policy.metadata.deletion_timestamp.is_some() {
        // The garbage collector removes the Binding; until then Binding and workload are frozen.
        let write = has_finalizer.then_some(Write::RemoveFinalizer { name, precondition });
        return Plan {
            writes: write.into_iter().collect(),
        };
    }
    if !has_finalizer && facts.adds_finalizer {
        // Alone: it moves the policy's version, which the writes after it would have to carry.
        return Plan {
            writes: vec![Write::AddFinalizer { name, precondition }],
        };
    }
    let being_deleted = |binding: &&Binding| binding.metadata.deletion_timestamp.is_some();
    if facts.binding.filter(being_deleted).is_some() {
        return Plan::default();
    }
    let (writes, status) = match resolve::resolve(facts) {
        Ok(spec) => {
            let errors = resolve::singleton_complaint(&spec).into_iter().collect();
            (binding_write(facts, spec), status_after_sync(facts, errors))
        }
        Err(error) => (None, status_with_error(facts, &error)),
    };
    let status_write = (policy.status.as_ref() != Some(&status)).then_some(Write::PolicyStatus {
        name,
        precondition,
        status,
    });
    Plan {
        writes: writes.into_iter().chain(status_write).collect(),
    }
}

fn binding_write(facts: &Facts, spec: BindingSpec) -> Option<Write> {
    let owner = owner_reference(facts.policy);
    let Some(current) = facts.binding else {
        let metadata = ObjectMeta {
            name: facts.policy.metadata.name.clone(),
            owner_references: Some(vec![owner]),
            ..ObjectMeta::default()
        };
        return Some(Write::CreateBinding(Binding {
            metadata,
            spec,
            status: None,
        }));
    };
    let owners = current.metadata.owner_references.as_deref().unwrap_or_default();
    if resolve::same(&current.spec, &spec) && owners == [owner.clone()] {
        return None;
    }
    update(current, spec, owner)
}

/// The same object with the spec replaced, and with its owners, which KubeStellar replaces too; the rest is kept.
fn update(current: &Binding, spec: BindingSpec, owner: OwnerReference) -> Option<Write> {
    let precondition = Precondition::of(&current.metadata)?;
    let mut binding = Binding {
        metadata: current.metadata.clone(),
        spec,
        status: current.status.clone(),
    };
    binding.metadata.owner_references = Some(vec![owner]);
    Some(Write::UpdateBinding { precondition, binding })
}

fn owner_reference(policy: &BindingPolicy) -> OwnerReference {
    OwnerReference {
        api_version: BindingPolicy::api_version(&()).into_owned(),
        kind: BindingPolicy::kind(&()).into_owned(),
        name: policy.metadata.name.clone().unwrap_or_default(),
        uid: policy.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: Some(false),
    }
}

/// The status once the Binding is as the policy's generation wants it: conditions and errors are the Binding's.
fn status_after_sync(facts: &Facts, mut errors: Vec<String>) -> BindingPolicyStatus {
    let of_binding = facts
        .binding
        .and_then(|binding| binding.status.clone())
        .unwrap_or_default();
    errors.extend(of_binding.errors);
    BindingPolicyStatus {
        conditions: of_binding.conditions,
        observed_generation: facts.policy.metadata.generation.unwrap_or_default(),
        errors,
    }
}

/// The generation is not observed: nothing was written for it.
fn status_with_error(facts: &Facts, error: &SelectorError) -> BindingPolicyStatus {
    let current = facts.policy.status.clone().unwrap_or_default();
    BindingPolicyStatus {
        errors: vec![format!("selecting clusters: {error}")],
        ..current
    }
}
