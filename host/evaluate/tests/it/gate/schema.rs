//! Configs against the schemas of gates.

use stagegate_evaluate::gate::{FAILURE_CHARS_MAX, check_config};

const SCHEMA: &str = r##"{
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "additionalProperties": false,
    "required": ["share"],
    "properties": {
        "share": {"type": "number", "minimum": 0, "maximum": 1},
        "windows": {"type": "array", "items": {"$ref": "#/$defs/window"}}
    },
    "$defs": {"window": {"type": "string", "pattern": "^[a-z]+$"}}
}"##;

#[test]
fn a_config_that_fits_is_taken() {
    check_config(SCHEMA, r#"{"share": 0.5, "windows": ["mon"]}"#).unwrap();
    check_config("true", "{}").unwrap();
}

#[test]
fn an_error_names_the_place() {
    for (config, says) in [
        (r#"{"share": 2}"#, "/share: "),
        (r#"{"share": 1, "windows": ["mon", "Tue"]}"#, "/windows/1: "),
        ("{}", "share"),
        (r#"{"share": 1, "sahre": 1}"#, "sahre"),
        ("", "the config is not JSON"),
    ] {
        let error = check_config(SCHEMA, config).unwrap_err();
        assert!(error.contains(says), "{config}: {error}");
    }
}

#[test]
fn a_schema_that_cannot_be_used_is_an_error() {
    for schema in ["", "{", r#"{"type": 7}"#, r##"{"$ref": "#/nowhere"}"##] {
        assert!(check_config(schema, "{}").unwrap_err().contains("schema"), "{schema}");
    }
}

#[test]
fn nothing_is_fetched() {
    for reference in ["https://example.com/schema", "file:///etc/passwd", "other.json"] {
        let schema = serde_json::json!({"$ref": reference}).to_string();
        assert!(check_config(&schema, "{}").is_err(), "{reference}");
    }
}

#[test]
fn a_pattern_costs_no_more_than_its_text_is_long() {
    for pattern in ["^(?=a)a", r"^(a+)+\1$"] {
        let schema = serde_json::json!({"type": "string", "pattern": pattern}).to_string();
        assert!(
            check_config(&schema, "\"aa\"").unwrap_err().contains("schema"),
            "{pattern}"
        );
    }
    let config = format!("\"{}b\"", "a".repeat(50_000));
    let error = check_config(r#"{"type": "string", "pattern": "^(a+)+$"}"#, &config).unwrap_err();
    assert!(error.chars().count() <= FAILURE_CHARS_MAX, "{error}");
}
