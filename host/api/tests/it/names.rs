//! Names and versions: what is stored is the text alone, and versions compare as integers or not at all.

use serde_json::json;
use stagegate_api::{ClusterName, ResourceVersion, StageName, Uid};

#[test]
fn a_version_is_newer_only_if_both_are_integers() {
    let is_newer = |a, b| ResourceVersion::of(a).is_newer_than(&ResourceVersion::from(b));
    assert_eq!(is_newer("10", "9"), Some(true));
    assert_eq!(is_newer("18446744073709551616", "18446744073709551615"), Some(true));
    for (a, b) in [("9", "10"), ("9", "9"), ("09", "9")] {
        assert_eq!(is_newer(a, b), Some(false), "{a} {b}");
    }
    for unknown in ["", "-1", "1.5", "v2", " 1", "340282366920938463463374607431768211456"] {
        assert_eq!(
            (is_newer(unknown, "1"), is_newer("1", unknown)),
            (None, None),
            "{unknown:?}"
        );
    }
}

#[test]
fn the_text_alone_is_stored() {
    let stored = json!([
        Uid::from("u"),
        Uid::of("u"),
        ResourceVersion::of("7"),
        ClusterName::of("dev-1"),
        StageName::of("dev"),
    ]);
    assert_eq!(stored, json!(["u", "u", "7", "dev-1", "dev"]));
    let read: (Uid, ResourceVersion) = serde_json::from_value(json!(["u", "7"])).unwrap();
    assert_eq!(read, (Uid::from("u"), ResourceVersion::from("7")));
    assert!(serde_json::from_value::<ResourceVersion>(json!(7)).is_err());
}
