//! What gates say about a stage: which component is asked, with what, and what its answer counts for. Must not run one:
//! a verdict is a fact, and where it is missing or too old, a question.
//!
//! A verdict counts for its module, config, evidence and attempt (its key) and for as long as the gate says. When
//! everything was read again, only a verdict of that very instant counts, so that all checks of the last round have one `now`.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use stagegate_api::staged_status::{MAX_PIECE_NAME_CHARS, MAX_PIECE_VALUE_CHARS, MAX_PIECES};
use stagegate_api::{CheckStatus, EvidencePiece, EvidenceRow, Outcome, Reported};

use super::answers::Answers;
use super::check::Check;
use super::finding::Finding;
use super::gate_call::{
    ConfigAnswer, ConfigKey, EarlierVerdict, GateAnswer, GateCall, GateDestination, GateEvidenceRow, GateHealth,
    GateObject, GateRequest, GateVerdict, Module, Source,
};
use super::question::Question;
use super::reason::Reason;
use super::spec::CheckedGate;
use super::verdict::VerdictKey;
use crate::health::{Health, health};
use crate::names::{ClusterName, Digest, ObjectKey, StageName, Uid};
use crate::time::after;
use stagegate_api::printable::printable_cut;

/// No answer is asked for again sooner than this, whatever a gate says.
const ASKED_AGAIN_AFTER: SignedDuration = SignedDuration::from_secs(1);
/// From the end of a pass, which status stores cut to a second, to the next one: a moment, and not a time worth a hold.
const BETWEEN_PASSES: SignedDuration = SignedDuration::from_secs(3);

/// Questions about modules and configs that have no answer yet, each once: for every stage that may still be judged, so
/// that a bad config is refused before anything moves.
pub fn questions<'s>(answers: Answers<'_>, gates: impl Iterator<Item = &'s CheckedGate>) -> Vec<Question> {
    let mut asked = BTreeSet::new();
    let mut configs = BTreeSet::new();
    let mut questions = Vec::new();
    for gate in gates {
        let Ok(version) = version(answers, gate) else { continue };
        let known = answers
            .modules
            .get(&gate.source)
            .filter(|known| known.asked_for == version);
        match known.map(|known| &known.module) {
            Some(Module::Loaded { digest }) if gate.pin.as_ref().is_none_or(|pin| pin == digest) => {
                let key = config_key(digest, gate);
                let is_answered = match answers.configs.get(&key) {
                    Some(ConfigAnswer::Failed { retry_at, .. }) => answers.now < *retry_at,
                    answer => answer.is_some(),
                };
                if !is_answered && configs.insert(key.clone()) {
                    questions.push(Question::Config {
                        key,
                        source: gate.source.clone(),
                        config: gate.config.clone(),
                    });
                }
            }
            Some(Module::Failed { retry_at, .. }) if answers.now < *retry_at => {}
            Some(Module::Loaded { .. } | Module::KeyMissing | Module::Refused { .. }) => {}
            None | Some(Module::Failed { .. }) => {
                if asked.insert(&gate.source) {
                    questions.push(Question::Module {
                        source: gate.source.clone(),
                        version: version.to_owned(),
                    });
                }
            }
        }
    }
    questions
}

/// The configs that their gate's own schema refuses, each as a sentence that names the field. `field` is that of all stages; one is given
/// by its position there, its name and its gates.
pub fn refused_configs<'s>(
    answers: Answers<'_>,
    field: &str,
    stages: impl Iterator<Item = (usize, StageName<&'s str>, &'s [CheckedGate])>,
) -> Vec<String> {
    let mut refused = Vec::new();
    for (stage_at, stage, gates) in stages {
        for (gate_at, gate) in gates.iter().enumerate() {
            let Ok(digest) = module(answers, stage, gate) else {
                continue;
            };
            if let Some(ConfigAnswer::Refused { message }) = answers.configs.get(&config_key(digest, gate)) {
                let message = printable_cut(message, MESSAGE_CHARS_MAX);
                refused.push(format!(
                    "{field}[{stage_at}].gates[{gate_at}].config is not what gate {} takes: {message}",
                    gate.name
                ));
            }
        }
    }
    refused
}

