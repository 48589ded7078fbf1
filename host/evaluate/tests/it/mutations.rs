//! Expressions that are nearly right: those of the other tests' data, changed by chance in their text and in their tree, over objects of
//! assorted shapes. Whatever one is, nothing panics or passes over its limits, it ends the same way again and on another thread, and an
//! exhausted budget never becomes a value.
//!
//! `STAGEGATE_BUDGET=<factor>` makes the minute longer; `STAGEGATE_SEED=<n>` runs the one seed that a failure named.

use crate::functions::compile;
use serde_json::{Value as Json, json};
use stagegate_evaluate::{Answer, Budget, Compiled, EvalError, EvalErrorKind, Value};
use std::time::{Duration, Instant};

const USUAL: Duration = Duration::from_secs(60);
/// An evaluation that takes longer passes over its deadline of a second, even on a machine that does much else.
const PATIENCE: Duration = Duration::from_secs(15);
const FUEL: u64 = 50_000;
/// A busy machine with two cores tries 280,000 in a minute: a count below this means that trials do not run, not that the machine is
/// slow.
const TRIED_MIN: u64 = 10_000;

#[test]
fn an_expression_that_is_nearly_right_does_no_harm() {
    let texts = texts();
    let objects = objects();
    assert!(texts.len() > 2_000, "{}", texts.len());
    if let Some(seed) = setting("STAGEGATE_SEED") {
        Trial::of(seed, &texts).judge(&objects);
        return;
    }
    let length = USUAL * u32::try_from(setting("STAGEGATE_BUDGET").unwrap_or(1).max(1)).expect("a factor");
    let began = Instant::now();
    let mut counts = Counts::default();
    // Each run begins elsewhere, and says where.
    let first = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(0));
    for seed in (first..).take_while(|_| began.elapsed() < length) {
        counts.add(Trial::of(seed, &texts).judge(&objects));
    }
    println!("{counts:?} from seed {first}");
    // A mutation that only ever breaks the syntax would try nothing.
    assert!(
        counts.tried > TRIED_MIN && counts.values * 50 > counts.tried,
        "{counts:?}"
    );
}

#[derive(Debug, Default)]
struct Counts {
    tried: u64,
    refused: u64,
    values: u64,
    errors: u64,
    limits: u64,
}

enum End {
    Refused,
    Value,
    Error,
    Limit,
}

impl Counts {
    fn add(&mut self, end: End) {
        self.tried += 1;
        *match end {
            End::Refused => &mut self.refused,
            End::Value => &mut self.values,
            End::Error => &mut self.errors,
            End::Limit => &mut self.limits,
        } += 1;
    }
}

fn setting(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text:?}")))
}

/// The expressions of the tables, short enough to be changed and run many times a second.
fn texts() -> Vec<String> {
    let tables = [
        include_str!("../data/answers.json"),
        include_str!("../data/cel-conformance.json"),
        include_str!("../data/failures.json"),
        include_str!("../data/functions.json"),
        include_str!("../data/leaks.json"),
        include_str!("../data/prices.json"),
    ];
    let mut found = Vec::new();
    for table in tables {
        gather(&serde_json::from_str(table).expect("JSON"), &mut found);
    }
    found.retain(|text| text.len() < 300);
    found
}

/// The expression of each row: its first text, or its member `expr`.
fn gather(table: &Json, found: &mut Vec<String>) {
    match table {
        Json::String(text) => found.push(text.clone()),
        Json::Object(members) => match members.get("expr") {
            Some(expression) => gather(expression, found),
            None => members.values().for_each(|table| gather(table, found)),
        },
        Json::Array(rows) => match rows.as_slice() {
            [Json::String(_), rest @ ..]
                if !rest.is_empty() && !matches!(rest, [Json::String(_), Json::String(_), Json::String(_), ..]) =>
            {
                gather(&rows[0], found);
            }
            _ => rows.iter().for_each(|row| gather(row, found)),
        },
        _ => {}
    }
}

