//! What should be stopped. Nothing here answers unless the sandbox lets it.

use std::hint::black_box;
use std::io::Write;

use stagegate_guest::bindings::stagegate::gate::log::{Level, write};

pub fn loop_for_ever() {
    loop {
        black_box(());
    }
}

pub fn trap() {
    std::process::abort();
}

/// Takes memory by the mebibyte and touches it.
pub fn grow() {
    let mut taken = Vec::new();
    loop {
        taken.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Takes memory in steps that double.
pub fn grow_double() {
    let mut taken: Vec<u64> = Vec::new();
    loop {
        taken.push(black_box(taken.len() as u64));
    }
}

pub fn stack() {
    black_box(deeper(black_box(0)));
}

#[expect(unconditional_recursion, reason = "to run out of stack")]
fn deeper(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    deeper(depth + 1) + frame[63]
}

/// Past the standard library: straight at the interfaces of WASI.
#[cfg(target_family = "wasm")]
pub fn sleep_for_an_hour() {
    wasip2::clocks::monotonic_clock::subscribe_duration(3_600_000_000_000).block();
}

#[cfg(not(target_family = "wasm"))]
pub fn sleep_for_an_hour() {
    std::thread::sleep(std::time::Duration::from_secs(3_600));
}

pub fn log_flood() {
    for line in 0..100_000 {
        write(Level::Info, &format!("line {line} {}", "x".repeat(1_000)));
    }
}

/// Ends when standard output takes no more.
pub fn stdout_flood() {
    let mut out = std::io::stdout().lock();
    let block = vec![b'x'; 64 << 10];
    for _ in 0..4_096 {
        if out.write_all(&block).is_err() {
            return;
        }
    }
}