/// A gate that has said in this attempt that it will never pass, unless its entry in the spec was edited since.
pub fn failed(checks: &[CheckStatus], gates: &[CheckedGate]) -> Option<Finding> {
    let check = gates.iter().find_map(|gate| {
        let check = recorded(checks, gate)?;
        (check.outcome == Outcome::Fail && check.check_digest.as_deref() == Some(gate.digest.as_str())).then_some(check)
    })?;
    Some(Finding::fail(Reason::GateFailed, check.message.clone()))
}

fn recorded<'r>(checks: &'r [CheckStatus], gate: &CheckedGate) -> Option<&'r CheckStatus> {
    checks.iter().find(|check| check.name == gate.check_name())
}

/// The condition's answer, as gates see it.
pub fn earlier_condition(finding: &Finding) -> EarlierVerdict {
    EarlierVerdict {
        name: Check::Condition.as_str().to_owned(),
        outcome: finding.outcome,
        reason: finding.reason,
    }
}

/// What `cluster` reported about the object `key`. The evidence is complete when gates are asked, so a missing row is an error
/// and gets no default.
pub fn row_of(
    key: &ObjectKey,
    row: Option<&EvidenceRow>,
    cluster: ClusterName<&str>,
) -> Result<GateEvidenceRow, Finding> {
    let missing = || {
        let text = format!("cluster {cluster} has no evidence row that a gate could be shown");
        Finding::unknown(Reason::EvidenceMalformed, text)
    };
    let row = row.ok_or_else(missing)?;
    let reported_at = match row.at {
        Reported::At { seconds } => Some(Timestamp::from_second(seconds).map_err(|_| missing())?),
        Reported::WithoutStatus => None,
        Reported::Never => return Err(missing()),
    };
    Ok(GateEvidenceRow {
        reported_at,
        generation: row.r#gen.parse().ok(),
        ready: row.ready,
        available: row.available,
        total: row.total,
        updated: row.updated,
        health: match health(&key.group, &key.resource, row) {
            Health::Healthy => GateHealth::Healthy,
            Health::Progressing(_) => GateHealth::Progressing,
            Health::Failed(_) => GateHealth::Failed,
        },
    })
}

/// Which attempt of which stage is judged.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    pub policy: &'a str,
    pub stage: StageName<&'a str>,
    /// The uid of what places the attempt: a number of an attempt may come again.
    pub placement: Uid<&'a str>,
    pub attempt: i64,
    /// Where the gate's entry is, and what else begins another attempt when it is edited.
    pub edits: &'static str,
}

/// Everything that the gates of a stage are asked about, but for what each has of its own.
pub struct GateInput<'a> {
    pub answers: Answers<'a>,
    pub subject: Subject<'a>,
    pub gates: &'a [CheckedGate],
    pub objects: Vec<GateObject>,
    pub destinations: Vec<GateDestination>,
}

/// What came of asking the gates in their order.
#[derive(Default)]
pub struct GateResults {
    pub gates: Vec<GateResult>,
    /// The first gate without an answer; those behind it see what it will say, so they have not been asked.
    pub question: Option<Question>,
}

/// One gate's answer.
pub struct GateResult {
    pub check: String,
    pub finding: Finding,
    pub check_digest: Digest,
    pub evidence_digest: Option<Digest>,
    pub module: Option<Digest>,
    pub pieces: Vec<EvidencePiece>,
    /// Until when a pass may be used.
    pub valid_until: Option<Timestamp>,
    /// When it is asked again though nothing has changed.
    pub ask_again_at: Option<Timestamp>,
}

