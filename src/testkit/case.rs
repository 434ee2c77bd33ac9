//! A case: a script, the strategies it names, and what came of running it.

use std::cell::OnceCell;
use std::sync::Arc;

use super::model::{Moment, moments};
use super::script::{Said, Script};
use super::world::{Failure, World};
use crate::formats::Transcript;
use crate::log::{Entry, Provenance, Visited};
use crate::strategy::Strategy;

/// What came of running a script once: the world as it was left, its log, and what the naive fold
/// makes of every prefix of that log.
#[derive(Debug)]
pub struct Run {
    /// The world after the last operation.
    pub world: World,
    /// The log.
    pub entries: Vec<Entry>,
    /// What stood after each entry, by the naive fold.
    pub moments: Vec<Moment>,
}

/// A script to check laws on. It is run once for all the laws that only look.
#[derive(Debug)]
pub struct Case<'a> {
    /// What is done.
    pub script: &'a Script,
    own: &'a [Arc<dyn Strategy>],
    source: Source<'a>,
    run: OnceCell<Run>,
}

/// What was there before the script.
#[derive(Clone, Copy, Debug)]
enum Source<'a> {
    /// Nothing.
    None,
    /// A transcript that was imported as it was.
    AsItWas(&'a [Said]),
    /// A transcript that was replayed through the script's strategies.
    Replayed(&'a Transcript),
    /// The script's own beginning, in a conversation that is forked on the way.
    Forked,
}

impl<'a> Case<'a> {
    /// A script whose strategies are all ctxlog's own.
    #[must_use]
    pub const fn new(script: &'a Script) -> Self {
        Self {
            script,
            own: &[],
            source: Source::None,
            run: OnceCell::new(),
        }
    }

    /// A script that names strategies of one's own by their specs.
    #[must_use]
    pub fn with_strategies(mut self, own: &'a [Arc<dyn Strategy>]) -> Self {
        self.own = own;
        self
    }

    /// A script that goes on after a transcript that was imported as it was.
    #[must_use]
    pub fn after_import_of(mut self, source: &'a [Said]) -> Self {
        self.source = Source::AsItWas(source);
        self
    }

    /// A script that goes on after a transcript that was replayed, call by call, through the
    /// script's strategies.
    #[must_use]
    pub fn after_replay_of(mut self, transcript: &'a Transcript) -> Self {
        self.source = Source::Replayed(transcript);
        self
    }

    /// A script during which the conversation is forked at earlier places and goes on as the fork.
    #[must_use]
    pub const fn forked(mut self) -> Self {
        self.source = Source::Forked;
        self
    }

    /// What came of running it.
    ///
    /// # Errors
    /// When an operation failed, which is another thing than being refused.
    pub fn run(&self) -> Result<&Run, Failure> {
        if let Some(run) = self.run.get() {
            return Ok(run);
        }
        let run = Run::of(self.fresh()?)?;
        Ok(self.run.get_or_init(|| run))
    }

    /// The script run anew, for checks that go on with it.
    pub(super) fn fresh(&self) -> Result<World, Failure> {
        let world = match self.source {
            Source::None => World::run(self.script, self.own),
            Source::Forked => World::run_forked(self.script, self.own),
            Source::AsItWas(said) => World::run_imported(said, self.script, self.own),
            Source::Replayed(transcript) => World::run_replayed(transcript, self.script, self.own),
        }?;
        world.summaries.meanwhile(None);
        Ok(world)
    }

    /// What was there before the script, with nothing done.
    pub(super) fn begin(&self) -> Result<World, Failure> {
        match self.source {
            Source::None | Source::Forked => World::new(self.script, self.own),
            Source::AsItWas(said) => World::imported(said, self.script, self.own),
            Source::Replayed(transcript) => World::replayed(transcript, self.script, self.own),
        }
    }

    /// Another script, run with the same strategies.
    pub(super) fn run_of(&self, script: &Script) -> Result<World, Failure> {
        World::run(script, self.own)
    }

    pub(super) const fn own(&self) -> &'a [Arc<dyn Strategy>] {
        self.own
    }

    /// The strategies that the script names.
    pub(super) fn chain(&self) -> Result<Vec<Arc<dyn Strategy>>, Failure> {
        super::world::chain(self.script, self.own)
    }
}

/// One entry with what stood before and after it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step<'a> {
    pub before: &'a Moment,
    pub entry: &'a Entry,
    pub after: &'a Moment,
}

impl Run {
    /// What came of what was done in a world.
    pub(super) fn of(world: World) -> Result<Self, Failure> {
        let entries = world.entries()?;
        Ok(Self {
            moments: moments(&entries),
            entries,
            world,
        })
    }

    /// Every entry but the first, with what stood before and after it.
    pub(super) fn steps(&self) -> impl Iterator<Item = Step<'_>> {
        let later = self.entries.iter().zip(&self.moments).skip(1);
        self.moments
            .iter()
            .zip(later)
            .map(|(before, (entry, after))| Step {
                before,
                entry,
                after,
            })
    }

    /// Every visit.
    pub(super) fn visits(&self) -> impl Iterator<Item = (Step<'_>, &Visited)> {
        self.steps()
            .filter_map(|step| Some((step, step.entry.body.visit()?)))
    }

    /// Whether an entry tells what an importer read from the source.
    pub(super) fn inferred(&self, seq: u64) -> bool {
        let entry = self.entries.iter().find(|e| e.seq.0 == seq);
        entry.is_some_and(|e| e.provenance == Provenance::Inferred)
    }

    /// The last moment.
    pub(super) fn end(&self) -> Result<&Moment, Failure> {
        self.moments.last().ok_or_else(|| "an empty log".into())
    }
}
