//! The times a user may write for a soak.

use std::time::Duration;

use stagegate_api::{Stage, parse_duration};

#[test]
fn times_are_read_as_go_reads_them() {
    let table = [
        ("10m", Some(600_000)),
        ("1h30m", Some(5_400_000)),
        ("2.5s", Some(2_500)),
        ("1.25h", Some(4_500_000)),
        ("200ms", Some(200)),
        ("0.001ms", Some(0)),
        ("", None),
        ("10", None),
        ("m", None),
        ("10d", None),
        ("-1s", None),
        ("1 s", None),
        ("1.s", None),
        (".5s", None),
        ("1.2.3s", None),
        ("99999999999999999999s", None),
        ("9999999h9999999h", None),
    ];
    for (text, millis) in table {
        assert_eq!(parse_duration(text).map(|time| time.as_millis()), millis, "{text:?}");
    }
}

#[test]
fn a_soak_is_between_a_second_and_thirty_days() {
    let soak = |text: &str| {
        Stage {
            soak: Some(text.to_owned()),
            ..Stage::default()
        }
        .soak_time()
    };
    assert_eq!(soak("1s"), Ok(Some(Duration::from_secs(1))));
    assert_eq!(soak("720h"), Ok(Some(Duration::from_secs(2_592_000))));
    for refused in ["0s", "999ms", "720h1s", "soon"] {
        assert_eq!(soak(refused), Err(refused.to_owned()));
    }
    assert_eq!(Stage::default().soak_time(), Ok(None));
}
