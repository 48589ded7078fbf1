//! The table: Stagegate, the floor, the Go stager where it was measured, and the goals. Must not measure.

use crate::figures::{Counts, Figures, quantile};

/// The Go stager, measured once on a machine like this with client limits of 1,000 requests a second; `None`: not measured.
struct Go {
    policies: usize,
    placed_s: f64,
    placing_cpu_s: f64,
    resident_mib: f64,
    peak_mib: f64,
    change_cpu_ms: f64,
    from_event_ms: [f64; 2],
    from_write_ms: [f64; 2],
    flip_cpu_ms: f64,
    burst_s: f64,
    restart_failing: f64,
}

const GO: &[Go] = &[
    Go {
        policies: 200,
        placed_s: 2.5,
        placing_cpu_s: 0.60,
        resident_mib: 50.0,
        peak_mib: 50.0,
        change_cpu_ms: 1.25,
        from_event_ms: [6.6, 10.8],
        from_write_ms: [11.8, 18.0],
        flip_cpu_ms: 5.0,
        burst_s: 1.9,
        restart_failing: 4_680.0,
    },
    Go {
        policies: 1_000,
        placed_s: 12.7,
        placing_cpu_s: 3.39,
        resident_mib: 77.0,
        peak_mib: 77.0,
        change_cpu_ms: 2.20,
        from_event_ms: [7.7, 13.4],
        from_write_ms: [13.0, 23.0],
        flip_cpu_ms: 6.4,
        burst_s: 1.9,
        restart_failing: 5_743.0,
    },
];

#[derive(Clone)]
struct Row {
    what: &'static str,
    ours: f64,
    floor: Option<f64>,
    go: Option<f64>,
    /// At most.
    goal: Option<f64>,
}

pub fn print(policies: usize, [ours, floor]: &[Figures; 2]) {
    println!("\n{policies} policies waiting");
    println!(
        "{:<58} {:>10} {:>10} {:>10} {:>10}",
        "", "stagegate", "floor", "Go stager", "goal"
    );
    for row in rows(policies, ours, floor) {
        let text = |value: Option<f64>| value.map_or("–".to_owned(), number);
        let mark = match row.goal {
            Some(goal) if row.ours <= goal => "pass",
            Some(_) => "MISS",
            None => "",
        };
        let (floor, go, goal) = (text(row.floor), text(row.go), text(row.goal));
        println!(
            "{:<58} {:>10} {floor:>10} {go:>10} {goal:>10} {mark}",
            row.what,
            number(row.ours)
        );
    }
    println!(
        "flips missed: {} and {}; after the restart {} of 5 worked; SIGTERM of the Go stager: never ends",
        ours.missed, floor.missed, ours.restart_worked
    );
    for (what, of) in [("stagegate", ours), ("floor", floor)] {
        println!("{what}, a placing writes {}", counts(&of.placing_writes));
        println!("{what}, a transition writes {}", counts(&of.flip_writes));
        println!("{what}, a transition asks {}", counts(&of.flip_requests));
        for (change, of) in ["nothing", "nothing and is told"].iter().zip(&of.changes) {
            println!("{what}, a change that decides {change} asks {}", counts(&of.requests));
        }
    }
}

/// What is set side by side for one number of policies.
struct Sides<'a> {
    go: Option<&'a Go>,
    ours: &'a Figures,
    floor: &'a Figures,
    /// In MiB.
    resident_goal: Option<f64>,
}

fn rows(policies: usize, ours: &Figures, floor: &Figures) -> Vec<Row> {
    let sides = Sides {
        go: GO.iter().find(|go| go.policies == policies),
        ours,
        floor,
        resident_goal: match policies {
            1_000 => Some(45.0),
            10_000 => Some(250.0),
            _ => None,
        },
    };
    [sides.of_waiting(), sides.of_changes(), sides.of_endings()].concat()
}

