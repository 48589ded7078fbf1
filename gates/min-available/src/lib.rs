//! A gate: passes when enough clusters have enough of something available, for every object, by what a StatusCollector or the host's own
//! evidence says.

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
    #[schemars(range(min = 0, max = 1))]
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
        let clusters = request.destinations.len();
        let mut worst = vec![f64::INFINITY; clusters];
        for values in self.values(request)? {
            for (worst, value) in worst.iter_mut().zip(values) {
                *worst = worst.min(value);
            }
        }
        let short: Vec<String> = (request.destinations.iter().zip(&worst))
            .filter(|(_, worst)| **worst < self.at_least)
            .map(|(destination, worst)| format!("{} has {}", destination.name, Number(*worst)))
            .collect();
        let enough = clusters - short.len();
        let share = enough as f64 / clusters as f64;
        let verdict = if share >= self.share {
            Verdict::pass()
        } else {
            let more = match short.len().saturating_sub(NAMED_MAX) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let named = short[..short.len().min(NAMED_MAX)].join(", ");
            Verdict::hold(format!(
                "{enough} of {clusters} clusters have at least {}: {named}{more}",
                Number(self.at_least)
            ))
        };
        Ok(verdict.evidence("clusters", clusters).evidence("share", Number(share)))
    }
}

impl MinAvailable {
    /// For each object what the clusters have, in the order of the destinations.
    fn values(&self, request: &Request) -> Result<Vec<Vec<f64>>, Error> {
        let rows: Vec<_> = request.evidence()?.collect();
        let Some(collector) = &self.collector else {
            let values: Vec<f64> = rows
                .iter()
                .map(|row| Ok(row.available()? as f64))
                .collect::<Result<_, Error>>()?;
            return Ok(values.chunks(request.destinations.len()).map(<[f64]>::to_vec).collect());
        };
        let objects = request.objects.iter();
        objects
            .map(|object| {
                let values = object
                    .column(collector, &self.column)?
                    .numbers()?
                    .per_cluster(&self.cluster_column, request)?;
                Ok(values.into_iter().map(|(_, value)| value).collect())
            })
            .collect()
    }
}

stagegate_guest::export!(MinAvailable, schema: "../config.schema.json");
