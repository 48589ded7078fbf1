//! What a gate is shown of the destinations of a stage: names, labels, and what each reports. Must not judge, and must not read
//! anything.

use jiff::Timestamp;
use stagegate_decide::checks::{GateDestination, GateEvidenceRow, GateHealth, GateObject};
use stagegate_evaluate::gate::wire;

/// Names and labels. Labels are left out where those of no destination are known.
pub fn of(destinations: &[GateDestination]) -> wire::Destinations {
    let mut names = wire::Arena::default();
    for destination in destinations {
        names.push(&destination.name);
    }
    let is_any_known = destinations.iter().any(|destination| destination.labels.is_some());
    wire::Destinations {
        names,
        labels: is_any_known.then(|| labels(destinations)),
    }
}

fn labels(destinations: &[GateDestination]) -> wire::Labels {
    let mut labels = wire::Labels::default();
    for (at, destination) in destinations.iter().enumerate() {
        if destination.labels.is_none() {
            labels.unknown.push(count(at));
        }
        for (key, value) in destination.labels.iter().flatten() {
            labels.keys.push(key);
            labels.values.push(value);
        }
        labels.ends.push(count(labels.keys.ends.len()));
    }
    labels
}

/// What each destination reports about the object at this index. `None` if one has no row for it, which a decision to ask a
/// gate rules out.
pub fn evidence(object: usize, destinations: &[GateDestination]) -> Option<wire::Evidence> {
    let mut evidence = wire::Evidence::default();
    for destination in destinations {
        let row = destination.evidence.get(object)?;
        evidence.reported.push(match row.reported_at {
            Some(_) => wire::Reported::WithStatus,
            None => wire::Reported::WithoutStatus,
        });
        evidence.reported_at_ms.push(row.reported_at.map_or(0, milliseconds));
        evidence.generation.push(row.generation);
        evidence.ready.push(row.ready);
        evidence.available.push(row.available);
        evidence.total.push(row.total);
        evidence.updated.push(row.updated);
        evidence.health.push(match row.health {
            GateHealth::Healthy => wire::Health::Healthy,
            GateHealth::Progressing => wire::Health::Progressing,
            GateHealth::Failed => wire::Health::Failed,
        });
    }
    Some(evidence)
}

/// The counts of each destination as the one result of a CombinedStatus: a row for each, with its name in this column. `None` as above.
pub fn counts(
    (at, object): (usize, &GateObject),
    destinations: &[GateDestination],
    (collector, column): (&str, &str),
) -> Option<wire::CombinedStatus> {
    let rows = destinations.iter().map(|destination| destination.evidence.get(at));
    let rows: Vec<&GateEvidenceRow> = rows.collect::<Option<_>>()?;
    let numbers = |name: &str, number: fn(&GateEvidenceRow) -> Option<i64>| {
        let mut integers = wire::Integers::default();
        rows.iter().for_each(|row| integers.push(number(row)));
        wire::Column {
            name: name.to_owned(),
            nulls: integers.nulls,
            data: wire::ColumnData::Integers(integers.values),
        }
    };
    let names = wire::Column {
        name: column.to_owned(),
        nulls: Vec::new(),
        data: wire::ColumnData::Texts(of(destinations).names),
    };
    let columns = vec![
        names,
        numbers("generation", |row| row.generation),
        numbers("replicas", |row| row.total),
        numbers("updated", |row| row.updated),
        numbers("ready", |row| row.ready),
        numbers("available", |row| row.available),
    ];
    Some(wire::CombinedStatus {
        namespace: object.key.namespace.clone().unwrap_or_default(),
        name: object.key.name.clone(),
        results: vec![wire::ResultSet {
            collector: collector.to_owned(),
            row_count: count(rows.len()),
            columns,
        }],
    })
}

pub fn milliseconds(at: Timestamp) -> u64 {
    u64::try_from(at.as_millisecond()).unwrap_or_default()
}

