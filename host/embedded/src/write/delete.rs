//! Deleting one object or a selection, with preconditions and propagation.

use std::ops::Bound;
use std::sync::Arc;

use serde_json::Value;

use super::Writer;
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
    /// Reads a body; absent and empty bodies are the defaults.
    pub fn read(&mut self, body: &Value) -> Result<(), Refusal> {
        let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
        self.uid = text("/preconditions/uid").or(self.uid.take());
        self.resource_version = text("/preconditions/resourceVersion").or(self.resource_version.take());
        if let Some(policy) = text("/propagationPolicy") {
            self.propagation = propagation(&policy)?;
        } else if body["orphanDependents"] == true {
            self.propagation = Propagation::Orphan;
        }
        self.dry_run |= body["dryRun"].as_array().is_some_and(|stages| !stages.is_empty());
        Ok(())
    }
}

pub fn propagation(policy: &str) -> Result<Propagation, Refusal> {
    match policy {
        "Background" => Ok(Propagation::Background),
        "Foreground" => Ok(Propagation::Foreground),
        "Orphan" => Ok(Propagation::Orphan),
        other => Err(Refusal::bad_request(format!("unknown propagationPolicy {other:?}"))),
    }
}

impl Writer<'_> {
    pub fn delete(&mut self, name: &str, options: &DeleteOptions) -> Result<Deleted, Refusal> {
        let current = self.current(name)?;
        let wrong = |what: &str, given: &str, known: &str| {
            let why = format!("Precondition failed: {what} in precondition: {given}, {what} in object meta: {known}");
            Refusal::conflict(&self.kind, name, &why)
        };
        if let Some(uid) = options.uid.as_deref().filter(|uid| *uid != current.uid) {
            return Err(wrong("UID", uid, &current.uid));
        }
        let version = current.version.to_string();
        if let Some(given) = options.resource_version.as_deref().filter(|given| *given != version) {
            return Err(wrong("ResourceVersion", given, &version));
        }
        if self.kind.is_namespace() && matches!(name, "default" | "kube-system" | "kube-public") {
            return Err(Refusal::forbidden(
                &self.kind,
                name,
                "this namespace may not be deleted",
            ));
        }
        if options.dry_run {
            return Ok(Deleted {
                revision: current,
                gone: true,
            });
        }
        let place = self.place(name);
        let mut deleted = self
            .state
            .delete(&place, options.propagation, self.now)
            .ok_or_else(|| Refusal::not_found(&self.kind, name))?;
        self.state.settle(self.now);
        deleted.gone |= self.state.get(&place).is_none();
        Ok(deleted)
    }

    /// Deletes everything selected; the answer is what that was.
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
        for revision in selected.iter().filter(|_| !options.dry_run) {
            let place = crate::store::Place {
                resource: self.kind.stored_as.clone(),
                key: revision.key.clone(),
            };
            self.state.delete(&place, options.propagation, self.now);
        }
        self.state.settle(self.now);
        Ok(selected)
    }
}
