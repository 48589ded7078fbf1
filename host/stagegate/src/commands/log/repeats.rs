//! Holds back warnings that say again what was just said: a kind that is refused for ever, a policy that fails for ever, ten
//! thousand of them when the API server is away. Must not hold back anything below a warning, nor the first of its sort.
//!
//! A layer around another, and no filter: where every filter of a subscriber refuses an event only when it sees it, the
//! refusal sticks to the thread (tracing-subscriber 0.3.23, `FilterState`).

use std::collections::HashMap;
use std::fmt::{Debug, Write as _};
use std::hash::{BuildHasher as _, DefaultHasher, Hash, Hasher as _, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Lines that are equal but for how often: so many at once, and one more each time.
const EQUAL: Rate = Rate {
    burst: 3,
    refill: Duration::from_secs(5 * 60),
};
/// Lines of one place in the code, whatever they are about.
const PLACE: Rate = Rate {
    burst: 100,
    refill: Duration::from_secs(1),
};
/// Sorts of lines that are remembered; beyond them all are forgotten, and told anew.
const SORTS_MAX: usize = 4_096;
/// Fields that count on from line to line.
const COUNTING: &[&str] = &["in_row"];

#[derive(Clone, Copy, Debug)]
struct Rate {
    burst: u32,
    refill: Duration,
}

/// What is written by `lines`, without repeats.
pub struct Repeats<L> {
    lines: L,
    suppressed: Counter,
    hasher: RandomState,
    buckets: Mutex<Buckets>,
}

#[derive(Debug, Default)]
struct Buckets {
    equal: HashMap<u64, Bucket>,
    /// There are as many as places in the code.
    places: HashMap<Identifier, Bucket>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    left: f64,
    at: Instant,
}

impl<L> Repeats<L> {
    /// What is held back is counted by `suppressed`.
    pub fn of(lines: L, suppressed: Counter) -> Self {
        Self {
            lines,
            suppressed,
            hasher: RandomState::new(),
            buckets: Mutex::default(),
        }
    }

    fn is_wanted(&self, place: Identifier, sort: u64, now: Instant) -> bool {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        if buckets.equal.len() >= SORTS_MAX && !buckets.equal.contains_key(&sort) {
            buckets.equal.clear();
        }
        let is_news = take(
            buckets.equal.entry(sort).or_insert_with(|| Bucket::full(EQUAL, now)),
            EQUAL,
            now,
        );
        is_news
            && take(
                buckets.places.entry(place).or_insert_with(|| Bucket::full(PLACE, now)),
                PLACE,
                now,
            )
    }
}

impl Bucket {
    fn full(rate: Rate, now: Instant) -> Self {
        Self {
            left: f64::from(rate.burst),
            at: now,
        }
    }
}

fn take(bucket: &mut Bucket, rate: Rate, now: Instant) -> bool {
    let earned = now.duration_since(bucket.at).as_secs_f64() / rate.refill.as_secs_f64();
    bucket.left = (bucket.left + earned).min(f64::from(rate.burst));
    bucket.at = now;
    let is_taken = bucket.left >= 1.0;
    if is_taken {
        bucket.left -= 1.0;
    }
    is_taken
}

/// What a span is about: lines inside of it differ by it.
#[derive(Clone, Copy)]
struct Subject(u64);

impl<L> Repeats<L> {
    fn is_repeat<S: Subscriber + for<'a> LookupSpan<'a>>(&self, event: &Event<'_>, context: &Context<'_, S>) -> bool {
        if *event.metadata().level() > Level::WARN {
            return false;
        }
        let place = event.metadata().callsite();
        let mut words = Words(self.hasher.build_hasher());
        place.hash(&mut words.0);
        event.record(&mut words);
        if let Some(span) = context.event_span(event)
            && let Some(Subject(subject)) = span.extensions().get::<Subject>()
        {
            subject.hash(&mut words.0);
        }
        !self.is_wanted(place, words.0.finish(), Instant::now())
    }
}

impl<S, L> Layer<S> for Repeats<L>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    L: Layer<S>,
{
    fn on_layer(&mut self, subscriber: &mut S) {
        self.lines.on_layer(subscriber);
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut words = Words(self.hasher.build_hasher());
        attributes.record(&mut words);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(Subject(words.0.finish()));
        }
        self.lines.on_new_span(attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        self.lines.on_record(id, values, context);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        if self.is_repeat(event, &context) {
            self.suppressed.inc();
        } else {
            self.lines.on_event(event, context);
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        self.lines.on_enter(id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        self.lines.on_exit(id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        self.lines.on_close(id, context);
    }
}

/// A line's fields, hashed.
struct Words(DefaultHasher);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if COUNTING.contains(&field.name()) {
            return;
        }
        field.name().hash(&mut self.0);
        let mut text = String::new();
        if write!(text, "{value:?}").is_ok() {
            text.hash(&mut self.0);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use prometheus_client::metrics::counter::Counter;
    use tracing::{info, info_span, warn};
    use tracing_subscriber::fmt;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::Repeats;

    #[derive(Clone, Default)]
    struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

    impl io::Write for SharedBuffer {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The lines that come of `saying`, and how many were held back.
    fn lines(saying: impl FnOnce()) -> (Vec<String>, u64) {
        let (written, suppressed) = (SharedBuffer::default(), Counter::default());
        let writer = written.clone();
        let layer = fmt::layer().with_ansi(false).with_writer(move || writer.clone());
        let layer = Repeats::of(layer, suppressed.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), saying);
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        (text.lines().map(str::to_owned).collect(), suppressed.get())
    }

    fn refused(kind: &str, in_row: u32) {
        warn!(kind, in_row, "refused");
    }

    #[test]
    fn a_warning_that_says_the_same_again_is_held_back_and_counted() {
        let (lines, suppressed) = lines(|| (0..1_000).for_each(|in_row| refused("bindings", in_row)));
        assert_eq!((lines.len(), suppressed), (3, 997), "{lines:#?}");
    }

    #[test]
    fn another_subject_or_another_cause_is_news() {
        let (lines, _) = lines(|| {
            (0..10).for_each(|in_row| refused("bindings", in_row));
            refused("namespaces", 11);
            for key in ["nginx", "other"] {
                let _entered = info_span!("reconcile", key).entered();
                for cause in ["a", "a", "a", "a", "b"] {
                    warn!(cause, "failed");
                }
            }
        });
        let with = |word: &str| lines.iter().filter(|line| line.contains(word)).count();
        assert_eq!((with("bindings"), with("namespaces")), (3, 1), "{lines:#?}");
        assert_eq!(
            (with("nginx"), with("other"), with("cause=\"b\"")),
            (4, 4, 2),
            "{lines:#?}"
        );
    }

    #[test]
    fn a_storm_about_ten_thousand_things_is_one_all_the_same() {
        let (lines, suppressed) = lines(|| {
            (0..10_000).for_each(|number| refused(&number.to_string(), 1));
            (0..200).for_each(|_| info!("opened"));
        });
        let opened = lines.iter().filter(|line| line.contains("opened")).count();
        assert_eq!(opened, 200, "what is no warning is never held back");
        // On a slow machine a place earns a line or more each second.
        assert!((100..200).contains(&(lines.len() - opened)), "{}", lines.len());
        assert!(suppressed > 9_800, "{suppressed}");
    }
}
