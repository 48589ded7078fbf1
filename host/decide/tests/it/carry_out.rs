//! Carries a plan out on a world, as an API server that nobody else writes to would: pure, and strict about what each
//! write is conditional on. Must not answer for KubeStellar or the clusters: nothing but our own writes shows.

use serde_json::{Map, Value, json};
use stagegate_decide::precondition::Precondition;
use stagegate_decide::staging::{Facts, Placement, Plan, Write};

use crate::world::{Answers, Change, Outcome, joined, settle, short};

/// More decisions in a row than any world needs.
const DECISIONS_MAX: usize = 10;
/// Versions of what is written begin here: above all that a world holds and above any baseline.
const FIRST_VERSION: u64 = 1_000;

/// A world in which nothing is left to write.
pub struct Still {
    pub world: Value,
    /// The facts of the last decision, which wrote nothing.
    pub end: Facts,
    /// Those before it, each carried out.
    pub decisions: Vec<Outcome>,
}

/// Decides and carries out until nothing is left to write.
pub fn until_still(world: Value, answers: &Answers) -> Result<Still, String> {
    let mut server = Server::new(world);
    let mut decisions: Vec<Outcome> = Vec::new();
    while decisions.len() < DECISIONS_MAX {
        let known = decisions.last().map(|made| &made.facts);
        let outcome = settle(server.world.clone(), known, answers, &Change::default())?;
        if outcome.plan.writes.is_empty() {
            return Ok(Still {
                world: server.world,
                end: outcome.facts,
                decisions,
            });
        }
        let number = decisions.len() + 1;
        server
            .carry_out(&outcome.plan)
            .map_err(|error| format!("decision {number}: {error}"))?;
        decisions.push(outcome);
    }
    let last: Vec<String> = decisions.iter().flat_map(|made| &made.plan.writes).map(short).collect();
    Err(format!(
        "still writing after {DECISIONS_MAX} decisions: {}",
        last.join(", ")
    ))
}

/// The world after all writes of one plan.
pub fn carry_out(world: Value, plan: &Plan) -> Result<Value, String> {
    let mut server = Server::new(world);
    server.carry_out(plan)?;
    Ok(server.world)
}

/// A world that plans are carried out on.
struct Server {
    world: Value,
    version: u64,
}

impl Server {
    const fn new(world: Value) -> Self {
        Self {
            world,
            version: FIRST_VERSION,
        }
    }

    /// All writes of the plan, in order. The first that the API server would refuse is an error.
    fn carry_out(&mut self, plan: &Plan) -> Result<(), String> {
        plan.writes.iter().try_for_each(|write| self.write(write))
    }

    fn write(&mut self, write: &Write) -> Result<(), String> {
        match write {
            Write::CreateEvidenceCollector(collector) => {
                if !self.world["evidenceCollector"].is_null() {
                    return Err("the evidence collector is there already".to_owned());
                }
                let mut object = json!(collector);
                self.store(&mut object, "evidence-uid");
                self.world["evidenceCollector"] = json!({"object": object, "oursSince": self.world["now"]});
                Ok(())
            }
            Write::RestoreEvidenceCollector {
                precondition,
                collector,
            } => {
                let version = self.next_version();
                let now = self.world["now"].clone();
                let live = &mut self.world["evidenceCollector"];
                require(&live["object"], precondition)?;
                live["object"]["spec"] = json!(collector.spec);
                live["object"]["metadata"]["resourceVersion"] = version;
                live["oursSince"] = now;
                Ok(())
            }
            Write::CreateClosed(policy) => {
                let name = policy.metadata.name.clone().unwrap_or_default();
                if self.placements().contains_key(&name) {
                    return Err(format!("{name} is there already"));
                }
                let mut object = json!(policy);
                self.store(&mut object, &format!("{name}-{}", self.version));
                self.placements().insert(name, json!({ "object": object }));
                Ok(())
            }
            Write::Open(placement) | Write::Update(placement) | Write::Adopt(placement) | Write::Fence(placement) => {
                self.change(placement)
            }
            Write::Release(hold) | Write::Hold(hold) => {
                self.admit(hold.name.as_str(), &hold.precondition, json!(hold.versions))
            }
            Write::Unhold { name, precondition } => self.admit(name.as_str(), precondition, Value::Null),
            Write::Remove { name, precondition } => self.remove(name.as_str(), precondition),
            Write::Status { precondition, status } => {
                let version = self.next_version();
                let policy = &mut self.world["policy"]["object"];
                require(policy, precondition)?;
                policy["status"] = joined(status);
                policy["metadata"]["resourceVersion"] = version;
                Ok(())
            }
        }
    }

    fn change(&mut self, placement: &Placement) -> Result<(), String> {
        let version = self.next_version();
        let object = self.live(placement.name.as_str())?;
        require(object, &placement.precondition)?;
        let spec = json!(placement.spec);
        if object["spec"] != spec {
            object["spec"] = spec;
            object["metadata"]["generation"] = json!(object["metadata"]["generation"].as_i64().unwrap_or_default() + 1);
        }
        for (name, value) in &placement.annotations {
            object["metadata"]["annotations"][name.as_str()] = json!(value);
        }
        object["metadata"]["resourceVersion"] = version;
        Ok(())
    }

    fn admit(&mut self, name: &str, precondition: &Precondition, versions: Value) -> Result<(), String> {
        let version = self.next_version();
        let binding = members(&mut self.world["bindings"]).get_mut(name);
        let object = binding.and_then(|entry| entry.pointer_mut("/object/object"));
        let object = object.ok_or_else(|| format!("there is no Binding {name} to write to"))?;
        require(object, precondition)?;
        object["metadata"]["annotations"][stagegate_api::ADMITTED_VERSIONS] = versions;
        object["metadata"]["resourceVersion"] = version;
        Ok(())
    }

    /// What it owns goes with it.
    fn remove(&mut self, name: &str, precondition: &Precondition) -> Result<(), String> {
        require(self.live(name)?, precondition)?;
        self.placements().remove(name);
        members(&mut self.world["bindings"]).remove(name);
        let of_it = format!(".{}", precondition.uid);
        members(&mut self.world["combined"]).retain(|key, _| !key.ends_with(&of_it));
        Ok(())
    }

    fn live(&mut self, name: &str) -> Result<&mut Value, String> {
        let placement = self
            .placements()
            .get_mut(name)
            .and_then(|entry| entry.get_mut("object"));
        placement.ok_or_else(|| format!("there is no BindingPolicy {name} to write to"))
    }

    fn placements(&mut self) -> &mut Map<String, Value> {
        members(&mut self.world["placements"])
    }

    fn store(&mut self, object: &mut Value, uid: &str) {
        let version = self.next_version();
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!(uid);
        metadata["resourceVersion"] = version;
        metadata["generation"] = json!(1);
        metadata["creationTimestamp"] = self.world["now"].clone();
    }

    fn next_version(&mut self) -> Value {
        self.version += 1;
        json!(self.version.to_string())
    }
}

fn members(value: &mut Value) -> &mut Map<String, Value> {
    if value.is_null() {
        *value = json!({});
    }
    value.as_object_mut().unwrap()
}

fn require(object: &Value, precondition: &Precondition) -> Result<(), String> {
    let metadata = &object["metadata"];
    let (uid, version) = (&metadata["uid"], &metadata["resourceVersion"]);
    if *uid == json!(precondition.uid) && *version == json!(precondition.resource_version) {
        Ok(())
    } else {
        Err(format!(
            "conflict on {}: {uid} {version}, not {precondition:?}",
            metadata["name"]
        ))
    }
}