impl<'a> GateInput<'a> {
    /// `earlier` is the condition's answer, if there is one.
    pub fn ask(&self, mut earlier: Vec<EarlierVerdict>) -> GateResults {
        let mut answered = GateResults::default();
        let shown = Digest::of(&(
            self.subject.policy,
            self.subject.stage,
            &self.objects,
            &self.destinations,
        ));
        for gate in self.gates {
            let result = match self.ready(gate) {
                Err(finding) => GateResult::of(gate, finding),
                Ok(module) => {
                    let key = VerdictKey {
                        check: Digest::of(&(&gate.digest, module, self.subject.placement)),
                        evidence: Digest::of(&(&shown, &earlier)),
                        attempt: self.subject.attempt,
                    };
                    let Some(verdict) = self.verdict(&key) else {
                        answered.question = Some(Question::Gate(Box::new(self.call(gate, (key, module), earlier))));
                        return answered;
                    };
                    GateResult {
                        evidence_digest: Some(key.evidence),
                        module: Some(module.clone()),
                        ..self.result(gate, verdict)
                    }
                }
            };
            earlier.push(EarlierVerdict {
                name: result.check.clone(),
                outcome: result.finding.outcome,
                reason: result.finding.reason,
            });
            let has_failed = result.finding.outcome == Outcome::Fail;
            answered.gates.push(result);
            // What the others say changes nothing, and a no must be on record before anything else happens.
            if has_failed {
                return answered;
            }
        }
        answered
    }

    /// The component to ask, or why the gate cannot be asked.
    fn ready(&self, gate: &CheckedGate) -> Result<&'a Digest, Finding> {
        let Self { answers, subject, .. } = self;
        let module = module(*answers, subject.stage, gate)?;
        let who = named(subject.stage, gate);
        match answers.configs.get(&config_key(module, gate)) {
            Some(ConfigAnswer::Fits) => Ok(module),
            Some(ConfigAnswer::Failed { message, retry_at }) => {
                let message = printable_cut(message, MESSAGE_CHARS_MAX);
                let text = format!("{who}: its config could not be checked: {message}");
                Err(Finding::unknown(Reason::GateModuleFailed, text).wake_at(*retry_at))
            }
            // A refused one is refused with the whole policy; here it would be a gate asked with a config nobody accepted.
            Some(ConfigAnswer::Refused { message }) => {
                let message = printable_cut(message, MESSAGE_CHARS_MAX);
                let text = format!("{who} does not take its config: {message}");
                Err(Finding::unknown(Reason::InvalidGateConfig, text))
            }
            None => Err(Finding::unknown(
                Reason::GateModuleFailed,
                format!("the config of {who} was not checked yet"),
            )),
        }
    }

    fn call(&self, gate: &CheckedGate, (key, module): (VerdictKey, &Digest), earlier: Vec<EarlierVerdict>) -> GateCall {
        GateCall {
            key,
            source: gate.source.clone(),
            module: module.clone(),
            now: self.answers.now,
            timeout_ms: gate.timeout_ms,
            memory_mib: gate.memory_mib,
            request: GateRequest {
                policy: self.subject.policy.to_owned(),
                stage: self.subject.stage.owned(),
                attempt: self.subject.attempt,
                config: gate.config.clone(),
                objects: self.objects.clone(),
                destinations: self.destinations.clone(),
                earlier,
            },
        }
    }

    /// The verdict that counts now. A no counts for all evidence of the attempt, also before status has it.
    fn verdict(&self, key: &VerdictKey) -> Option<&'a GateVerdict> {
        let verdicts = self.answers.gate_verdicts;
        let is_no =
            |verdict: &GateVerdict| matches!(verdict.answer, GateAnswer::Fail { .. }) && verdict.at <= self.answers.now;
        let same_check = verdicts
            .iter()
            .filter(|(known, _)| known.check == key.check && known.attempt == key.attempt);
        let no = same_check.map(|(_, verdict)| verdict).find(|verdict| is_no(verdict));
        no.or_else(|| verdicts.get(key).filter(|verdict| self.counts(verdict)))
    }

    /// Whether the verdict may be used now. One that was asked for now always may: else nothing would ever be answered.
    fn counts(&self, verdict: &GateVerdict) -> bool {
        if verdict.at == self.answers.now {
            return true;
        }
        if self.answers.is_anew {
            return false;
        }
        let ends = match &verdict.answer {
            GateAnswer::Pass { .. } => valid_until(verdict),
            _ => self.ask_again_at(verdict),
        };
        // A verdict from the future is another clock's.
        verdict.at < self.answers.now && ends.is_none_or(|ends| self.answers.now < ends)
    }

    fn ask_again_at(&self, verdict: &GateVerdict) -> Option<Timestamp> {
        let wait = match &verdict.answer {
            GateAnswer::Pass { valid_for_ms } => milliseconds((*valid_for_ms)?),
            GateAnswer::Hold { retry_after_ms, .. } => milliseconds((*retry_after_ms)?),
            GateAnswer::Fail { .. } => return None,
            GateAnswer::Unknown { .. } => self.answers.retry_after,
        };
        Some(after(verdict.at, wait.max(ASKED_AGAIN_AFTER)))
    }

    fn result(&self, gate: &CheckedGate, verdict: &GateVerdict) -> GateResult {
        let who = named(self.subject.stage, gate);
        let finding = match &verdict.answer {
            GateAnswer::Pass { valid_for_ms: Some(0) } => Finding::unknown(
                Reason::GateError,
                format!("{who} passes for no time at all, which is no pass"),
            ),
            GateAnswer::Pass { .. } => Finding::pass(Reason::GatePassed, "passes"),
            GateAnswer::Hold { reason, .. } => {
                let text = format!("{who} holds: {}", printable_cut(reason, MESSAGE_CHARS_MAX));
                Finding::hold(Reason::GateHolds, text)
            }
            GateAnswer::Fail { reason } => {
                let text = format!(
                    "{who} has failed attempt {}: {}. It is not called again in this attempt: to try again, edit the gate's \
                    entry in {}",
                    self.subject.attempt,
                    printable_cut(reason, MESSAGE_CHARS_MAX),
                    self.subject.edits
                );
                Finding::fail(Reason::GateFailed, text)
            }
            GateAnswer::Unknown { message } => {
                let text = format!("{who} gave no verdict: {}", printable_cut(message, MESSAGE_CHARS_MAX));
                Finding::unknown(Reason::GateError, text)
            }
        };
        let ask_again_at = self.ask_again_at(verdict);
        let finding = Finding {
            wake_at: ask_again_at,
            ..finding
        };
        GateResult {
            pieces: verdict.evidence.iter().take(MAX_PIECES).map(cut).collect(),
            valid_until: valid_until(verdict),
            ask_again_at,
            ..GateResult::of(gate, finding)
        }
    }
}

