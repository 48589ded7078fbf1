//! No text from outside has an effect on the terminal of a person who reads status or Events. Must not look at what is decided.

use serde_json::Value;

use crate::rules;
use crate::seeded::{Seeded, budget};
use crate::staging::beginnings;
use crate::world;

/// Clears the screen, ends the line, and changes the direction of writing.
const HOSTILE: &str = "\u{1b}[2J\n\u{202e}";
/// How many texts of each case are made hostile, one at a time.
const TEXTS_OF_A_CASE: usize = 8;

#[test]
fn whoever_chose_a_text_it_does_nothing_to_a_terminal() {
    let mut chance = Seeded::new(14);
    let (mut tried, mut failures) = (0, Vec::new());
    for (name, world, answers, anew) in beginnings() {
        let mut pointers = Vec::new();
        texts("", &world, &mut pointers);
        chance.shuffle(&mut pointers);
        for pointer in pointers.iter().take(TEXTS_OF_A_CASE * budget()) {
            let mut hostile = world.clone();
            let text = hostile.pointer_mut(pointer).expect("it was found there");
            *text = Value::String(format!("{}{HOSTILE}", text.as_str().unwrap_or_default()));
            // A text that no longer parses is the subject of other tests.
            let Ok(outcome) = world::settle(hostile, None, &answers, &anew) else {
                continue;
            };
            tried += 1;
            let broken = rules::unprintable(&outcome.plan, &outcome.facts);
            failures.extend(broken.into_iter().map(|failure| format!("{name} {pointer}: {failure}")));
        }
    }
    crate::tell(&format!("texts made hostile: {tried}, seed {}", chance.seed));
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    assert!(tried > 1_000, "only {tried} were tried");
}

/// The pointers to all texts, except sentences in status, which this program wrote.
fn texts(pointer: &str, value: &Value, found: &mut Vec<String>) {
    match value {
        Value::String(_) => found.push(pointer.to_owned()),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                texts(&format!("{pointer}/{index}"), item, found);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                let is_said =
                    pointer == "/policy/object/status" && name != "stages" || name == "checks" || name == "message";
                if !is_said {
                    texts(
                        &format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1")),
                        member,
                        found,
                    );
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
