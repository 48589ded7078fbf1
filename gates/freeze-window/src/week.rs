//! Times of the week, and when windows between two of them are.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Deserialize;

use crate::zone::{DAY, Zone, after_sunday};

/// A day and a time, as `Fri 17:00`.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub struct WeekTime {
    seconds_after_monday: i64,
}

impl TryFrom<String> for WeekTime {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let parsed = || {
            let (day, time) = text.split_once(' ')?;
            let (hour, minute) = time.split_once(':').filter(|_| time.len() == 5)?;
            let days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
            let day = i64::try_from(days.iter().position(|known| *known == day)?).ok()?;
            let number = |text: &str, end: i64| text.parse().ok().filter(|number| (0..end).contains(number));
            Some(Self {
                seconds_after_monday: day * DAY + number(hour, 24)? * 3_600 + number(minute, 60)? * 60,
            })
        };
        parsed().ok_or_else(|| format!("`{text}` is no time of the week such as `Fri 17:00`"))
    }
}

impl JsonSchema for WeekTime {
    fn schema_name() -> Cow<'static, str> {
        "WeekTime".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^(Mon|Tue|Wed|Thu|Fri|Sat|Sun) ([01][0-9]|2[0-3]):[0-5][0-9]$"})
    }
}

/// Begin and end of the window in last, this and next week, in seconds since 1970: one of them is the one that `now` is
/// in, or the next one. A window whose end is not after its begin ends in the week after. Where clocks are put back or
/// forward, it is as long as can be.
pub fn around((from, to): (WeekTime, WeekTime), now: i64, zone: &Zone) -> impl Iterator<Item = (i64, i64)> {
    let today = (now + zone.ahead(now)).div_euclid(DAY);
    let monday = today - (after_sunday(today) + 6) % 7;
    let at = move |week: i64, time: WeekTime| zone.times((monday + week * 7) * DAY + time.seconds_after_monday);
    let wraps = i64::from(to.seconds_after_monday <= from.seconds_after_monday);
    (-1..=1).map(move |week| (at(week, from).0, at(week + wraps, to).1))
}
