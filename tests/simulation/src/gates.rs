//! Gates: what one answers when a process of the host asks it, and all that any has answered so far. What a gate says depends on its
//! config, the time and what it is shown, so the oracle can tell what it would say. Must not decide what follows from an answer.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use stagegate_api::{CombinedStatusView, ConfigMapEntry, Gate, GateModule};
use stagegate_decide::checks::Shown;
use stagegate_decide::names::{Digest, Uid};
use stagegate_decide::staging::{
    CombinedRef, ConfigAnswer, ConfigKey, GateAnswer, GateCall, GateDestination, GateHealth, GateVerdict, Module,
    ModuleFacts, Source, SourceEntry,
};

use crate::queue::{Millis, millis};
use crate::seeded::Seeded;
use crate::server::Server;

const NAMESPACE: &str = "stagegate-gates";
const CONFIG_MAP: &str = "gates";
const KEY: &str = "gate.wasm";

/// What a gate looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// It passes while every cluster runs all that it is shown as it should.
    Health,
    /// What it says is drawn anew from time to time; a third of what it says is that it has no verdict.
    Moody,
    /// The same, and sometimes it says that the attempt will never pass.
    Harsh,
    /// It says never in the first attempts, as many as `seed`, and passes in later ones.
    Late,
}

/// A gate's config: how it answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manner {
    pub kind: Kind,
    pub seed: u64,
    /// How long it says the same, in milliseconds.
    pub every_ms: Millis,
    /// How long a pass is good; for ever where absent.
    pub lasts_ms: Option<u64>,
    /// The gate does not take this config.
    pub is_wrong: bool,
}

impl Manner {
    /// A gate of this kind that takes its config.
    #[must_use]
    pub fn drawn(chance: &mut Seeded, kind: Kind) -> Self {
        let every_ms: [Millis; 4] = [300, 1_500, 4_000, 15_000];
        let lasts_ms = [None, Some(800), Some(3_000), Some(30_000)];
        Self {
            kind,
            seed: u64::try_from(chance.below(1_000)).unwrap_or_default(),
            every_ms: chance.pick(&every_ms).copied().unwrap_or(1_500),
            lasts_ms: chance.pick(&lasts_ms).copied().flatten(),
            is_wrong: false,
        }
    }

    /// As the spec of a stage has it, under the name of its place.
    #[must_use]
    pub fn gate(&self, position: usize) -> Gate {
        Gate {
            name: format!("gate-{position}"),
            module: GateModule {
                config_map: ConfigMapEntry {
                    namespace: NAMESPACE.to_owned(),
                    name: CONFIG_MAP.to_owned(),
                    key: KEY.to_owned(),
                },
                digest: None,
            },
            config: serde_json::to_value(self).ok(),
            limits: None,
        }
    }

    /// Of a gate in a spec.
    #[must_use]
    pub fn of(gate: &Gate) -> Option<Self> {
        serde_json::from_value(gate.config.clone()?).ok()
    }

    fn answer(&self, shown: &[GateDestination], (attempt, now): (i64, Timestamp), is_calm: bool) -> GateAnswer {
        let hold = |reason: &str, retry_after_ms: Option<u64>| GateAnswer::Hold {
            reason: reason.to_owned(),
            retry_after_ms,
        };
        let pass = GateAnswer::Pass {
            valid_for_ms: self.lasts_ms,
        };
        let fail = || GateAnswer::Fail {
            reason: "this will not do".to_owned(),
        };
        let mut rows = shown.iter().flat_map(|cluster| &cluster.evidence);
        match self.kind {
            Kind::Health if rows.all(|row| row.health == GateHealth::Healthy) => pass,
            Kind::Health => hold("not all run as they should", None),
            // A pass that is short, on a slow way to the API server, could end before anything follows from it.
            _ if is_calm => GateAnswer::Pass { valid_for_ms: None },
            Kind::Late if attempt <= i64::try_from(self.seed).unwrap_or_default() => fail(),
            Kind::Late => pass,
            Kind::Moody | Kind::Harsh => {
                let slot = millis(now).div_euclid(self.every_ms.max(1));
                let mut chance = Seeded::new(self.seed, u64::try_from(slot).unwrap_or_default());
                match chance.below(6) {
                    0 => hold("not now", Some(u64::try_from(self.every_ms).unwrap_or_default())),
                    1 if self.kind == Kind::Harsh => fail(),
                    1 | 2 => GateAnswer::Unknown {
                        message: "wasm trap: unreachable".to_owned(),
                    },
                    _ => pass,
                }
            }
        }
    }
}

