//! The live view: what StagedBindingPolicies or YurtAppDaemons say about their rollouts, as a redrawn screen, as one line per change, or
//! as JSON lines.
//!
//! Everything shown comes from the spec and status of the objects, so that `watch` sees on any cluster what the playground
//! shows. Both kinds are read into one [`Rollout`] (`policy`, `daemon`); what is shown of it is computed by pure functions ([`change`], [`frame`], [`overview`], [`revisions`], [`verdicts`]); only [`View`]
//! writes, and only [`follow`] reads from a cluster.

use std::io::{self, IsTerminal as _, Write};
use std::time::Instant;

use jiff::Timestamp;

pub use self::rollout::{Rolled, Rollout, Rollouts};
use self::screen::Screen;
pub use self::shown::{Counting, Elapsed, Moment};
use crate::args::Format;
use crate::target::Kind;

pub mod change;
mod daemon;
pub mod follow;
pub mod frame;
pub mod line;
pub mod overview;
mod policy;
pub mod revisions;
pub mod rollout;
pub mod screen;
mod shown;
mod text;
pub mod times;
pub mod verdicts;

/// Shows rollouts of one kind as they change.
pub struct View<W> {
    out: W,
    mode: Mode,
    started: Instant,
    kind: Kind,
    counting: Counting,
    rollouts: Rollouts,
}

enum Mode {
    Screen(Screen),
    Lines,
    Json,
}

impl View<io::Stdout> {
    /// On standard output: redrawn in place on a terminal, lines anywhere else.
    pub fn on_stdout(format: Format, kind: Kind, counting: Counting) -> Self {
        let out = io::stdout();
        let mode = match format {
            Format::Json => Mode::Json,
            Format::Text if out.is_terminal() && screen::can_redraw() => Mode::Screen(Screen::default()),
            Format::Text => Mode::Lines,
        };
        Self {
            out,
            mode,
            started: Instant::now(),
            kind,
            counting,
            rollouts: Rollouts::new(),
        }
    }
}

impl<W: Write> View<W> {
    pub fn rollouts(&self) -> &Rollouts {
        &self.rollouts
    }

    /// A rollout as it is now.
    ///
    /// # Errors
    /// Those of the output.
    pub fn show(&mut self, mut rollout: Rollout) -> io::Result<()> {
        let previous = self.rollouts.get(&rollout.name);
        // Of a rollout that is over, status may not say when it began; it was seen before that.
        rollout.began = rollout.began.or(previous.and_then(|previous| previous.began));
        let changes = change::between(previous, &rollout);
        let elapsed = self.moment().of(&rollout);
        self.rollouts.insert(rollout.name.clone(), rollout);
        self.write(&changes, elapsed)
    }

    /// An object is gone.
    ///
    /// # Errors
    /// Those of the output.
    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        let Some(rollout) = self.rollouts.remove(name) else {
            return Ok(());
        };
        let elapsed = self.moment().of(&rollout);
        self.write(&[change::Change::gone(name)], elapsed)
    }

    /// Lets the times of a screen go on.
    ///
    /// # Errors
    /// Those of the output.
    pub fn tick(&mut self) -> io::Result<()> {
        self.write(&[], Elapsed::Precise(self.started.elapsed()))
    }

    /// The last word: every stage's verdicts, as a table or as the summary object.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(&mut self, ended: &str) -> io::Result<()> {
        let moment = self.moment();
        match &self.mode {
            Mode::Json => {
                let summary = verdicts::Summary::of(&self.rollouts, ended, moment.elapsed);
                writeln!(
                    self.out,
                    "{}",
                    serde_json::to_string(&summary).map_err(io::Error::other)?
                )
            }
            Mode::Screen(_) => writeln!(self.out, "\n{}", verdicts::table(&self.rollouts, screen::width())),
            Mode::Lines => writeln!(self.out, "{}", verdicts::table(&self.rollouts, None)),
        }?;
        self.out.flush()
    }

    fn write(&mut self, changes: &[change::Change], elapsed: Elapsed) -> io::Result<()> {
        let moment = self.moment();
        match &mut self.mode {
            Mode::Screen(screen) => {
                let lines = match self.rollouts.is_empty() {
                    true => frame::nothing_yet(self.kind, moment.elapsed),
                    false => frame::lines(&self.rollouts, moment),
                };
                screen.draw(&mut self.out, &lines)?;
            }
            Mode::Lines => {
                for line in line::texts(changes, elapsed) {
                    writeln!(self.out, "{line}")?;
                }
            }
            Mode::Json => {
                for change in changes {
                    writeln!(self.out, "{}", line::json(change, elapsed).map_err(io::Error::other)?)?;
                }
            }
        }
        self.out.flush()
    }

    fn moment(&self) -> Moment {
        Moment {
            elapsed: self.started.elapsed(),
            now: Timestamp::now(),
            counting: self.counting,
        }
    }
}
