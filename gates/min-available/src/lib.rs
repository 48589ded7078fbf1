//! A gate: passes when enough clusters have enough of something available, for every object, by what a StatusCollector
//! or the host's own evidence says.

use schemars::JsonSchema;
use serde::Deserialize;
use stagegate_guest::{Error, Gate, Number, Request, Verdict};

/// At most this many clusters are named in a reason.
const NAMED_MAX: usize = 5;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct MinAvailable {
    /// What a cluster must have, of every object.
    #[schemars(range(min = 0))]
    at_least: f64,
    /// The share of the clusters that must have it: 0.9 lets one of ten be short.
    #[serde(default = "all")]
    #[schemars(range(max = 1), extend("exclusiveMinimum" = 0))]
    share: f64,
    /// The StatusCollector that counts, with a row for each cluster. Without one, available replicas count.
    collector: Option<String>,
    /// The collector's column that counts.
    #[serde(default = "available")]
    column: String,
    /// The collector's column that names the cluster.
    #[serde(default = "cluster")]
    cluster_column: String,
}

fn all() -> f64 {
    1.0
}

fn available() -> String {
    "available".to_owned()
}

fn cluster() -> String {
    "cluster".to_owned()
}

impl Gate for MinAvailable {
    const NAME: &'static str = "min-available";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Enough clusters have enough available";

    fn evaluate(&self, request: &Request) -> Result<Verdict, Error> {
        // No cluster at all would be enough. A host refuses it by the schema; a number too small for one is zero here.
        if self.share <= 0.0 {
            return Err(Error::new("config: `share` is not above 0"));
        }
        let clusters = &request.destinations;
        let least = self.least(request)?;
        let short = || clusters.iter().zip(&least).filter(|(_, least)| **least < self.at_least);
        let enough = clusters.len() - short().count();
        let share = enough as f64 / clusters.len() as f64;
        let verdict = if share >= self.share {
            Verdict::pass()
        } else {
            let named = short().map(|(cluster, least)| format!("{} has {}", cluster.name, Number(*least)));
            let mut named = named.take(NAMED_MAX).collect::<Vec<_>>().join(", ");
            if let more @ 1.. = short().count().saturating_sub(NAMED_MAX) {
                named += &format!(" and {more} more");
            }
            let at_least = Number(self.at_least);
            Verdict::hold(format!(
                "{enough} of {} clusters have at least {at_least}: {named}",
                clusters.len()
            ))
        };
        Ok(verdict
            .evidence("clusters", clusters.len())
            .evidence("share", Number(share)))
    }
}

impl MinAvailable {
    /// What each destination has of the object of which it has least.
    fn least(&self, request: &Request) -> Result<Vec<f64>, Error> {
        // By object, then by destination; an error where a cluster has never reported.
        let evidence = request.evidence()?;
        let mut least = vec![f64::INFINITY; request.destinations.len()];
        let Some(collector) = &self.collector else {
            for (at, row) in evidence.enumerate() {
                let least = &mut least[at % request.destinations.len()];
                *least = least.min(row.available()? as f64);
            }
            return Ok(least);
        };
        for object in &request.objects {
            let values = object.column(collector, &self.column)?.numbers()?;
            for (least, (_, value)) in least.iter_mut().zip(values.per_cluster(&self.cluster_column, request)?) {
                *least = least.min(value);
            }
        }
        Ok(least)
    }
}

stagegate_guest::export!(MinAvailable, schema: "../config.schema.json");
