//! Two lists of answers compared. Must not forgive anything but what is listed, nor a list that says too much.

use std::collections::BTreeMap;

use libtest_mimic::{Failed, Trial};
use serde_json::{Value, json};

use super::answer::Answer;
use super::subject::Listed;

/// What is wrong: a difference that is not listed, or a listed one that does not occur.
pub fn faults(stored: &[Answer], found: &[Answer], listed: &[Listed]) -> Vec<String> {
    let mut faults = Vec::new();
    let mut unused: BTreeMap<(&str, &str), ()> = BTreeMap::new();
    for (at, request) in listed
        .iter()
        .flat_map(|l| l.at.iter().flat_map(|at| l.requests.iter().map(move |r| (at, r))))
    {
        unused.insert((request, at), ());
    }
    for (stored, found) in stored.iter().zip(found) {
        let name = stored.request.as_str();
        let mut places = Vec::new();
        compare(
            String::new(),
            Some(&as_value(stored)),
            Some(&as_value(found)),
            &mut places,
        );
        for place in places {
            let allowed: Vec<&str> = listed
                .iter()
                .filter(|listed| listed.requests.iter().any(|request| request == name))
                .flat_map(|listed| &listed.at)
                .map(String::as_str)
                .filter(|at| covers(at, &place.at))
                .collect();
            if allowed.is_empty() {
                faults.push(format!(
                    "{name}: {}: {} stored, {} answered",
                    place.at, place.stored, place.found
                ));
            }
            for at in allowed {
                unused.remove(&(name, at));
            }
        }
    }
    let stale = unused.into_keys();
    faults.extend(stale.map(|(request, at)| format!("{request}: {at}: listed, but there is no difference")));
    faults
}

struct ValuePath {
    at: String,
    stored: String,
    found: String,
}

fn as_value(answer: &Answer) -> Value {
    json!({"status": answer.status, "headers": answer.headers, "body": answer.body})
}

fn compare(at: String, stored: Option<&Value>, found: Option<&Value>, places: &mut Vec<ValuePath>) {
    if stored == found {
        return;
    }
    match (stored, found) {
        (Some(Value::Object(one)), Some(Value::Object(other))) => {
            let mut names: Vec<&String> = one.keys().chain(other.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                let step = name.replace('~', "~0").replace('/', "~1");
                compare(format!("{at}/{step}"), one.get(name), other.get(name), places);
            }
        }
        (Some(Value::Array(one)), Some(Value::Array(other))) => {
            for index in 0..one.len().max(other.len()) {
                compare(format!("{at}/{index}"), one.get(index), other.get(index), places);
            }
        }
        _ => {
            let show = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            places.push(ValuePath {
                at,
                stored: show(stored),
                found: show(found),
            });
        }
    }
}

/// Whether the place is the listed one or below it.
fn covers(listed: &str, place: &str) -> bool {
    let mut steps = place.split('/');
    listed
        .split('/')
        .all(|wanted| steps.next().is_some_and(|step| wanted == "*" || wanted == step))
}

pub fn trials() -> Vec<Trial> {
    let answer = |body: Value| Answer {
        request: "a".to_owned(),
        status: 200,
        headers: BTreeMap::new(),
        body,
    };
    let listed = |at: &str| {
        let text = json!({"because": "-", "at": [at], "in": ["a"]});
        vec![serde_json::from_value::<Listed>(text).expect("a listed difference")]
    };
    let (one, other) = (json!({"a": [{"b": 1}, {"b": 2}]}), json!({"a": [{"b": 1}, {"b": 3}]}));
    let rows: [(&str, &Value, Vec<Listed>, usize); 7] = [
        ("equal_answers_have_no_fault", &one, vec![], 0),
        ("a_difference_is_a_fault", &other, vec![], 1),
        ("a_listed_difference_is_none", &other, listed("/body/a/1/b"), 0),
        ("a_star_is_any_element", &other, listed("/body/a/*/b"), 0),
        ("what_is_listed_covers_what_is_below", &other, listed("/body/a"), 0),
        (
            "a_difference_elsewhere_is_a_fault_and_so_is_the_list",
            &other,
            listed("/body/a/0/b"),
            2,
        ),
        (
            "a_listed_difference_that_does_not_occur_is_a_fault",
            &one,
            listed("/body/a/1/b"),
            1,
        ),
    ];
    let trials = rows.into_iter().map(|(name, found, listed, wanted)| {
        let (stored, found) = ([answer(one.clone())], [answer(found.clone())]);
        Trial::test(format!("requests::{name}"), move || {
            let faults = faults(&stored, &found, &listed);
            match faults.len() == wanted {
                true => Ok(()),
                false => Err(Failed::from(format!("{faults:?}"))),
            }
        })
    });
    trials.collect()
}
