//! Whether what a controller has read proves the right version of each object in each cluster, compared with what the clusters really
//! run. Must not be asked by what decides.

use std::collections::BTreeSet;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use stagegate_api::{
    BindingPolicy, BindingSpec, BoundObject, CombinedStatus, CombinedStatusView, Stage, StageHealth,
    UnacknowledgedUpdates,
};
use stagegate_decide::names::{ClusterName, ObjectKey, PlacementName, StageName};
use stagegate_decide::staging::{Decoded, Facts, Observed, Read};

use crate::clusters::Truth;
use crate::controller::talk::Talk;
use crate::delivery::Delivery;
use crate::gate_rules;
use crate::kubestellar::{KubeStellar, is_what_is_selected};
use crate::oracle::{Oracle, Parts};
use crate::proofs;
use crate::queue::{Millis, millis};
use crate::server::{Content, Server, uid_of};
use crate::users::{BROKEN_FILTER, FILTER_FOR_ONE};

/// Reports and updates have whole seconds, and the clocks of two API servers may differ by less than this.
pub(crate) const CLOCKS_MS: Millis = 5_000;

/// How long after an update that left no timestamp whatever the cluster runs counts as that update.
pub(crate) const UNTOLD_MS: Millis = 120_000;

/// By then an update has reached a cluster that can be reached.
pub(crate) const DELIVERY_MS: Millis = 10_000;

/// How long after a restart of KubeStellar a Binding may still follow an older spec of its BindingPolicy.
const AWAY_MS: Millis = 60_000;

/// What has to be proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    /// Each cluster has the right version.
    Versions,
    /// No cluster of these has given up its rollout, either.
    Progress,
    /// It runs well, too, and the condition is true.
    All,
}

/// Whether every cluster of the stage ran each judged object's version well when it last reported, as far as the reading shows.
pub(crate) fn promoted(
    (talk, stage, proof): (&Talk, &str, Proof),
    oracle: &Oracle,
    parts: Parts<'_>,
) -> Option<(&'static str, String)> {
    let facts = &talk.facts;
    let mut stages = facts.policy.object.spec.stages.iter();
    let spec = stages.find(|known| known.name == stage)?;
    let name = PlacementName::of(talk.policy(), StageName::of(stage));
    let is_judged = spec.health == StageHealth::Required || spec.condition.is_some() || !spec.gates.is_empty();
    let broken = |text: &str| Some(("promotion", format!("stage {stage} passes {text}")));
    if is_judged && spec.filter.as_deref() == Some(BROKEN_FILTER) {
        return broken("and its filter has no value");
    }
    let placement = facts.placements.get(name.as_str()).and_then(Decoded::object)?;
    let binding = facts.bindings.get(name.as_str());
    let Some(binding) = binding.and_then(|binding| binding.object.as_ref()?.object()) else {
        return broken("and it has no Binding");
    };
    let owners = binding.metadata.owner_references.as_deref().unwrap_or_default();
    let owner = owners.first().map(|owner| owner.uid.as_str());
    if let Some(text) = proofs::of_set(facts, stage, (placement, owner), (&binding.spec, parts.0, parts.2)) {
        return broken(&text);
    }
    if is_judged && proofs::has_no_value(spec.filter.as_deref(), &binding.spec) {
        return broken("and its filter has no value for an object");
    }
    if is_of_older_spec(facts, (placement, &binding.spec), parts) {
        return broken("on a set that was resolved before the last change of its placement");
    }
    // One that only waits is asked nothing about versions.
    if spec.unacknowledged_updates == UnacknowledgedUpdates::Ignore || !is_judged {
        return None;
    }
    let judging = Judging {
        spec,
        placement,
        binding: &binding.spec,
        proof,
    };
    let mut objects = binding.spec.workload.objects();
    let text = objects.find_map(|object| judging.unproven((talk, object), oracle, parts))?;
    broken(&text)
}

/// A stage, what it has placed where, and what has to be proven of that.
struct Judging<'a> {
    spec: &'a Stage,
    placement: &'a BindingPolicy,
    binding: &'a BindingSpec,
    proof: Proof,
}