/// The text that a gate is given as its config.
#[must_use]
pub fn config_of(gate: &Gate) -> String {
    let mut config = gate.config.clone().unwrap_or_else(|| serde_json::json!({}));
    config.sort_all_objects();
    config.to_string()
}

/// One placement of a stage, in which a gate was asked.
pub type Attempt = (String, i64);

/// One answer of a gate.
#[derive(Clone, Debug)]
pub struct Said {
    pub attempt: Attempt,
    pub config: String,
    pub answer: GateAnswer,
    /// By the clock of the process that asked.
    pub at: Timestamp,
    /// What it was shown.
    pub evidence: BTreeSet<CombinedRef>,
}

/// The sandbox of all gates. It knows what each has said; only the oracle may look at that.
#[derive(Clone, Debug, Default)]
pub struct Gates {
    pub said: Vec<Said>,
    /// Nothing but the health of clusters keeps a gate from passing any more.
    pub is_calm: bool,
}

impl Gates {
    /// Asks a gate. `None`: a CombinedStatus is not the one any more that it was to be shown.
    pub fn ask(&mut self, server: &Server, call: &GateCall, placement: Uid<&str>) -> Option<GateVerdict> {
        let is_there = |wanted: &CombinedRef| {
            let live = server.combined.get(&format!("{}/{}", wanted.namespace, wanted.name));
            live.is_some_and(|live| CombinedStatusView::of(live).digest == wanted.digest)
        };
        let request = &call.request;
        let shown = request.objects.iter().map(|object| match &object.shown {
            Shown::CombinedStatus(combined) => Some(combined.clone()).filter(is_there),
            Shown::Destinations { .. } => None,
        });
        let evidence: BTreeSet<CombinedRef> = shown.collect::<Option<_>>()?;
        let manner: Manner = serde_json::from_str(&request.config).ok()?;
        let answer = manner.answer(&request.destinations, (request.attempt, call.now), self.is_calm);
        self.said.push(Said {
            attempt: (placement.to_string(), request.attempt),
            config: request.config.clone(),
            answer: answer.clone(),
            at: call.now,
            evidence,
        });
        Some(GateVerdict {
            at: call.now,
            answer,
            evidence: Vec::new(),
        })
    }

    /// Whether a gate that looks at nothing but the time would pass at that time.
    #[must_use]
    pub fn would_pass(&self, manner: &Manner, at: (i64, Timestamp)) -> bool {
        manner.kind == Kind::Health || matches!(manner.answer(&[], at, self.is_calm), GateAnswer::Pass { .. })
    }
}

/// The one ConfigMap with gates, as the watch of ConfigMaps has it.
#[must_use]
pub fn sources() -> BTreeMap<String, Source> {
    let version = "map-uid/1".to_owned();
    BTreeMap::from([(format!("{NAMESPACE}/{CONFIG_MAP}"), Source::Present { version })])
}

/// The component is always there and loads.
#[must_use]
pub fn module(_source: &SourceEntry, version: &str) -> ModuleFacts {
    ModuleFacts {
        asked_for: version.to_owned(),
        module: Module::Loaded {
            digest: Digest::of("gate"),
        },
    }
}

/// Whether the component takes the config.
#[must_use]
pub fn config(_key: &ConfigKey, config: &str) -> ConfigAnswer {
    match serde_json::from_str::<Manner>(config) {
        Ok(manner) if !manner.is_wrong => ConfigAnswer::Fits,
        _ => ConfigAnswer::Refused {
            message: "isWrong must be false".to_owned(),
        },
    }
}
