//! The table: Stagegate, the floor, the Go stager where it was measured, and the goals. Must not measure.

use stagegate_cluster_tests::bench::figures::{count, counts, ms, number, optional, quantile, verdict};

use crate::figures::Figures;

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
        let mark = verdict(row.ours, row.goal);
        let (floor, go, goal) = (optional(row.floor), optional(row.go), optional(row.goal));
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
        println!("{what}, requests per placement: {}", counts(&of.placing_requests));
        println!("{what}, requests per transition: {}", counts(&of.flip_requests));
        for (change, of) in ["nothing", "nothing and is reported"].iter().zip(&of.changes) {
            println!(
                "{what}, requests per change that decides {change}: {}",
                counts(&of.requests)
            );
        }
    }
}

fn rows(policies: usize, ours: &Figures, floor: &Figures) -> Vec<Row> {
    let go = GO.iter().find(|go| go.policies == policies);
    let resident = match policies {
        1_000 => Some(45.0),
        10_000 => Some(160.0),
        _ => None,
    };
    let mut rows = waiting(go, resident, [ours, floor]);
    rows.extend(moving(go, [ours, floor]));
    rows.extend(restarting(go, resident, ours));
    rows
}

/// What it takes to place them, and to have them wait.
fn waiting(go: Option<&Go>, resident: Option<f64>, sides: [&Figures; 2]) -> Vec<Row> {
    let placed = |of: &Figures| of.placed.as_secs_f64();
    let row = |what, of: &dyn Fn(&Figures) -> f64| both(what, sides, of);
    vec![
        row("start → all placed, s", &placed)
            .go(go.map(|go| go.placed_s))
            .goal(1.8 * placed(sides[1])),
        row("requests per placement", &|of| of.placing_requests.values().sum()).goal(12.0),
        row("CPU from start to steady, s", &|of| of.placing_cpu.as_secs_f64()).go(go.map(|go| go.placing_cpu_s)),
        Row {
            goal: resident,
            ..row("resident, steady, MiB", &|of| of.resident_mib).go(go.map(|go| go.resident_mib))
        },
        Row {
            goal: resident,
            ..row("resident, after all flips, MiB", &|of| of.end_mib)
        },
        row("resident, peak, MiB", &|of| of.peak_mib).go(go.map(|go| go.peak_mib)),
        row("idle 10 s: CPU, ms", &|of| ms(of.idle_cpu)).go(go.map(|_| 0.0)),
        row("idle 10 s: requests", &|of| count(of.idle_requests))
            .go(go.map(|_| 0.0))
            .goal(0.0),
        row("CPU per change that decides nothing, ms", &|of| ms(of.changes[0].cpu))
            .go(go.map(|go| go.change_cpu_ms))
            .goal(2.0 * ms(sides[1].changes[0].cpu)),
        row("… requests", &|of| of.changes[0].requests.values().sum()).goal(0.0),
        row("… and that status has to report, ms", &|of| ms(of.changes[1].cpu)),
        row("… requests", &|of| of.changes[1].requests.values().sum()),
    ]
}

fn moving(go: Option<&Go>, sides: [&Figures; 2]) -> Vec<Row> {
    let event = |hundredths| move |of: &Figures| ms(quantile(of.flips.iter().map(|flip| flip.from_event), hundredths));
    let write = |hundredths| move |of: &Figures| ms(quantile(of.flips.iter().map(|flip| flip.from_write), hundredths));
    let burst = |of: &Figures| quantile(of.bursts.iter().copied(), 50).as_secs_f64();
    let row = |what, of: &dyn Fn(&Figures) -> f64| both(what, sides, of);
    vec![
        row("evidence event seen → next stage open, median, ms", &event(50))
            .go(go.map(|go| go.from_event_ms[0]))
            .goal(3.5 * event(50)(sides[1])),
        row("… p99, ms", &event(99))
            .go(go.map(|go| go.from_event_ms[1]))
            .goal(3.0 * event(50)(sides[0])),
        row("evidence write sent → next stage open, median, ms", &write(50)).go(go.map(|go| go.from_write_ms[0])),
        row("… p99, ms", &write(99)).go(go.map(|go| go.from_write_ms[1])),
        row("CPU per transition, ms", &|of| ms(of.flip_cpu)).go(go.map(|go| go.flip_cpu_ms)),
        row("requests per transition", &|of| of.flip_requests.values().sum())
            .go(go.map(|_| 4.0))
            .goal(16.0),
        row("burst of 90 → the last next stage open, s", &burst)
            .go(go.map(|go| go.burst_s))
            .goal(1.5 * burst(sides[1])),
    ]
}

fn restarting(go: Option<&Go>, resident: Option<f64>, ours: &Figures) -> Vec<Row> {
    vec![
        alone("restart: failing requests", count(ours.restart_failing))
            .go(go.map(|go| go.restart_failing))
            .goal(0.0),
        alone("restart: writes before anything changes", count(ours.restart_writes)),
        alone(
            "restart: of 5 flips did not work",
            count(5 - ours.restart_worked.min(5)),
        )
        .go(go.map(|_| 5.0))
        .goal(0.0),
        alone("restart: CPU until steady, s", ours.restart_cpu.as_secs_f64()),
        Row {
            goal: resident,
            ..alone("restart: resident, MiB", ours.restart_mib)
        },
        alone("SIGTERM → exit, s", ours.stopped_in.as_secs_f64()).goal(2.0),
    ]
}

fn both(what: &'static str, [ours, floor]: [&Figures; 2], of: &dyn Fn(&Figures) -> f64) -> Row {
    Row {
        floor: Some(of(floor)),
        ..alone(what, of(ours))
    }
}

fn alone(what: &'static str, ours: f64) -> Row {
    Row {
        what,
        ours,
        floor: None,
        go: None,
        goal: None,
    }
}

impl Row {
    fn go(self, go: Option<f64>) -> Row {
        Row { go, ..self }
    }

    fn goal(self, goal: f64) -> Row {
        Row {
            goal: Some(goal),
            ..self
        }
    }
}