impl Judging<'_> {
    /// What is not proven of one object.
    fn unproven(&self, (talk, object): (&Talk, &BoundObject), oracle: &Oracle, parts: Parts<'_>) -> Option<String> {
        let (facts, spec, proof) = (&talk.facts, self.spec, self.proof);
        let (key, content) = judged(talk, spec.filter.as_deref(), object)?;
        let version = version_of_reports(facts, &key, uid_of(&self.placement.metadata));
        let condition = spec.condition.as_deref().filter(|_| proof == Proof::All);
        if condition.is_some_and(|condition| !has_replicas(parts.2, (version.as_deref(), condition))) {
            return Some(format!("and its condition is not true for {key}"));
        }
        if proof == Proof::All && proofs::is_older_than_question(self.placement, version.as_deref(), parts.2) {
            return Some(format!("on what was told of {key} before something else was asked"));
        }
        let basis = version.as_ref().and_then(|version| parts.0.basis.get(version));
        let own = PlacementName::of(talk.policy(), StageName::of(&spec.name));
        let observed = facts.bindings.get(own.as_str()).map(|binding| &binding.observed);
        let told = Told {
            path: format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name),
            key: &key,
            before: version_before(content, &key, parts.2),
            content,
            create_only: object.create_only,
            is_untold: is_untold(facts, self.placement, content)
                || is_untimed_before_placement(facts, self.placement, content),
            is_without_history: is_without_history(facts, content),
            lacks_one_update: LackOfOne::of((facts, &key), (self.placement, self.binding), content, parts),
            delivery: Delivery::of(content, seen_at(facts, own.as_str(), &key), (parts.0, parts.2)).opened(
                (
                    uid_of(&self.placement.metadata),
                    placed_at(self.placement),
                    made_anew_at(facts).is_some_and(|made| content.made_at < made + UNTOLD_MS),
                ),
                &oracle.opened_at,
            ),
            is_of_another_policy: oracle.has_two_policies
                && observed.is_some_and(|binding| is_first_object(binding, content)),
            binding: observed,
            is_cached: !facts.read.is_anew(),
            now: millis(facts.now) + CLOCKS_MS,
        };
        let is_asked = condition.is_some() && !oracle.watches_are_late;
        self.binding.destinations.iter().find_map(|destination| {
            let cluster = &destination.cluster_id;
            let truth = basis.and_then(|basis| basis.get(cluster));
            if is_asked && proofs::is_unavailable(facts, truth) {
                return Some(format!(
                    "and its condition is false of {key} in cluster {cluster}: {truth:?}"
                ));
            }
            let is_well = truth.is_some_and(|truth| truth.is_well)
                || (spec.health == StageHealth::Ignored && !gate_rules::looks_at_health(spec))
                || proof != Proof::All;
            if proof == Proof::Progress && truth.is_some_and(|truth| truth.has_failed) {
                return Some(format!(
                    "at {key}, and cluster {cluster} has told that it has given up the rollout"
                ));
            }
            let is_version = truth.is_some_and(|truth| told.is_version(truth, cluster, oracle));
            (!(is_well && is_version)).then(|| {
                format!(
                    "at version {} of {key}, and cluster {cluster} last told of {truth:?}",
                    content.id
                )
            })
        })
    }
}

/// An object as it should run.
struct Told<'a> {
    key: &'a ObjectKey,
    path: String,
    /// The version that the last update replaced.
    before: Option<u64>,
    content: Content,
    create_only: bool,
    /// No time tells of its last update, or nothing is known from before it.
    is_untold: bool,
    is_without_history: bool,
    /// A cluster may have been out of reach since before the last update but one, and the policy has no record of that.
    lacks_one_update: Option<LackOfOne>,
    delivery: Delivery,
    /// What the process has seen of the placement's Binding.
    binding: Option<&'a Observed>,
    /// The Binding has named this object alone, and another policy may have placed an older one of the same name.
    is_of_another_policy: bool,
    /// The watch may not have told of the last update yet, which the cluster may have.
    is_cached: bool,
    now: Millis,
}

