//! What is known of results before anything runs: every line of `tests/data/shapes.json`, over the variables of a condition.

use stagegate_evaluate::{Compiled, Library, Shape, compile_shaped};

#[test]
fn every_text_of_the_table_is_refused_for_its_shapes() {
    let table: Vec<(String, Option<String>)> =
        serde_json::from_str(include_str!("../data/shapes.json")).expect("the table is a list of pairs");
    assert!(table.len() > 30);
    let cluster = Shape::record([("name", Shape::String), ("ready", Shape::Int), ("at", Shape::Timestamp)]);
    let mut wrong = Vec::new();
    for (text, due) in table {
        let variables = vec![
            ("clusters".to_owned(), Shape::list(cluster.clone())),
            ("labels".to_owned(), Shape::map(Shape::String)),
        ];
        let compiled = compile_shaped(&text, variables, Library::Extended).and_then(Compiled::of_bool);
        let message = compiled.err().map(|error| error.message);
        if message != due {
            wrong.push(format!("{text}: {message:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
