//! The recipes of `docs/conditions.md`, run by `stagegate cel` as they stand in the page, over the CombinedStatus that the page
//! shows: `tests/conditions.yaml` says what each answers. The conditions of `deploy/examples` are in that table, too.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::{stagegate, tests};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Recipe {
    recipe: String,
    /// The example that it is of, if it is not of the page.
    #[serde(default)]
    example: Option<String>,
    /// Of a filter, the placed object.
    #[serde(default)]
    clause: Option<Value>,
    cases: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// By JSON pointer; the parent is there.
    #[serde(default)]
    set: BTreeMap<String, Value>,
    /// `true`, `false`, or `error`.
    answer: Value,
}

/// Each comparison and its opposite, longer signs first.
const OPPOSITES: [(&str, &str); 6] = [
    (" >= ", " < "),
    (" <= ", " > "),
    (" == ", " != "),
    (" != ", " == "),
    (" > ", " <= "),
    (" < ", " >= "),
];

#[test]
fn each_recipe_of_the_page_answers_what_its_cases_say() {
    let page = Page::read();
    let recipes = recipes();
    let of_page = recipes.iter().filter(|recipe| recipe.example.is_none());
    let texts: Vec<&str> = of_page.map(|recipe| recipe.recipe.as_str()).collect();
    assert_eq!(page.recipes, texts, "the cases are those of the page, in its order");
    for recipe in &recipes {
        for case in &recipe.cases {
            let answer = recipe.answer(&recipe.recipe, case, &page);
            assert_eq!(answer, case.answer, "{} with {:?}", recipe.recipe, case.set);
        }
    }
}

#[test]
fn each_condition_of_an_example_is_in_the_table() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/examples");
    let recipes = recipes();
    let mut found = 0;
    for example in std::fs::read_dir(examples).unwrap() {
        let example = example.unwrap();
        let name = example.file_name().into_string().unwrap();
        let files = std::fs::read_dir(example.path())
            .unwrap()
            .map(|file| file.unwrap().path());
        for file in files.filter(|file| file.is_file()) {
            let text = std::fs::read_to_string(file).unwrap();
            let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap_or_default();
            let stages = documents
                .iter()
                .filter_map(|document| document["spec"]["stages"].as_array());
            for condition in stages.flatten().filter_map(|stage| stage["condition"].as_str()) {
                let is_this = |recipe: &&Recipe| recipe.example.as_ref() == Some(&name) && recipe.recipe == condition;
                assert!(
                    recipes.iter().find(is_this).is_some(),
                    "no cases of {condition} in {name}"
                );
                found += 1;
            }
        }
    }
    let of_examples = recipes.iter().filter(|recipe| recipe.example.is_some()).count();
    assert_eq!(found, of_examples, "each of the table is in an example");
}

#[test]
fn each_comparison_of_a_recipe_changes_an_answer_when_it_is_turned_around() {
    let page = Page::read();
    for recipe in recipes() {
        for (sign, opposite) in OPPOSITES {
            for (at, _) in recipe.recipe.match_indices(sign) {
                let (before, after) = recipe.recipe.split_at(at);
                let turned = format!("{before}{opposite}{}", &after[sign.len()..]);
                let is_changed = |case: &Case| recipe.answer(&turned, case, &page) != case.answer;
                assert!(recipe.cases.iter().any(is_changed), "no case tells it from {turned}");
            }
        }
    }
}

fn recipes() -> Vec<Recipe> {
    let table = std::fs::read_to_string(tests("conditions.yaml")).expect("the table is in the repository");
    serde_saphyr::from_str(&table).expect("the table is well formed")
}

impl Recipe {
    /// What `stagegate cel` answers for `text`.
    fn answer(&self, text: &str, case: &Case, page: &Page) -> Value {
        let mut object = self.clause.clone().unwrap_or_else(|| page.combined.clone());
        for (pointer, value) in &case.set {
            *object.pointer_mut(pointer).expect("the page has what the case changes") = value.clone();
        }
        let file = File::with(&object);
        let root = if self.clause.is_some() {
            "downsyncClause"
        } else {
            "combinedStatus"
        };
        let path = file.0.display().to_string();
        let ended = stagegate(&["cel", text, "--with", &path, "--root", root, "-o", "json"]);
        let answer: Value = serde_json::from_slice(&ended.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", super::text(&ended.stderr)));
        answer.get("value").cloned().unwrap_or_else(|| json!("error"))
    }
}

struct Page {
    /// The blocks of CEL.
    recipes: Vec<String>,
    combined: Value,
}

impl Page {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conditions.md");
        let page = std::fs::read_to_string(path).expect("the page is in the repository");
        let blocks = |language: &str| -> Vec<String> {
            let begin = format!("```{language}\n");
            page.split(&begin)
                .skip(1)
                .map(|part| part.split("```").next().unwrap_or_default().trim_end().to_owned())
                .collect()
        };
        let combined = blocks("yaml")
            .into_iter()
            .find(|block| block.contains("kind: CombinedStatus"))
            .expect("the page shows one");
        Self {
            recipes: blocks("cel"),
            combined: serde_saphyr::from_str(&combined).expect("it is YAML"),
        }
    }
}

/// A file that is removed at the end.
struct File(PathBuf);

impl File {
    fn with(object: &Value) -> Self {
        use std::sync::atomic::{AtomicUsize, Ordering};
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("stagegate-test-{}-recipe-{count}.json", std::process::id()));
        std::fs::write(&path, object.to_string()).expect("the temporary directory is writable");
        Self(path)
    }
}

impl Drop for File {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}
