//! Deleting one object or a selection, with preconditions and propagation.

use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use super::writer::Writer;
use crate::kinds::Kind;
use crate::refusal::Refusal;
use crate::selector::Selector;
use crate::store::{Deleted, Propagation, Revision};

/// `metav1.DeleteOptions`, as far as this server acts on it.
#[derive(Clone, Debug, Default)]
pub struct DeleteOptions {
    pub uid: Option<String>,
    pub resource_version: Option<String>,
    pub propagation: Propagation,
    pub dry_run: bool,
}

impl DeleteOptions {
    /// Reads a body that was checked; absent and empty bodies are the defaults.
    pub fn read(&mut self, body: &Value) {
        let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
        self.uid = text("/preconditions/uid").or(self.uid.take());
        self.resource_version = text("/preconditions/resourceVersion").or(self.resource_version.take());
        if let Some(policy) = text("/propagationPolicy") {
            self.propagation = propagation(&policy);
        } else if body["orphanDependents"] == true {
            self.propagation = Propagation::Orphan;
        }
        self.dry_run |= body["dryRun"].as_array().is_some_and(|stages| !stages.is_empty());
    }
}

/// The policy of that name; by itself in the background.
pub fn propagation(policy: &str) -> Propagation {
    match policy {
        "Foreground" => Propagation::Foreground,
        "Orphan" => Propagation::Orphan,
        _ => Propagation::Background,
    }
}

impl Writer<'_> {
    pub fn delete(&mut self, name: &str, options: &DeleteOptions) -> Result<Deleted, Refusal> {
        let current = self.current(name)?;
        let wrong = |(what, given, known): (&str, &str, &str), fate: &str| {
            let Kind { kind, group, .. } = &*self.kind;
            let why = format!(
                "the {what} in the precondition ({given}) does not match the {what} in record ({known}). The object \
                 might have been {fate}"
            );
            Refusal::conflict_as((group, kind), name, &why)
        };
        if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.uid) {
            return Err(wrong(("UID", uid, &current.uid), "deleted and then recreated"));
        }
        let version = current.version.to_string();
        if let Some(given) = options.resource_version.as_deref().filter(|given| *given != version) {
            return Err(wrong(("ResourceVersion", given, &version), "modified"));
        }
        if self.kind.is_namespace() && matches!(name, "default" | "kube-system" | "kube-public") {
            return Err(Refusal::forbidden(
                &self.kind,
                name,
                "this namespace may not be deleted",
            ));
        }
        self.review_deletion(name, &current)?;
        if options.dry_run {
            return Ok(Deleted {
                revision: current,
                gone: true,
            });
        }
        let place = self.place(name);
        let deleted = self
            .state
            .delete(&place, options.propagation, self.now)
            .ok_or_else(|| Refusal::not_found(&self.kind, name))?;
        // What is only marked is answered as such, though it may be gone when the answer arrives.
        self.state.settle(self.now);
        Ok(deleted)
    }

    /// Deletes everything selected, one after the other up to the first that is denied; the answer is what was selected.
    pub fn delete_all(&mut self, selector: &Selector, options: &DeleteOptions) -> Result<Vec<Arc<Revision>>, Refusal> {
        let namespace = Some(self.namespace).filter(|namespace| !namespace.is_empty());
        let selected: Vec<Arc<Revision>> = self
            .state
            .collection(&self.kind)
            .into_iter()
            .flat_map(|collection| collection.iter(namespace, Bound::Unbounded))
            .filter(|revision| selector.matches(revision))
            .cloned()
            .collect();
        let mut refused = Ok(());
        for revision in &selected {
            refused = self.review_deletion("", revision);
            if refused.is_err() {
                break;
            }
            if options.dry_run {
                continue;
            }
            let place = crate::store::ObjectPlace {
                resource: self.kind.stored_as.clone(),
                key: revision.key.clone(),
            };
            self.state.delete(&place, options.propagation, self.now);
        }
        self.state.settle(self.now);
        refused.map(|()| selected)
    }
}
