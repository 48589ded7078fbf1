//! Functions and members of other languages, and what stands for them here. Must not look at an expression.

/// What a call is called in other languages, and what to write.
const CALLS: [(&[&str], &str); 4] = [
    (&["every", "allMatch", "forall"], "x.all(e, …)"),
    (&["any", "some", "anyMatch"], "x.exists(e, …)"),
    (&["where"], "x.filter(e, …)"),
    (&["includes"], "x.contains('…') for a string, or `'…' in x` for a list"),
];

/// Members that hold a list's length elsewhere.
const LENGTHS: [&str; 4] = ["count", "len", "length", "size"];

/// Advice about a function that does not exist here, if another language has one of that name.
pub(crate) fn call(name: &str, arguments: usize) -> Option<String> {
    if matches!(name, "now" | "today") {
        return Some("expressions cannot read the current time: to wait, use the soak of a stage".to_owned());
    }
    if is_length(name) {
        let counted = if arguments == 0 {
            "x.size()"
        } else {
            "x.filter(e, …).size()"
        };
        return Some(format!("write {counted}"));
    }
    let (_, meant) = CALLS.iter().find(|(names, _)| names.contains(&name))?;
    Some(format!("write {meant}"))
}

/// Whether other languages have a list's length as a member of that name.
pub(crate) fn is_length(name: &str) -> bool {
    LENGTHS.contains(&name)
}

/// Macros that loop, which are called on the list.
pub(crate) fn is_loop(name: &str) -> bool {
    matches!(name, "all" | "exists" | "existsOne" | "exists_one" | "filter" | "map")
}