impl Told<'_> {
    /// Whether the report is of the object's version, as far as anybody could know.
    fn is_version(&self, truth: &Truth, cluster: &str, oracle: &Oracle) -> bool {
        if truth.content == self.content.id {
            return true;
        }
        let made_at = self.content.made_at;
        let is_scaled = || oracle.scaled.contains(&(cluster.to_owned(), self.path.clone()));
        let is_alone = self.content.replaced.is_none_or(|before| made_at - before >= UNTOLD_MS);
        let may_tell_of_older = (oracle.joins).may_tell_of_older((cluster, self.key), self.content, self.before);
        let since = if is_alone && !may_tell_of_older {
            made_at - CLOCKS_MS
        } else {
            made_at + DELIVERY_MS
        };
        let is_late = self.delivery.is_too_early(truth) || self.delivery.is_too_soon();
        let is_merged = truth.at >= since && self.now - truth.at >= UNTOLD_MS && !is_late;
        let version = (cluster.to_owned(), self.path.clone(), self.content.id);
        let is_merged = is_merged || oracle.merged.borrow().contains(&version);
        if is_merged {
            oracle.merged.borrow_mut().insert(version);
        }
        let is_older = self.delivery.is_from_before_update(truth) || self.delivery.is_from_before_opening(truth);
        let lacks_one = (self.lacks_one_update.as_ref()).is_some_and(|lack| lack.is_excused(truth, cluster));
        // A later generation than the object has had is of an older object, or something in the cluster edits this one: two minutes tell.
        let is_of_older_object =
            self.content.replaced.is_none() && truth.generation > 1 && self.now - made_at < UNTOLD_MS;
        let is_without_history = self.is_without_history && !is_of_older_object;
        let is_untold = (self.is_untold || lacks_one || is_without_history) && !is_older;
        // What another policy has placed, nothing tells this one: the cluster may have got, and report, an older object or version.
        let is_of_delivery = (made_at - CLOCKS_MS..=made_at + DELIVERY_MS).contains(&truth.at);
        let is_shared = oracle.has_two_policies && (is_of_delivery || truth.newest >= self.content.id);
        let joined_at = self.joined_at(cluster);
        let is_others_object =
            self.is_of_another_policy && truth.generation <= 1 && self.is_long_after_naming(truth, joined_at);
        let is_newer = self.is_cached && truth.content > self.content.id;
        is_newer
            || self.create_only
            || is_untold
            || (self.delivery.is_kept(truth, joined_at) && !is_of_older_object)
            || is_merged
            || is_shared
            || is_others_object
            || is_scaled()
    }

    /// When the process saw the Binding name the cluster, unless the Binding named it from the beginning.
    fn joined_at(&self, cluster: &str) -> Option<Millis> {
        let joined = self.binding?.joined.get(&ClusterName::from(cluster));
        joined.copied().map(millis)
    }

    /// A cluster that was out of reach may report on another policy's object for the first time long after the Binding named the cluster:
    /// no wait is long enough for that.
    fn is_long_after_naming(&self, truth: &Truth, joined_at: Option<Millis>) -> bool {
        let named = joined_at.or(self.binding.map(|binding| millis(binding.seen_since())));
        named.is_some_and(|named| truth.at >= named + UNTOLD_MS - CLOCKS_MS)
    }
}

fn is_untold(facts: &Facts, placement: &BindingPolicy, content: Content) -> bool {
    let made_at = |meta: &ObjectMeta| meta.creation_timestamp.as_ref().map_or(0, |time| millis(time.0));
    let policy_since = made_at(&facts.policy.object.metadata);
    let is_unremembered = content.is_untimed
        || (content.made_at < made_at(&placement.metadata) + 1_000 && content.made_at < policy_since + UNTOLD_MS);
    is_unremembered && millis(facts.now) + CLOCKS_MS - content.made_at >= UNTOLD_MS
}

