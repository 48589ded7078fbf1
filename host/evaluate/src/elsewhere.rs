//! Functions and members of other languages, and what stands for them here. Must not look at an expression.

/// What a call is called in other languages, and what to write.
const CALLS: [(&[&str], &str); 5] = [
    (&["every", "allMatch", "forall"], "x.all(e, …)"),
    (&["any", "some", "anyMatch"], "x.exists(e, …)"),
    (&["where", "select"], "x.filter(e, …)"),
    (&["count", "len", "length"], "x.size()"),
    (&["includes"], "x.contains('…') of a string, or `'…' in x` of a list"),
];

/// Members that hold a list's length elsewhere.
const LENGTHS: [&str; 4] = ["count", "len", "length", "size"];

/// What to do about a function that there is not, if another language has one of that name.
pub(crate) fn call(name: &str) -> Option<String> {
    if matches!(name, "now" | "today") {
        return Some(
            "an answer follows from the evidence alone, so the time is not known: to wait, use the stage's soak"
                .to_owned(),
        );
    }
    let (_, meant) = CALLS.iter().find(|(names, _)| names.contains(&name))?;
    Some(format!("write {meant}"))
}

/// Whether a list's length is a member of that name elsewhere.
pub(crate) fn is_length(name: &str) -> bool {
    LENGTHS.contains(&name)
}

/// Macros that loop, which are called on the list.
pub(crate) fn is_loop(name: &str) -> bool {
    matches!(name, "all" | "exists" | "existsOne" | "exists_one" | "filter" | "map")
}