impl GateResult {
    fn of(gate: &CheckedGate, finding: Finding) -> Self {
        Self {
            check: gate.check_name(),
            ask_again_at: finding.wake_at,
            finding,
            check_digest: gate.digest.clone(),
            evidence_digest: None,
            module: None,
            pieces: Vec::new(),
            valid_until: None,
        }
    }

    /// Whether this pass goes on from the one that is recorded: the same check, and no time between them in which
    /// nobody knows. A verdict is asked for again when the last one ends, which takes a moment. A recorded pass without an end
    /// was one for good, or one whose end was not worth recording: only a pass for good goes on from it.
    pub fn goes_on_from(&self, checks: &[CheckStatus], now: Timestamp) -> bool {
        let before = checks.iter().find(|check| check.name == self.check);
        before.is_some_and(|before| {
            before.outcome == Outcome::Pass
                && before.check_digest.as_deref() == Some(self.check_digest.as_str())
                && before.module_digest == self.module_digest()
                && match &before.valid_until {
                    Some(until) => now <= after(until.0, BETWEEN_PASSES),
                    None => self.valid_until.is_none(),
                }
        })
    }

    /// As users read and write it.
    pub fn module_digest(&self) -> Option<String> {
        self.module.as_ref().map(|digest| format!("sha256:{digest}"))
    }
}

