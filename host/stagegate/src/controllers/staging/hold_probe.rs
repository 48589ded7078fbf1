//! Asks the control plane whether it refuses changes of held Bindings, by a change that must be refused and is never stored. Must not
//! judge the answer.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::{Api, Client};
use serde_json::json;
use stagegate_api::Binding;
use stagegate_clock::SharedClock;
use stagegate_decide::names::PlacementName;
use stagegate_decide::staging::{HoldAnswer, HoldFacts};
use stagegate_runtime::events::REPORTER;
use stagegate_runtime::request::{RequestError, cut, request};

/// Names the admission policy in what it refuses (deploy/kustomize/staged-updates).
const POLICY: &str = "stagegate-held-bindings";
/// Between the two tries: several API servers may answer, and one of them may not enforce the policy yet.
const APART: Duration = Duration::from_secs(2);
/// Longest answer that becomes a fact.
const MESSAGE_CHARS_MAX: usize = 256;

/// Shared by all policies of the process: the admission policy holds all Bindings or none.
#[derive(Debug, Default)]
pub struct HoldProbe {
    last: Mutex<Option<HoldFacts>>,
    /// One at a time: whoever waits takes the answer of the one before.
    turn: tokio::sync::Mutex<()>,
}

impl HoldProbe {
    /// What was answered last.
    pub fn last(&self) -> Option<HoldFacts> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An answer of which the first try began at `not_before` or later.
    ///
    /// # Errors
    /// What may be better the next time: no connection, no answer. A refusal by whatever else is an answer.
    pub async fn ask(
        &self,
        (client, clock): (&Client, &SharedClock),
        binding: &PlacementName,
        not_before: Timestamp,
    ) -> Result<HoldFacts, RequestError> {
        let _turn = self.turn.lock().await;
        if let Some(known) = self.last().filter(|known| known.asked_at >= not_before) {
            return Ok(known);
        }
        let asked_at = clock.now();
        let mut answer = attempt(client, binding).await?;
        if answer == HoldAnswer::Refused {
            tokio::time::sleep(APART).await;
            answer = attempt(client, binding).await?;
        }
        let known = HoldFacts { asked_at, answer };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
        Ok(known)
    }
}

async fn attempt(client: &Client, binding: &PlacementName) -> Result<HoldAnswer, RequestError> {
    let api: Api<PartialObjectMeta<Binding>> = Api::all(client.clone());
    let params = PatchParams {
        dry_run: true,
        field_manager: Some(REPORTER.to_owned()),
        ..PatchParams::default()
    };
    // No Binding names this object, so it is a change of every Binding.
    let none = json!({
        "group": stagegate_api::GROUP, "version": stagegate_api::VERSION, "resource": "stagedbindingpolicies", "name": "not-admitted",
        "resourceVersion": "0",
    });
    let body = Patch::Merge(json!({"spec": {"workload": {"clusterScope": [none], "namespaceScope": null}}}));
    let what = format!("try whether a change of Binding {binding} is refused");
    match request(what, api.patch(binding.as_str(), &params, &body)).await {
        Ok(_) => Ok(HoldAnswer::Accepted),
        Err(error) if error.is_forbidden() && error.chain().contains(POLICY) => Ok(HoldAnswer::Refused),
        // It answered, and the answer says nothing about our policy.
        Err(error @ RequestError::Refused { .. }) => Ok(HoldAnswer::Unknown {
            message: cut(&error.chain(), MESSAGE_CHARS_MAX),
        }),
        Err(error) => Err(error),
    }
}