/// A request as large as 4 GiB is refused for its size.
fn count(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use stagegate_decide::checks::{GateDestination, GateEvidenceRow, GateHealth, GateObject, Shown};
    use stagegate_decide::names::ObjectKey;
    use stagegate_evaluate::gate::wire;

    use super::{counts, evidence, of};

    fn labelled(name: &str, labels: Option<&[(&str, &str)]>) -> GateDestination {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        GateDestination {
            name: name.to_owned(),
            labels: labels.map(|labels| labels.iter().map(owned).collect::<BTreeMap<_, _>>()),
            evidence: Vec::new(),
        }
    }

    fn arena(bytes: &str, ends: &[u32]) -> wire::Arena {
        wire::Arena {
            bytes: bytes.to_owned(),
            ends: ends.to_vec(),
        }
    }

    fn row(first: i64, health: GateHealth) -> GateEvidenceRow {
        GateEvidenceRow {
            reported_at: Timestamp::from_second(first).ok(),
            generation: Some(first),
            ready: Some(first + 1),
            available: Some(first + 2),
            total: Some(first + 3),
            updated: Some(first + 4),
            health,
        }
    }

    #[test]
    fn each_object_has_what_every_cluster_says_of_it_in_their_order() {
        let without = GateEvidenceRow {
            reported_at: None,
            generation: None,
            ready: None,
            available: None,
            total: None,
            updated: None,
            health: GateHealth::Healthy,
        };
        let destination = |name: &str, evidence| GateDestination {
            name: name.to_owned(),
            labels: None,
            evidence,
        };
        let mut destinations = vec![
            destination("a", vec![row(10, GateHealth::Failed), without.clone()]),
            destination("b", vec![without, row(20, GateHealth::Progressing)]),
        ];
        let numbers = |value| wire::Integers {
            nulls: vec![1],
            values: vec![value, 0],
        };
        let first = wire::Evidence {
            reported: vec![wire::Reported::WithStatus, wire::Reported::WithoutStatus],
            reported_at_ms: vec![10_000, 0],
            generation: numbers(10),
            ready: numbers(11),
            available: numbers(12),
            total: numbers(13),
            updated: numbers(14),
            health: vec![wire::Health::Failed, wire::Health::Healthy],
        };
        assert_eq!(evidence(0, &destinations), Some(first));
        let second = evidence(1, &destinations).unwrap();
        assert_eq!((second.updated.nulls, second.updated.values), (vec![0], vec![0, 24]));
        assert_eq!(second.health, [wire::Health::Healthy, wire::Health::Progressing]);
        destinations[0].evidence.clear();
        assert_eq!(evidence(0, &destinations), None);
    }

    #[test]
    fn labels_lie_one_behind_the_other_and_those_that_nobody_knows_are_named() {
        let destinations = [
            labelled("north", Some(&[("region", "n"), ("tier", "1")])),
            labelled("unread", None),
            labelled("bare", Some(&[])),
            labelled("south", Some(&[("region", "s")])),
        ];
        let shown = of(&destinations);
        assert_eq!(shown.names, arena("northunreadbaresouth", &[5, 11, 15, 20]));
        let labels = wire::Labels {
            unknown: vec![1],
            keys: arena("regiontierregion", &[6, 10, 16]),
            values: arena("n1s", &[1, 2, 3]),
            ends: vec![2, 2, 2, 3],
        };
        assert_eq!(shown.labels, Some(labels));
    }

    #[test]
    fn labels_of_which_none_are_known_are_absent() {
        assert_eq!(of(&[labelled("a", None), labelled("b", None)]).labels, None);
        assert!(of(&[labelled("a", Some(&[]))]).labels.is_some());
    }

    #[test]
    fn an_object_without_a_combined_status_has_one_result_with_the_counts_of_each_destination() {
        let object = GateObject {
            key: ObjectKey {
                group: "apps.openyurt.io".to_owned(),
                resource: "yurtappdaemons".to_owned(),
                namespace: Some("shop".to_owned()),
                name: "web".to_owned(),
            },
            uid: "u-1".to_owned().into(),
            generation: Some(4),
            shown: Shown::Destinations {
                collector: "pools",
                column: "pool",
            },
        };
        let mut destinations = [labelled("north", None), labelled("south", None)];
        let uncounted = GateEvidenceRow {
            generation: None,
            ready: None,
            available: None,
            total: None,
            updated: None,
            ..row(20, GateHealth::Progressing)
        };
        destinations[0].evidence.push(row(10, GateHealth::Healthy));
        destinations[1].evidence.push(uncounted);
        let numbers = |name: &str, value| wire::Column {
            name: name.to_owned(),
            nulls: vec![1],
            data: wire::ColumnData::Integers(vec![value, 0]),
        };
        let columns = vec![
            wire::Column {
                name: "pool".to_owned(),
                nulls: Vec::new(),
                data: wire::ColumnData::Texts(arena("northsouth", &[5, 10])),
            },
            numbers("generation", 10),
            numbers("replicas", 13),
            numbers("updated", 14),
            numbers("ready", 11),
            numbers("available", 12),
        ];
        let shown = wire::CombinedStatus {
            namespace: "shop".to_owned(),
            name: "web".to_owned(),
            results: vec![wire::ResultSet {
                collector: "pools".to_owned(),
                row_count: 2,
                columns,
            }],
        };
        let asked = ((0, &object), ("pools", "pool"));
        assert_eq!(counts(asked.0, &destinations, asked.1), Some(shown));
        destinations[1].evidence.clear();
        assert_eq!(counts(asked.0, &destinations, asked.1), None);
    }
}