/// Whether the object was never updated, and was made before the process first saw the placement's Binding.
fn is_first_object(binding: &Observed, content: Content) -> bool {
    content.replaced.is_none() && content.made_at < millis(binding.seen_since())
}

/// Whether the policy was made anew too late to know an older object of the same name or the version before an update.
fn is_without_history(facts: &Facts, content: Content) -> bool {
    made_anew_at(facts).is_some_and(|made| match content.replaced {
        None => content.made_at < made + UNTOLD_MS,
        // The policy before may have known that a cluster has not acknowledged the update before this one.
        Some(before) => before < made && made - before < UNTOLD_MS,
    })
}

/// Whether the policy was made anew, and the last update has no timestamp and was made before the placement.
fn is_untimed_before_placement(facts: &Facts, placement: &BindingPolicy, content: Content) -> bool {
    // Whole seconds.
    let is_before = content.made_at < placed_at(placement) + 1_000;
    content.replaced.is_some() && content.is_untimed && is_before && made_anew_at(facts).is_some()
}

/// The policy was made anew after the last update but one, and the last update was made after the placement: a cluster may come back with
/// a version from before both, and report the version between them.
struct LackOfOne {
    /// That version.
    between: u64,
    /// The last update is so old that it counts as delivered.
    is_old: bool,
    /// The clusters that had ever reported a version older than that one.
    had_older: BTreeSet<String>,
    /// All clusters had reported to this placement before the last update: then a report counts at once.
    have_all_reported: bool,
}

impl LackOfOne {
    fn of(
        (facts, key): (&Facts, &ObjectKey),
        (placement, binding): (&BindingPolicy, &BindingSpec),
        content: Content,
        (kubestellar, _, server): Parts<'_>,
    ) -> Option<Self> {
        // An object that is there from the beginning is no update.
        let before = content.replaced.filter(|before| *before > 1_000)?;
        let is_it = before < made_anew_at(facts)? && content.made_at + 1_000 > placed_at(placement);
        let between = version_before(content, key, server).filter(|_| is_it)?;
        let uid = &facts.objects.get(key)?.found.as_ref()?.uid;
        let own = CombinedStatus::name_of(uid.as_str(), uid_of(&placement.metadata));
        let of_object = CombinedStatus::name_of(uid.as_str(), "");
        let log = server.combined.log().iter();
        let rows = log.filter(|entry| entry.key.contains(&of_object)).flat_map(|entry| {
            let basis = kubestellar.basis.get(&entry.version.to_string());
            basis
                .into_iter()
                .flatten()
                .map(move |(cluster, truth)| (entry, cluster, truth))
        });
        let (mut had_older, mut had_reported) = (BTreeSet::new(), BTreeSet::new());
        for (entry, cluster, truth) in rows {
            if truth.content < between {
                had_older.insert(cluster.clone());
            }
            // The controller may have seen the update a little later.
            if entry.key.ends_with(&own) && millis(entry.at) < content.made_at + CLOCKS_MS {
                had_reported.insert(cluster.clone());
            }
        }
        Some(Self {
            between,
            is_old: millis(facts.now) + CLOCKS_MS - content.made_at >= UNTOLD_MS,
            had_older,
            have_all_reported: (binding.destinations.iter()).all(|one| had_reported.contains(&one.cluster_id)),
        })
    }

    fn is_excused(&self, truth: &Truth, cluster: &str) -> bool {
        let is_it = self.between == truth.content && self.had_older.contains(cluster);
        is_it && (self.is_old || self.have_all_reported)
    }
}

/// The version of the object that an update replaced.
fn version_before(content: Content, key: &ObjectKey, server: &Server) -> Option<u64> {
    let path = format!("{}/{}", key.namespace.as_deref().unwrap_or_default(), key.name);
    let log = server.workloads.log().iter().rev();
    let mut versions = log
        .filter(|entry| entry.key == path)
        .filter_map(|entry| entry.after.as_ref().map(|object| object.content.id));
    versions.find(|id| *id == content.id)?;
    versions.find(|id| *id != content.id)
}

