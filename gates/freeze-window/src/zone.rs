//! What local clocks show in a time zone whose future follows a rule. The rules are in a table that `tests/zones.rs`
//! writes from the tz database and compares with it: a library and its whole database would be five times the gate.

/// One rule a line: what clocks are ahead of UTC in winter and summer in seconds, when summer begins and ends (month,
/// week of five, day after Sunday, second after midnight by the clocks before), and the names of the zones. A rule
/// without summer is one number.
const ZONES: &str = include_str!("../zones.txt");

pub const DAY: i64 = 86_400;
const DAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];

pub struct Zone {
    ahead: i64,
    summer: Option<Summer>,
}

struct Summer {
    ahead: i64,
    begins: [i64; 4],
    ends: [i64; 4],
}

impl Zone {
    /// By its name in the tz database. None where that is not known, or its future follows no rule.
    pub fn named(name: &str) -> Option<Self> {
        let is_name = |word: &&str| word.as_bytes().first().is_some_and(u8::is_ascii_alphabetic);
        let line = ZONES
            .lines()
            .find(|line| line.split(' ').filter(is_name).any(|known| known == name))?;
        let numbers: Vec<i64> = line.split(' ').map_while(|number| number.parse().ok()).collect();
        match *numbers.as_slice() {
            [ahead] => Some(Self { ahead, summer: None }),
            [winter, ahead, a, b, c, d, e, f, g, h] => {
                let summer = Summer {
                    ahead,
                    begins: [a, b, c, d],
                    ends: [e, f, g, h],
                };
                Some(Self {
                    ahead: winter,
                    summer: Some(summer),
                })
            }
            _ => None,
        }
    }

    /// What local clocks are ahead at a time in seconds since 1970.
    pub fn ahead(&self, time: i64) -> i64 {
        let Some(summer) = &self.summer else { return self.ahead };
        let (year, ..) = date((time + self.ahead).div_euclid(DAY));
        let (begin, end) = (
            begin(year, summer.begins) - self.ahead,
            begin(year, summer.ends) - summer.ahead,
        );
        // South of the equator the summer is what is not between.
        let is_summer = if begin < end {
            begin <= time && time < end
        } else {
            begin <= time || time < end
        };
        if is_summer { summer.ahead } else { self.ahead }
    }

    /// The first and the last time at which clocks may be taken to show this one: they show it twice when they are put
    /// back, and never when they are put forward.
    pub fn times(&self, local: i64) -> (i64, i64) {
        let [a, b] = [local - DAY, local + DAY].map(|near| local - self.ahead(near));
        match [a, b].map(|time| time + self.ahead(time) == local) {
            [true, false] => (a, a),
            [false, true] => (b, b),
            _ => (a.min(b), a.max(b)),
        }
    }

    /// As `Mon 2026-11-23 08:00`.
    pub fn shows(&self, time: i64) -> String {
        let local = time + self.ahead(time);
        let (day, second) = (local.div_euclid(DAY), local.rem_euclid(DAY));
        let (year, month, date) = date(day);
        let day = DAYS[after_sunday(day) as usize];
        format!(
            "{day} {year:04}-{month:02}-{date:02} {:02}:{:02}",
            second / 3_600,
            second / 60 % 60
        )
    }
}

/// 1970 began on a Thursday.
pub fn after_sunday(day: i64) -> i64 {
    (day + 4).rem_euclid(7)
}

/// When a rule's half of the year begins, in seconds by the clocks before it.
fn begin(year: i64, [month, week, after, second]: [i64; 4]) -> i64 {
    let first = day(year, month);
    let date = first + (after - after_sunday(first)).rem_euclid(7) + (week - 1) * 7;
    // The fifth week is the last one, whichever that is.
    let is_beyond = date >= day(year + month / 12, month % 12 + 1);
    (date - if is_beyond { 7 } else { 0 }) * DAY + second
}

/// The first of a month in days since 1970, by years that begin in March: then the leap day is a year's last.
fn day(year: i64, month: i64) -> i64 {
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let leaps = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leaps + (153 * month + 2) / 5 - 719_468
}

/// Year, month and day of the month.
fn date(days: i64) -> (i64, i64, i64) {
    let mut year = 1970 + days.div_euclid(366);
    while day(year + 1, 1) <= days {
        year += 1;
    }
    let month = (1..=12).rev().find(|month| day(year, *month) <= days).unwrap_or(1);
    (year, month, days - day(year, month) + 1)
}
