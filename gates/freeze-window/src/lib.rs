//! A gate: nothing goes on during weekly windows, for example from Friday 17:00 to Monday 08:00 in a named time zone.
//! Judged on the request's time alone.

mod week;
pub mod zone;

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use stagegate_guest::{Error, Gate, Request, Verdict};

use week::{WeekTime, around};
use zone::Zone;

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FreezeWindow {
    /// A zone of the tz database, for example `Europe/Berlin`.
    time_zone: String,
    /// When nothing may go on.
    #[schemars(length(min = 1, max = 32))]
    windows: Vec<Window>,
}

/// In local time. A window that ends when it begins lasts a week.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Window {
    /// For example `Fri 17:00`.
    from: WeekTime,
    /// The first minute after the window.
    to: WeekTime,
}

impl Gate for FreezeWindow {
    const NAME: &'static str = "freeze-window";
    const VERSION: &'static str = env!("CARGO_PKG_VERSION");
    const SUMMARY: &'static str = "Nothing goes on during weekly windows in a time zone";

    fn evaluate(&self, request: &Request) -> Result<Verdict, Error> {
        let zone = Zone::named(&self.time_zone).ok_or_else(|| {
            Error::new(format_args!(
                "the time zone `{}` is not known, or its future follows no rule",
                self.time_zone
            ))
        })?;
        let now = i64::try_from(request.now_ms / 1_000)?;
        let windows: Vec<_> = self
            .windows
            .iter()
            .flat_map(|window| around((window.from, window.to), now, &zone))
            .collect();
        let until = |later: i64| Duration::from_millis((later.unsigned_abs() * 1_000).saturating_sub(request.now_ms));
        let end_at = |time: i64| {
            let open_at = windows.iter().filter(|(begin, end)| (*begin..*end).contains(&time));
            open_at.map(|(_, end)| *end).max()
        };
        let Some(mut opens) = end_at(now) else {
            let begins = windows
                .iter()
                .map(|(begin, _)| *begin)
                .filter(|begin| *begin > now)
                .min();
            let begins = begins.ok_or_else(|| Error::new("the config names no window"))?;
            return Ok(Verdict::pass_for(until(begins)).evidence("freezes", zone.shows(begins)));
        };
        // Windows may meet or overlap.
        while let Some(later) = end_at(opens) {
            opens = later;
        }
        if windows.iter().all(|(_, end)| *end <= opens) {
            return Err(Error::new("the windows of the config leave no time between them"));
        }
        let shown = zone.shows(opens);
        let reason = format!("frozen: opens on {shown} in {}", self.time_zone);
        Ok(Verdict::hold_for(until(opens), reason).evidence("opens", shown))
    }
}

stagegate_guest::export!(FreezeWindow, schema: "../config.schema.json");
