//! The live view: what StagedBindingPolicies say about their rollouts, as a redrawn screen, as one line per change, or
//! as JSON lines.
//!
//! Everything shown comes from the policies' spec and status, so that `watch` sees on any cluster what the playground
//! shows. What is shown is computed by pure functions ([`change`], [`frame`], [`overview`], [`revisions`], [`verdicts`]); only [`View`]
//! writes, and only [`follow`] reads from a cluster.

use std::io::{self, IsTerminal as _, Write};
use std::time::Instant;

use jiff::Timestamp;
use kube::ResourceExt as _;
use stagegate_api::StagedBindingPolicy;

use self::screen::Screen;
pub use self::shown::{Counting, Elapsed, Moment, Policies};
use crate::args::Format;

pub mod change;
pub mod follow;
pub mod frame;
pub mod line;
pub mod overview;
pub mod revisions;
pub mod screen;
mod shown;
mod text;
pub mod times;
pub mod verdicts;

/// Shows policies as they change.
pub struct View<W> {
    out: W,
    mode: Mode,
    started: Instant,
    counting: Counting,
    policies: Policies,
}

enum Mode {
    Screen(Screen),
    Lines,
    Json,
}

impl View<io::Stdout> {
    /// On standard output: redrawn in place on a terminal, lines anywhere else.
    pub fn on_stdout(format: Format, counting: Counting) -> Self {
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
            counting,
            policies: Policies::new(),
        }
    }
}

impl<W: Write> View<W> {
    pub fn policies(&self) -> &Policies {
        &self.policies
    }

    /// A policy as it is now.
    ///
    /// # Errors
    /// Those of the output.
    pub fn show(&mut self, policy: StagedBindingPolicy) -> io::Result<()> {
        let name = policy.name_any();
        let changes = change::between(self.policies.get(&name), &policy);
        let elapsed = self.moment().of(&policy);
        self.policies.insert(name, policy);
        self.write(&changes, elapsed)
    }

    /// A policy is gone.
    ///
    /// # Errors
    /// Those of the output.
    pub fn remove(&mut self, name: &str) -> io::Result<()> {
        let Some(policy) = self.policies.remove(name) else {
            return Ok(());
        };
        let elapsed = self.moment().of(&policy);
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
                let summary = verdicts::Summary::of(&self.policies, ended, moment.elapsed);
                writeln!(
                    self.out,
                    "{}",
                    serde_json::to_string(&summary).map_err(io::Error::other)?
                )
            }
            Mode::Screen(_) => writeln!(self.out, "\n{}", verdicts::table(&self.policies, screen::width())),
            Mode::Lines => writeln!(self.out, "{}", verdicts::table(&self.policies, None)),
        }?;
        self.out.flush()
    }

    fn write(&mut self, changes: &[change::Change], elapsed: Elapsed) -> io::Result<()> {
        let moment = self.moment();
        match &mut self.mode {
            Mode::Screen(screen) => screen.draw(&mut self.out, &frame::lines(&self.policies, moment))?,
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
