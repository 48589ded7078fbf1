//! An object in a cluster: how far the rollout of its version has come, and what its status says of it. Must not know who is told.

use serde_json::{Value, json};

use crate::queue::Millis;
use crate::server::{Content, Resource};

#[derive(Clone, Debug)]
pub struct Running {
    pub resource: Resource,
    pub content: Content,
    /// That of the cluster, which counts for itself.
    pub generation: i64,
    pub begun_at: Millis,
    /// The time until a controller there has seen the version.
    pub observed_after: Millis,
    /// The status before this version was observed, and the version that it was about.
    pub before: Status,
    pub content_before: u64,
    pub was_well_before: bool,
    pub newest: u64,
    /// What an autoscaler there has set.
    pub scaled: Option<i64>,
    /// Its processes have begun to fail.
    pub is_sick: bool,
}

/// The numbers of a status; empty before there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub observed_generation: Option<i64>,
    pub total: i64,
    pub updated: i64,
    pub ready: i64,
    pub available: i64,
    pub conditions: Vec<&'static str>,
    /// It counts no replicas.
    pub is_uncounted: bool,
}

impl Running {
    pub fn wanted(&self) -> i64 {
        self.scaled.unwrap_or(self.content.replicas)
    }

    fn finished_at(&self) -> Option<Millis> {
        let steps = self.content.step_ms.saturating_mul(self.wanted());
        (!self.content.crashes && !self.is_sick).then(|| self.begun_at + self.observed_after + steps)
    }

    /// Whether all replicas are of this version and run.
    pub fn is_well(&self, now: Millis) -> bool {
        !self.resource.is_evaluated() || self.finished_at().is_some_and(|at| at <= now)
    }

    /// The version that the status is about.
    pub fn observed_content(&self, now: Millis) -> u64 {
        if now < self.begun_at + self.observed_after {
            self.content_before
        } else {
            self.content.id
        }
    }

    /// Whether what the status is about ran well.
    pub fn observed_well(&self, now: Millis) -> bool {
        if now < self.begun_at + self.observed_after {
            self.was_well_before
        } else {
            self.is_well(now)
        }
    }

    /// When the status changes by itself.
    pub fn changes_at(&self, now: Millis) -> Option<Millis> {
        if !self.resource.is_evaluated() {
            return None;
        }
        let observed = self.begun_at + self.observed_after;
        if now < observed {
            return Some(observed);
        }
        let Some(finished) = self.finished_at() else {
            return Some(observed + self.content.deadline_ms)
                .filter(|at| *at > now && self.resource != Resource::StatefulSet);
        };
        let step = self.content.step_ms.max(1);
        let next = observed + ((now - observed) / step + 1) * step;
        (now < finished).then(|| next.min(finished))
    }

    pub fn status(&self, now: Millis) -> Option<Status> {
        if !self.resource.is_evaluated() {
            return None;
        }
        let observed = self.begun_at + self.observed_after;
        if now < observed {
            return Some(self.before.clone());
        }
        if self.resource == Resource::Job {
            return Some(self.status_of_job(now - observed, now));
        }
        let wanted = self.wanted();
        let is_done = self.is_well(now);
        let new = match self.finished_at() {
            Some(_) => ((now - observed) / self.content.step_ms.max(1)).clamp(0, wanted),
            None => 0,
        };
        let old = if self.is_sick {
            0
        } else {
            self.before.available.min(wanted)
        };
        let available = if is_done { wanted } else { new.max(old.min(wanted)) };
        let mut conditions = Vec::new();
        if self.resource == Resource::Deployment {
            let has_failed = !is_done && self.finished_at().is_none() && now >= observed + self.content.deadline_ms;
            conditions.push(match (is_done, has_failed) {
                (true, _) => "Progressing=True:NewReplicaSetAvailable",
                (_, true) => "Progressing=False:ProgressDeadlineExceeded",
                _ => "Progressing=True",
            });
            conditions.push(if available >= wanted {
                "Available=True"
            } else {
                "Available=False"
            });
        }
        if self.resource == Resource::Widget {
            return Some(Status {
                observed_generation: Some(self.generation),
                conditions: vec![if is_done { "Ready=True" } else { "?" }],
                is_uncounted: true,
                ..Status::default()
            });
        }
        let (total, updated) = match (is_done, self.content.is_blocked) {
            (true, _) => (wanted, wanted),
            (_, true) => (old, 0),
            _ if old == 0 => (wanted, (new + 1).min(wanted)),
            _ => (wanted + 1, (new + 1).min(wanted)),
        };
        Some(Status {
            observed_generation: Some(self.generation),
            total,
            updated,
            ready: available,
            available,
            conditions,
            is_uncounted: false,
        })
    }

    /// A Job's status has no `observedGeneration`, and no condition before it ends.
    fn status_of_job(&self, ran: Millis, now: Millis) -> Status {
        let conditions = if self.is_well(now) {
            vec!["Complete=True"]
        } else if self.finished_at().is_none() && ran >= self.content.deadline_ms {
            vec!["Failed=True"]
        } else {
            Vec::new()
        };
        Status {
            conditions,
            is_uncounted: true,
            ..Status::default()
        }
    }

    /// Another spec: the rollout begins anew.
    pub fn roll(&mut self, now: Millis, observed_after: Millis, change: impl FnOnce(&mut Self)) {
        self.content_before = self.observed_content(now);
        self.was_well_before = self.observed_well(now);
        self.before = self.status(now).unwrap_or_default();
        change(self);
        self.generation += 1;
        self.begun_at = now;
        self.observed_after = observed_after;
    }
}

impl Status {
    /// The cluster does not go on by itself.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        let given_up = ["Progressing=False:ProgressDeadlineExceeded", "Failed=True"];
        self.conditions.iter().any(|known| given_up.contains(known))
    }

    /// The evidence collector's column of that name, as its expression gives it.
    pub fn column(status: Option<&Self>, name: &str) -> Value {
        let Some(status) = status.filter(|status| **status != Self::default()) else {
            return if name == "conditions" { json!([]) } else { json!("") };
        };
        let text = |number: i64| {
            if status.is_uncounted {
                json!("")
            } else {
                json!(number.to_string())
            }
        };
        match name {
            "gen" => json!(
                status
                    .observed_generation
                    .map(|number| number.to_string())
                    .unwrap_or_default()
            ),
            "ready" => text(status.ready),
            "available" => text(status.available),
            "total" => text(status.total),
            "updated" => text(status.updated),
            "conditions" => json!(status.conditions),
            _ => json!(""),
        }
    }
}
