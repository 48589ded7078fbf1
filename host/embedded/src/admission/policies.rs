//! The policies and bindings that are in force, and what they say of a write. Must not know how a policy comes to its answer.

use std::collections::BTreeMap;

use serde_json::Value;

use super::matching::Matching;
use super::policy::{Policy, Reason, items};
use super::review::Review;
use super::{BINDINGS, GROUP, POLICIES};

/// By name.
#[derive(Default)]
pub struct Policies {
    policies: BTreeMap<String, Policy>,
    bindings: BTreeMap<String, Binding>,
}

/// What puts a policy into force.
struct Binding {
    policy: String,
    /// What it narrows the policy to.
    matching: Option<Matching>,
    denies: bool,
    warns: bool,
}

/// A write that may not happen.
#[derive(Clone, Debug)]
pub struct Denial {
    pub reason: Reason,
    pub text: String,
}

/// What all policies say of a write.
#[derive(Debug, Default)]
pub struct Outcome {
    pub denial: Option<Denial>,
    pub warnings: Vec<String>,
}

impl Policies {
    /// Puts a policy into force, or replaces it.
    pub fn keep(&mut self, policy: impl IntoIterator<Item = Policy>) {
        self.policies
            .extend(policy.into_iter().map(|policy| (policy.name.clone(), policy)));
    }

    /// Puts a binding into force that was checked and completed with defaults, or replaces it.
    pub fn bind(&mut self, object: &Value) {
        let spec = &object["spec"];
        let acts = |action: &str| items(spec, "validationActions").iter().any(|given| given == action);
        let binding = Binding {
            policy: spec["policyName"].as_str().unwrap_or_default().to_owned(),
            matching: Some(&spec["matchResources"])
                .filter(|m| m.is_object())
                .map(Matching::read),
            denies: acts("Deny"),
            warns: acts("Warn"),
        };
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        self.bindings.insert(name.to_owned(), binding);
    }

    /// Takes what is gone out of force.
    pub fn forget(&mut self, plural: &str, name: &str) {
        match plural {
            POLICIES => {
                self.policies.remove(name);
            }
            BINDINGS => {
                self.bindings.remove(name);
            }
            _ => {}
        }
    }

    /// Whether no policy is in force.
    pub fn are_none(&self) -> bool {
        self.bindings.is_empty() || self.policies.is_empty()
    }

    /// Asks every policy that a binding names. Of several that deny, the first by name is told.
    pub fn review(&self, review: &Review<'_>) -> Outcome {
        let mut outcome = Outcome::default();
        if is_exempt(review) {
            return outcome;
        }
        for (name, policy) in &self.policies {
            let bound = self.bindings.iter().filter(|(_, binding)| binding.policy == *name);
            let Some(form) = policy.matching.form(review) else {
                continue;
            };
            let narrows = |binding: &Binding| binding.matching.as_ref().is_none_or(|m| m.form(review).is_some());
            let bound: Vec<(&String, &Binding)> = bound.filter(|(_, binding)| narrows(binding)).collect();
            if bound.is_empty() {
                continue;
            }
            let complaints = policy.complaints(review, form);
            for (binding, actions) in bound {
                for complaint in &complaints {
                    let by = format!("ValidatingAdmissionPolicy '{name}' with binding '{binding}'");
                    if actions.warns {
                        let warning = format!("Validation failed for {by}: {}", complaint.text);
                        if !outcome.warnings.contains(&warning) {
                            outcome.warnings.push(warning);
                        }
                    }
                    if actions.denies && outcome.denial.is_none() {
                        outcome.denial = Some(Denial {
                            reason: complaint.reason,
                            text: format!("{by} denied request: {}", complaint.text),
                        });
                    }
                }
            }
        }
        outcome
    }
}

/// No policy may keep policies from being changed.
fn is_exempt(review: &Review<'_>) -> bool {
    let asked = review.forms.first();
    asked.is_some_and(|form| form.group == GROUP && matches!(form.plural.as_str(), POLICIES | BINDINGS))
}
