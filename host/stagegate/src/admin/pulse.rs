//! Whether expressions can still be evaluated: a small one is, again and again. Must not pile up: the next one begins when
//! the last one has come back.

use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use stagegate_evaluate::{Answer, Budget, compile};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{Instant, sleep};

/// From one to the next.
const EVERY: Duration = Duration::from_secs(10);
/// Without an answer for so long, the threads are stuck: each evaluation has a deadline of a fraction of it.
const SILENCE_MAX: Duration = Duration::from_secs(90);

/// Beats until it is dropped.
#[derive(Debug)]
pub struct Pulse {
    last: Arc<Mutex<Instant>>,
    beating: AbortHandle,
}

impl Pulse {
    pub fn start() -> Self {
        let last = Arc::new(Mutex::new(Instant::now()));
        let beaten_at = last.clone();
        let beating = tokio::spawn(async move {
            loop {
                if spawn_blocking(beats).await.unwrap_or(false) {
                    *beaten_at.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
                }
                sleep(EVERY).await;
            }
        });
        Self {
            last,
            beating: beating.abort_handle(),
        }
    }

    /// Why it counts as stopped, if it does.
    pub fn failure(&self) -> Option<String> {
        let silent = self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed();
        (silent > SILENCE_MAX).then(|| format!("no expression could be evaluated for {} s", silent.as_secs()))
    }
}

impl Drop for Pulse {
    fn drop(&mut self) {
        self.beating.abort();
    }
}

fn beats() -> bool {
    let answer = compile("1 < 2", &[]).map(|compiled| compiled.eval(&[], Budget::default()));
    matches!(answer, Ok(Ok(Answer::Bool(true))))
}