/// The component that the gate runs now, or what is in the way.
fn module<'a>(answers: Answers<'a>, stage: StageName<&str>, gate: &CheckedGate) -> Result<&'a Digest, Finding> {
    let who = named(stage, gate);
    let version = match version(answers, gate) {
        Ok(version) => version,
        Err(none) => return Err(none.finding(&who, gate)),
    };
    let entry = &gate.source;
    let known = answers.modules.get(entry).filter(|known| known.asked_for == version);
    let (reason, text, retry_at) = match known.map(|known| &known.module) {
        Some(Module::Loaded { digest }) => match &gate.pin {
            Some(pin) if pin != digest => (
                Reason::GateDigestMismatch,
                format!(
                    "ConfigMap {entry} holds sha256:{digest} and not sha256:{pin}: put the right component there, or correct the digest"
                ),
                None,
            ),
            _ => return Ok(digest),
        },
        Some(Module::KeyMissing) => (
            Reason::GateModuleMissing,
            format!(
                "ConfigMap {} has no key {} under binaryData: put the component there",
                entry.config_map(),
                entry.key
            ),
            None,
        ),
        Some(Module::Refused { message }) => (
            Reason::GateModuleRefused,
            format!("ConfigMap {entry}: {}", printable_cut(message, MESSAGE_CHARS_MAX)),
            None,
        ),
        Some(Module::Failed { message, retry_at }) => (
            Reason::GateModuleFailed,
            format!("ConfigMap {entry}: {}", printable_cut(message, MESSAGE_CHARS_MAX)),
            Some(*retry_at),
        ),
        None => (
            Reason::GateModuleFailed,
            format!("ConfigMap {entry} was not loaded yet"),
            None,
        ),
    };
    let finding = Finding::unknown(reason, format!("{who} cannot be run: {text}"));
    Err(Finding {
        wake_at: retry_at,
        ..finding
    })
}

/// Why there is no ConfigMap to look into.
enum NoSource<'a> {
    NotAllowed,
    NotListed,
    Absent,
    Unread(&'a str),
}

impl NoSource<'_> {
    fn finding(self, who: &str, gate: &CheckedGate) -> Finding {
        let entry = &gate.source;
        let map = entry.config_map();
        match self {
            Self::NotAllowed => Finding::unknown(
                Reason::GateNamespaceNotAllowed,
                format!(
                    "{who} cannot be run: namespace {} is not one that gates are taken from: move the ConfigMap to one, or start \
                    the controller with it among --gate-namespaces",
                    entry.namespace
                ),
            ),
            Self::NotListed => Finding::unknown(
                Reason::GateModuleFailed,
                format!("{who}: ConfigMap {map} was not listed yet"),
            )
            .after_restart(),
            Self::Absent => Finding::unknown(
                Reason::GateModuleMissing,
                format!("{who} cannot be run: there is no ConfigMap {map}: create it, or correct the gate's module"),
            ),
            Self::Unread(message) => Finding::unknown(
                Reason::GateModuleFailed,
                format!(
                    "{who} cannot be run: ConfigMap {map} cannot be read: {}",
                    printable_cut(message, MESSAGE_CHARS_MAX)
                ),
            ),
        }
    }
}

fn version<'a>(answers: Answers<'a>, gate: &CheckedGate) -> Result<&'a str, NoSource<'a>> {
    if !answers.gate_namespaces.allow(&gate.source.namespace) {
        return Err(NoSource::NotAllowed);
    }
    match answers.sources.get(&gate.source.config_map()) {
        Some(Source::Present { version }) => Ok(version),
        Some(Source::Absent) => Err(NoSource::Absent),
        Some(Source::Unread { message }) => Err(NoSource::Unread(message)),
        None => Err(NoSource::NotListed),
    }
}

fn config_key(module: &Digest, gate: &CheckedGate) -> ConfigKey {
    ConfigKey {
        module: module.clone(),
        config: Digest::of_bytes(gate.config.as_bytes()),
    }
}

fn valid_until(verdict: &GateVerdict) -> Option<Timestamp> {
    match &verdict.answer {
        GateAnswer::Pass {
            valid_for_ms: Some(valid_for_ms),
        } => Some(after(verdict.at, milliseconds(*valid_for_ms))),
        _ => None,
    }
}

fn milliseconds(count: u64) -> SignedDuration {
    SignedDuration::from_millis(i64::try_from(count).unwrap_or(i64::MAX))
}

fn named(stage: StageName<&str>, gate: &CheckedGate) -> String {
    format!("gate {} of stage {stage}", gate.name)
}

/// Room for the sentence around a text that somebody else chose.
const MESSAGE_CHARS_MAX: usize = 700;

fn cut(piece: &EvidencePiece) -> EvidencePiece {
    EvidencePiece {
        name: printable_cut(&piece.name, MAX_PIECE_NAME_CHARS),
        value: printable_cut(&piece.value, MAX_PIECE_VALUE_CHARS),
    }
}