fn objects() -> Vec<Value> {
    let assorted = [
        crate::deployment(),
        json!({}),
        json!([]),
        json!(null),
        json!(7),
        json!("text"),
        json!([1, "a", null, [2.5], {"a": true}]),
        json!({"a": {"b": {"c": [1, 2, 3]}}, "spec": [], "status": "x", "metadata": {"name": 4, "labels": {"": ""}}}),
        json!({"metadata": {"name": "10.0.0.1", "labels": {"cpu": "500m", "version": "v1.2.3", "url": "https://a/?b=c"}}}),
        json!({"spec": {"replicas": i64::MIN, "ports": (0..300).collect::<Vec<_>>()}, "text": "é😀".repeat(200)}),
        json!((0..50).map(|n| json!({"n": n, "s": "x".repeat(n)})).collect::<Vec<_>>()),
    ];
    assorted.iter().map(Value::from).collect()
}

/// SplitMix64 (Steele, Lea, Flood 2014).
struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % u64::try_from(bound.max(1)).expect("a bound")).expect("below it")
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

struct Trial {
    seed: u64,
    text: String,
    chance: Chance,
}

impl Trial {
    fn of(seed: u64, texts: &[String]) -> Self {
        let mut chance = Chance(seed);
        let mut text = chance.pick(texts).clone();
        for _ in 0..1 + chance.below(3) {
            let other = chance.pick(texts);
            text = match chance.below(2) {
                0 => changed_text(&text, other, &mut chance),
                _ => changed_tree(&text, other, &mut chance),
            };
        }
        Self { seed, text, chance }
    }

    fn judge(mut self, objects: &[Value]) -> End {
        let name = format!("STAGEGATE_SEED={}: {}", self.seed, self.text);
        let began = Instant::now();
        let compiled = match compile(&self.text) {
            Ok(compiled) => compiled,
            Err(error) => {
                assert!(
                    !error.message.contains("cannot be parsed"),
                    "{name}: the parser panicked"
                );
                assert!(error.to_string().chars().count() < 300, "{name}: {error}");
                assert!(
                    began.elapsed() < PATIENCE,
                    "{name}: compiling took {:?}",
                    began.elapsed()
                );
                return End::Refused;
            }
        };
        let obj = self.chance.pick(objects).clone();
        let whole = run(&compiled, &obj, FUEL);
        assert!(began.elapsed() < PATIENCE, "{name}: took {:?}", began.elapsed());
        if let Err(error) = &whole {
            assert!(error.kind != EvalErrorKind::Panicked, "{name}: panicked");
            assert!(error.message.chars().count() <= 256, "{name}: {error}");
        }
        // The deadline depends on the machine, everything else does not.
        let is_late =
            |outcome: &Outcome| matches!(outcome, Err(error) if error.kind == EvalErrorKind::DeadlineExceeded);
        if is_late(&whole) {
            return End::Limit;
        }
        let bytes = written(&whole);
        let (again, elsewhere) = (run(&compiled, &obj, FUEL), in_another_thread(&self.text, &obj));
        for outcome in [again, elsewhere] {
            assert!(
                is_late(&outcome) || written(&outcome) == bytes,
                "{name}: {} and {bytes}",
                written(&outcome)
            );
        }
        let less = u64::try_from(self.chance.below(usize::try_from(FUEL).expect("it fits"))).expect("it fits");
        // Most expressions cost little: half of the smaller budgets are nearly nothing.
        let less = if self.chance.below(2) == 0 { less } else { less % 32 };
        let smaller = run(&compiled, &obj, less);
        let is_exhausted =
            |outcome: &Outcome| matches!(outcome, Err(error) if error.kind == EvalErrorKind::BudgetExceeded);
        let is_consistent =
            is_late(&smaller) || is_exhausted(&smaller) || (written(&smaller) == bytes && !is_exhausted(&whole));
        assert!(
            is_consistent,
            "{name}: with {less} units {} and {bytes} with {FUEL}",
            written(&smaller)
        );
        match whole {
            Ok(_) => End::Value,
            Err(error) => match error.kind {
                EvalErrorKind::BudgetExceeded | EvalErrorKind::TooLarge => End::Limit,
                _ => End::Error,
            },
        }
    }
}

type Outcome = Result<Answer, EvalError>;

fn written(outcome: &Outcome) -> String {
    format!("{outcome:?}")
}

fn run(compiled: &Compiled, obj: &Value, fuel: u64) -> Outcome {
    let budget = Budget {
        fuel,
        deadline_ms: 1_000,
    };
    compiled.eval(&[("obj", obj.clone())], budget)
}