impl Sides<'_> {
    fn row(&self, what: &'static str, of: &dyn Fn(&Figures) -> f64) -> Row {
        Row {
            what,
            ours: of(self.ours),
            floor: Some(of(self.floor)),
            go: None,
            goal: None,
        }
    }

    fn of_waiting(&self) -> Vec<Row> {
        let (go, floor, resident_goal) = (self.go, self.floor, self.resident_goal);
        let row = |what, of: &dyn Fn(&Figures) -> f64| self.row(what, of);
        vec![
            beside(
                row("start → all placed, s", &|of| of.placed.as_secs_f64()),
                go.map(|go| go.placed_s),
                Some(1.5 * floor.placed.as_secs_f64()),
            ),
            beside(
                row("CPU from start to steady, s", &|of| of.placing_cpu.as_secs_f64()),
                go.map(|go| go.placing_cpu_s),
                None,
            ),
            beside(
                row("resident, steady, MiB", &|of| of.resident_mib),
                go.map(|go| go.resident_mib),
                resident_goal,
            ),
            beside(
                row("resident, after all flips, MiB", &|of| of.end_mib),
                None,
                resident_goal,
            ),
            beside(
                row("resident, peak, MiB", &|of| of.peak_mib),
                go.map(|go| go.peak_mib),
                None,
            ),
            beside(row("idle 10 s: CPU, ms", &|of| ms(of.idle_cpu)), go.map(|_| 0.0), None),
            beside(
                row("idle 10 s: requests", &|of| count(of.idle_requests)),
                go.map(|_| 0.0),
                Some(0.0),
            ),
        ]
    }

    fn of_changes(&self) -> Vec<Row> {
        let (go, floor) = (self.go, self.floor);
        let row = |what, of: &dyn Fn(&Figures) -> f64| self.row(what, of);
        let event =
            |hundredths| move |of: &Figures| ms(quantile(of.flips.iter().map(|flip| flip.from_event), hundredths));
        let write =
            |hundredths| move |of: &Figures| ms(quantile(of.flips.iter().map(|flip| flip.from_write), hundredths));
        let sum = |counts: &Counts| counts.values().sum::<f64>();
        let burst = |of: &Figures| quantile(of.bursts.iter().copied(), 50).as_secs_f64();
        vec![
            beside(
                row("CPU per change that decides nothing, ms", &|of| ms(of.changes[0].cpu)),
                go.map(|go| go.change_cpu_ms),
                Some(0.3),
            ),
            row("… and that status has to tell, ms", &|of| ms(of.changes[1].cpu)),
            beside(
                row("evidence event seen → next stage open, median, ms", &event(50)),
                go.map(|go| go.from_event_ms[0]),
                Some(2.0 * event(50)(floor) + 3.0),
            ),
            beside(
                row("… p99, ms", &event(99)),
                go.map(|go| go.from_event_ms[1]),
                Some(2.0 * event(99)(floor)),
            ),
            beside(
                row("evidence write sent → next stage open, median, ms", &write(50)),
                go.map(|go| go.from_write_ms[0]),
                None,
            ),
            beside(row("… p99, ms", &write(99)), go.map(|go| go.from_write_ms[1]), None),
            beside(
                row("CPU per transition, ms", &|of| ms(of.flip_cpu)),
                go.map(|go| go.flip_cpu_ms),
                None,
            ),
            beside(
                row("writes per transition, Events apart", &|of| sum(&of.flip_writes)),
                go.map(|_| 3.0),
                Some(5.0),
            ),
            beside(
                row("burst of 90 → the last next stage open, s", &burst),
                go.map(|go| go.burst_s),
                Some(1.5 * burst(floor)),
            ),
        ]
    }

    /// A floor has no state that it could lose.
    fn of_endings(&self) -> Vec<Row> {
        let (go, ours, resident_goal) = (self.go, self.ours, self.resident_goal);
        vec![
            alone(
                "restart: failing requests",
                count(ours.restart_failing),
                go.map(|go| go.restart_failing),
                Some(0.0),
            ),
            alone(
                "restart: writes before anything changes",
                ours.restart_writes,
                None,
                None,
            ),
            alone(
                "restart: of 5 flips did not work",
                count(5 - ours.restart_worked.min(5)),
                go.map(|_| 5.0),
                Some(0.0),
            ),
            alone(
                "restart: CPU until steady, s",
                ours.restart_cpu.as_secs_f64(),
                None,
                None,
            ),
            alone("restart: resident, MiB", ours.restart_mib, None, resident_goal),
            alone("SIGTERM → exit, s", ours.stopped_in.as_secs_f64(), None, Some(2.0)),
        ]
    }
}

fn beside(row: Row, go: Option<f64>, goal: Option<f64>) -> Row {
    Row { go, goal, ..row }
}

fn alone(what: &'static str, ours: f64, go: Option<f64>, goal: Option<f64>) -> Row {
    Row {
        what,
        ours,
        floor: None,
        go,
        goal,
    }
}

fn counts(counts: &Counts) -> String {
    let texts: Vec<String> = counts
        .iter()
        .map(|(what, count)| format!("{count:.2} × {what}"))
        .collect();
    texts.join(", ")
}

fn ms(time: std::time::Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn count(count: usize) -> f64 {
    u32::try_from(count).map_or(f64::INFINITY, f64::from)
}

fn number(value: f64) -> String {
    if value >= 100.0 || value == value.trunc() {
        format!("{value:.0}")
    } else {
        format!("{value:.2}")
    }
}
