//! The functions an expression may call: the engine's standard library with its strings and lists extensions and optionals,
//! and what is known about each of them before anything runs.
//!
//! The engine does not list its overloads, so names and argument counts stand here again; `math` and `base64` stay out,
//! because Kubernetes has neither.

use crate::{charged, text};
use cel::{Env, extensions};
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};

/// What an expression is parsed and run with.
pub(crate) fn env() -> &'static Arc<Env> {
    static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
        let mut env = Env::stdlib();
        for extension in [
            extensions::strings,
            extensions::lists,
            charged::register,
            text::register,
        ] {
            env.add_extension(extension)
                .expect("each library is added once, to a new environment");
        }
        Arc::new(env)
    });
    &ENV
}

/// How many arguments the function `name` takes, if there is one. Qualified names count as functions: `lists.range`.
pub(crate) fn function(name: &str) -> Option<RangeInclusive<usize>> {
    find(FUNCTIONS, name)
}

/// How many arguments besides its receiver the method `name` takes, if there is one.
pub(crate) fn method(name: &str) -> Option<RangeInclusive<usize>> {
    find(METHODS, name).or_else(|| TIME_GETTERS.contains(&name).then_some(0..=1))
}

/// The functions and methods that an expression may call.
pub(crate) fn names() -> impl Iterator<Item = &'static str> {
    let tables = FUNCTIONS.iter().chain(METHODS).map(|(name, _)| *name);
    tables.chain(TIME_GETTERS.iter().copied())
}

fn find(table: &[(&str, RangeInclusive<usize>)], name: &str) -> Option<RangeInclusive<usize>> {
    table
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, arguments)| arguments.clone())
}

const FUNCTIONS: &[(&str, RangeInclusive<usize>)] = &[
    ("bool", 1..=1),
    ("bytes", 1..=1),
    ("double", 1..=1),
    ("duration", 1..=1),
    ("dyn", 1..=1),
    ("int", 1..=1),
    ("lists.range", 1..=1),
    ("matches", 2..=2),
    ("optional.none", 0..=0),
    ("optional.of", 1..=1),
    ("optional.ofNonZeroValue", 1..=1),
    ("size", 1..=1),
    ("string", 1..=1),
    ("strings.quote", 1..=1),
    ("timestamp", 1..=1),
    ("type", 1..=1),
    ("uint", 1..=1),
];

const METHODS: &[(&str, RangeInclusive<usize>)] = &[
    // What the macro `sortBy` becomes.
    ("@sortByAssociatedKeys", 1..=1),
    ("charAt", 1..=1),
    ("contains", 1..=1),
    ("distinct", 0..=0),
    ("endsWith", 1..=1),
    ("flatten", 0..=1),
    ("format", 1..=1),
    ("hasValue", 0..=0),
    ("indexOf", 1..=2),
    ("join", 0..=1),
    ("lastIndexOf", 1..=2),
    ("lowerAscii", 0..=0),
    ("matches", 1..=1),
    ("or", 1..=1),
    ("orValue", 1..=1),
    ("replace", 2..=3),
    ("reverse", 0..=0),
    ("size", 0..=0),
    ("slice", 2..=2),
    ("sort", 0..=0),
    ("split", 1..=2),
    ("startsWith", 1..=1),
    ("substring", 1..=2),
    ("trim", 0..=0),
    ("upperAscii", 0..=0),
    ("value", 0..=0),
];

/// Of timestamps, with an optional time zone; the last four of durations too.
const TIME_GETTERS: &[&str] = &[
    "getFullYear",
    "getMonth",
    "getDate",
    "getDayOfMonth",
    "getDayOfWeek",
    "getDayOfYear",
    "getHours",
    "getMinutes",
    "getSeconds",
    "getMilliseconds",
];