/// Compiled there, too.
fn in_another_thread(text: &str, obj: &Value) -> Outcome {
    let (text, obj) = (text.to_owned(), obj.clone());
    let work = move || run(&compile(&text).expect("it compiled before"), &obj, FUEL);
    let thread = std::thread::Builder::new().stack_size(128 << 10).spawn(work);
    thread.expect("a thread").join().expect("no panic")
}

/// Characters cut, repeated, swapped, or exchanged for those of another expression or of a table.
fn changed_text(text: &str, other: &str, chance: &mut Chance) -> String {
    const PIECES: [&str; 24] = [
        "(",
        ")",
        "[",
        "]",
        ".",
        "?",
        ":",
        "'",
        "\\",
        "!",
        "-",
        "&&",
        "||",
        "==",
        " in ",
        "0",
        "9223372036854775807",
        "-1",
        "1.5",
        "null",
        "@",
        "\u{0}",
        "é",
        "obj",
    ];
    let chars: Vec<char> = text.chars().collect();
    let (from, to) = (chance.below(chars.len() + 1), chance.below(chars.len() + 1));
    let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 12));
    let piece: String = match chance.below(4) {
        0 => String::new(),
        1 => (*chance.pick(&PIECES)).to_owned(),
        2 => chars[from..to].iter().collect::<String>().repeat(2 + chance.below(3)),
        _ => {
            let chars: Vec<char> = other.chars().collect();
            let begin = chance.below(chars.len());
            chars[begin..].iter().take(1 + chance.below(16)).collect()
        }
    };
    let (before, after): (String, String) = (chars[..from].iter().collect(), chars[to..].iter().collect());
    format!("{before}{piece}{after}")
}

/// A part of the tree of brackets, exchanged for a part of another tree or of its own, or wrapped in a call.
fn changed_tree(text: &str, other: &str, chance: &mut Chance) -> String {
    const AROUND: [(&str, &str); 20] = [
        ("(", ").all(i, v, true)"),
        ("(", ").exists(x, x == x)"),
        ("(", ").map(x, [x, x])"),
        ("(", ").transformMap(k, v, v)"),
        ("(", ").filter(x, false)"),
        ("cel.bind(b, ", ", [b, b])"),
        ("[", "]"),
        ("{'a': ", "}"),
        ("!(", ")"),
        ("-(", ")"),
        ("(", ").sum()"),
        ("(", ").sort()"),
        ("quantity(", ")"),
        ("string(", ")"),
        ("(", ").findAll('.')"),
        ("sets.contains([1], ", ")"),
        ("optional.of(", ").orValue(1)"),
        ("(", ") || true"),
        ("true ? (", ") : 1"),
        ("lists.range(40).map(i, ", ")"),
    ];
    let (own, others) = (parts(text), parts(other));
    let part = *chance.pick(&own);
    let new = match chance.below(4) {
        0 => others[chance.below(others.len())].of(other).to_owned(),
        1 => own[chance.below(own.len())].of(text).to_owned(),
        _ => {
            let (open, close) = chance.pick(&AROUND);
            format!("{open}{}{close}", part.of(text))
        }
    };
    format!("{}{new}{}", &text[..part.from], &text[part.to..])
}

/// A part of an expression, in bytes.
#[derive(Clone, Copy)]
struct Part {
    from: usize,
    to: usize,
}

impl Part {
    fn of(self, text: &str) -> &str {
        &text[self.from..self.to]
    }
}

/// What stands alone: the whole, what is between brackets and commas, and both sides of an operator at their level. Texts are leaves.
fn parts(text: &str) -> Vec<Part> {
    let mut found = vec![Part {
        from: 0,
        to: text.len(),
    }];
    let mut open: Vec<usize> = vec![0];
    let mut quote = None;
    for (at, c) in text.char_indices() {
        if let Some(sign) = quote {
            if c == sign {
                quote = None;
            }
            continue;
        }
        let after = at + c.len_utf8();
        let begun = open.last().copied().unwrap_or(0);
        if ")]},:?|&=<>+*/".contains(c) && begun < at {
            found.push(Part { from: begun, to: at });
        }
        match c {
            '\'' | '"' => quote = Some(c),
            '(' | '[' | '{' => open.push(after),
            ')' | ']' | '}' if open.len() > 1 => drop(open.pop()),
            ',' | ':' | '?' | '|' | '&' | '=' | '<' | '>' | '+' | '*' | '/' => {
                if let Some(last) = open.last_mut() {
                    *last = after;
                }
            }
            _ => {}
        }
    }
    found
}
