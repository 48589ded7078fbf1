//! How many decisions a second of processor time the simulation makes, and ends with 1 where it is fewer than its bar.

use std::process::ExitCode;
use std::time::Duration;

use stagegate_simulation::run::run;
use stagegate_simulation::script::Script;

const SEEDS: std::ops::RangeInclusive<u64> = 1..=3_000;
/// Decisions a second: 10⁷ take half an hour.
const BAR: f64 = 5_000.0;

#[expect(clippy::print_stdout, reason = "the result of a benchmark is what it prints")]
fn main() -> ExitCode {
    let begun = processor_time();
    let (mut decisions, mut events, mut writes) = (0, 0, 0);
    for seed in SEEDS {
        let counts = run(&Script::drawn(seed), false).counts;
        decisions += counts.decisions;
        events += counts.events;
        writes += counts.writes;
    }
    let took = (processor_time() - begun).as_secs_f64();
    let speed = f64::from(u32::try_from(decisions).unwrap_or(u32::MAX)) / took;
    println!(
        "simulation/speed {speed:.0} decisions a second of processor time (bar {BAR}); {decisions} decisions, {events} events and \
         {writes} writes in {took:.1} s"
    );
    ExitCode::from(u8::from(speed < BAR))
}

/// Of this thread alone, whatever else the machine does.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}
