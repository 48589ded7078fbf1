//! A change as one line: for people (`12.3s nginx dev Progressing SettlingBinding: …`) or as a JSON object.

use serde::Serialize;
use stagegate_api::printable::printable;

use super::change::{Change, What};
use super::frame::of_place;
use super::rollout::Place;
use super::shown::Elapsed;
use super::text::{explained, milliseconds, says};

/// The changes of one moment, a line each, without line ends whatever the changes' texts hold. The check that gives the
/// phase its reason is left out, unless it shows evidence: it would say the same once more.
pub fn texts(changes: &[Change], elapsed: Elapsed) -> Vec<String> {
    let is_repeated = |check: &Change| {
        let What::Check {
            reason,
            message,
            evidence,
            ..
        } = &check.what
        else {
            return false;
        };
        if !evidence.is_empty() {
            return false;
        }
        let same = |what: &What| matches!(what, What::Phase { reason: why, message: said, .. } if why == reason && says(said, message));
        changes
            .iter()
            .any(|change| change.stage == check.stage && same(&change.what))
    };
    changes
        .iter()
        .filter(|change| !is_repeated(change))
        .map(|change| text(change, elapsed))
        .collect()
}

fn text(change: &Change, elapsed: Elapsed) -> String {
    let mut line = format!("{:>6} {}", elapsed.text(), change.policy);
    if let Some(stage) = &change.stage {
        line.push(' ');
        line.push_str(stage);
    }
    line.push(' ');
    line.push_str(&match &change.what {
        What::Phase { phase, reason, message } if format!("{phase:?}") == *reason => join(reason, message),
        What::Phase { phase, reason, message } => join(&format!("{phase:?} {reason}"), message),
        What::State { state, place } => match place {
            Place::Clusters { clusters } if clusters.is_empty() => format!("{state:?}"),
            Place::Clusters { clusters } => format!("{state:?} on {}", clusters.join(", ")),
            Place::Pools { .. } => format!("{state:?}: {}", of_place(place)),
        },
        What::Check {
            check,
            outcome,
            reason,
            message,
            evidence,
            ..
        } => join(&format!("{check} {outcome:?} {reason}"), &explained(message, evidence)),
        What::Note { message } => format!("note: {message}"),
        What::Deleted => "deleted".to_owned(),
    });
    printable(&line)
}

/// `{"elapsedMs": 12300, "policy": …, "stage": …, "type": …, …}`.
///
/// # Errors
/// None in practice: every key is a string.
pub fn json(change: &Change, elapsed: Elapsed) -> serde_json::Result<String> {
    #[derive(Serialize)]
    #[serde(rename_all = "camelCase")]
    struct Timed<'a> {
        elapsed_ms: u64,
        #[serde(flatten)]
        change: &'a Change,
    }
    serde_json::to_string(&Timed {
        elapsed_ms: milliseconds(elapsed.duration()),
        change,
    })
}

fn join(head: &str, message: &str) -> String {
    if message.is_empty() {
        head.trim_end().to_owned()
    } else {
        format!("{}: {message}", head.trim_end())
    }
}