fn placed_at(placement: &BindingPolicy) -> Millis {
    let made = placement.metadata.creation_timestamp.as_ref();
    made.map_or(0, |time| millis(time.0))
}

/// When the policy was made, unless it is the first one, which is there from the beginning.
fn made_anew_at(facts: &Facts) -> Option<Millis> {
    let policy = facts.policy.object.metadata.creation_timestamp.as_ref();
    policy.map(|time| millis(time.0)).filter(|made| *made > 1_000)
}

/// Whether KubeStellar has not resolved the placement since its last change, and its status says so, or nothing excuses that.
fn is_of_older_spec(
    facts: &Facts,
    (placement, bound): (&BindingPolicy, &BindingSpec),
    (kubestellar, _, server): Parts<'_>,
) -> bool {
    let name = placement.metadata.name.as_deref().unwrap_or_default();
    // A watch may be late.
    let version = |placement: &BindingPolicy| placement.metadata.resource_version.clone();
    let is_read = !matches!(facts.read, Read::Cached)
        || server
            .placements
            .get(name)
            .is_some_and(|live| version(live) == version(placement));
    let resolved = kubestellar.resolved.get(name);
    let is_older = is_read && resolved.is_some_and(|resolved| *resolved != placement.spec);
    let observed = placement.status.as_ref().map(|status| status.observed_generation);
    let is_excused = was_away(kubestellar, server) && observed == placement.metadata.generation;
    is_older && !is_excused && !is_what_is_selected(placement, bound, server)
}

/// Whether the condition is true of the CombinedStatus of this version.
fn has_replicas(server: &Server, (version, condition): (Option<&str>, &str)) -> bool {
    let log = server.combined.log().iter().rev();
    let mut stored = log.filter_map(|entry| entry.after.as_deref());
    stored
        .find(|stored| stored.metadata.resource_version.as_deref() == version)
        .is_some_and(|stored| crate::controller::talk::has_replicas(stored, condition) == Some(true))
}

/// KubeStellar may copy a generation that it has not resolved, and go down then: no wait is long enough for that.
pub(crate) fn was_away(kubestellar: &KubeStellar, server: &Server) -> bool {
    kubestellar.process > 0 && millis(server.counter.now) < kubestellar.down_until + AWAY_MS
}

/// The object's kind and version, if it is one that clusters can report on and the filter keeps.
pub(crate) fn judged(talk: &Talk, filter: Option<&str>, object: &BoundObject) -> Option<(ObjectKey, Content)> {
    let key = ObjectKey {
        group: object.group.clone(),
        resource: object.resource.clone(),
        namespace: object.namespace.clone(),
        name: object.name.clone(),
    };
    let (resource, content) = *talk.contents.get(&key)?;
    let is_kept = filter.is_none_or(|filter| filter == FILTER_FOR_ONE || filter.contains(&key.resource));
    (is_kept && resource.is_evaluated()).then_some((key, content))
}

/// Since when the process has seen the Binding name this version, if it has seen another one before.
pub(crate) fn seen_at(facts: &Facts, placement: &str, key: &ObjectKey) -> Option<Millis> {
    let named = facts.bindings.get(placement)?.observed.versions.get(&key.to_string())?;
    named.since.map(millis)
}

/// The version of the CombinedStatus that the reading found.
pub(crate) fn version_of_reports(facts: &Facts, key: &ObjectKey, placement: &str) -> Option<String> {
    combined_of(facts, key, placement)?.metadata.resource_version.clone()
}

/// The CombinedStatus that the reading found.
pub(crate) fn combined_of<'a>(facts: &'a Facts, key: &ObjectKey, placement: &str) -> Option<&'a CombinedStatusView> {
    let uid = &facts.objects.get(key)?.found.as_ref()?.uid;
    let namespace = CombinedStatus::namespace_of(key.namespace.as_deref());
    let id = format!("{namespace}/{}", CombinedStatus::name_of(uid.as_str(), placement));
    facts.combined.get(&id)?.object()
}
