//! Long runs that come to a figure: laws over so many transitions, alterations of every bit, replay
//! of so many calls.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::case::Case;
use super::check::runner;
use super::figures::Figure;
use super::generate::{script, source};
use super::laws::{self, CHECKS};
use super::model::check_case;
use super::reached::Reached;
use super::script::{Op, Script, Speaker, Words};
use super::tamper::{Alteration, noticed};
use super::world::{Failure, World};
use crate::engine::{Conversation, Store};
use crate::window::{Pace, Projection};

/// How a long run is shared among threads, and who hears how far it is.
#[derive(Clone, Copy)]
pub struct Work<'a> {
    /// What everything is drawn from.
    pub seed: u64,
    /// How many threads work.
    pub threads: u64,
    /// Hears how much is done, and of how much.
    pub progress: &'a (dyn Fn(u64, u64) + Sync),
}

impl std::fmt::Debug for Work<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "Work {{ seed: {}, threads: {} }}",
            self.seed, self.threads
        )
    }
}

impl Work<'_> {
    /// Runs `one` for each thread's number, and gives back what each came to.
    pub(super) fn shared<T: Send>(
        self,
        one: impl Fn(u64) -> Result<T, Failure> + Sync,
    ) -> Result<Vec<T>, Failure> {
        let outcomes: Vec<_> = thread::scope(|scope| {
            let one = &one;
            let started: Vec<_> = (0..self.threads.max(1))
                .map(|n| scope.spawn(move || one(n)))
                .collect();
            started
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect()
        });
        let joined = outcomes.into_iter().map(|outcome| match outcome {
            Ok(Ok(done)) => Ok(done),
            Ok(Err(broken)) => Err(broken),
            Err(panic) => {
                Err(format!("panicked: {}", super::check::words_of(panic.as_ref())).into())
            }
        });
        joined.collect()
    }

    fn seed_of(self, thread: u64) -> u64 {
        self.seed.wrapping_mul(1_000_003).wrapping_add(thread)
    }
}

/// What the laws were tried on.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Tried {
    /// Scripts.
    pub scripts: u64,
    /// Entries.
    pub transitions: u64,
    /// Reasons and outcomes reached.
    pub reached: Reached,
}

/// One value of a generator.
fn draw<T>(
    from: &impl proptest::strategy::Strategy<Value = T>,
    runner: &mut TestRunner,
) -> Result<T, Failure> {
    let tree = from.new_tree(runner).map_err(|reason| reason.to_string())?;
    Ok(tree.current())
}

/// What is looked for on a case; `true`: it goes on after a transcript that was imported, or in forks,
/// so that not all of it are requests that can be predicted.
type Look<'a> = &'a (dyn Fn(&Case<'_>, bool) -> Result<(), Failure> + Sync);

/// Runs generated scripts until so many entries were filed, and looks at each. Every sixth is forked on
/// the way, every third goes on
/// after a transcript whose source did things of its own.
///
/// # Errors
/// What was found, with the script that shows it.
pub fn try_scripts(work: Work<'_>, transitions: u64, look: Look<'_>) -> Result<Tried, Failure> {
    let done = AtomicU64::new(0);
    let each = work.shared(|thread| {
        let mut runner = runner(work.seed_of(thread), 1, 0);
        let (scripts, sources) = (script(), source());
        let mut tried = Tried::default();
        while done.load(Ordering::Relaxed) < transitions {
            let (drawn, said) = (draw(&scripts, &mut runner)?, draw(&sources, &mut runner)?);
            let imported = tried.scripts.is_multiple_of(3);
            let mut case = Case::new(&drawn);
            let forked = tried.scripts % 6 == 1;
            if imported {
                case = case.after_import_of(&said);
            } else if forked {
                case = case.forked();
            }
            let source = if imported {
                format!("\nafter {said:?}")
            } else if forked {
                "\nforked on the way".to_owned()
            } else {
                String::new()
            };
            look(&case, imported || forked).map_err(|e| format!("{e}\n\n{drawn}{source}"))?;
            let run = case.run()?;
            tried.reached.count(run);
            let entries = u64::try_from(run.entries.len())?;
            tried.scripts = tried.scripts.saturating_add(1);
            tried.transitions = tried.transitions.saturating_add(entries);
            let so_far = done.fetch_add(entries, Ordering::Relaxed);
            (work.progress)(so_far.min(transitions), transitions);
        }
        Ok(tried)
    })?;
    Ok(each.into_iter().fold(Tried::default(), |mut all, one| {
        all.scripts = all.scripts.saturating_add(one.scripts);
        all.transitions = all.transitions.saturating_add(one.transitions);
        all.reached.add(&one.reached);
        all
    }))
}

/// Checks every law that binds a case, and compares the engine with the model.
///
/// # Errors
/// The law that is broken and how, or where engine and model differ.
pub fn every_law(case: &Case<'_>, imported: bool) -> Result<(), Failure> {
    for check in CHECKS
        .iter()
        .filter(|check| !imported || check.law.binds_sources())
    {
        check.run(case)?;
    }
    check_case(case, imported)
}

/// Figure 5: laws over so many transitions; every reason that exists reached at least 20 times.
///
/// # Errors
/// As [`try_scripts`].
pub fn laws_figure(work: Work<'_>, transitions: u64) -> Result<(Figure, Reached), Failure> {
    let tried = try_scripts(work, transitions, &every_law)?;
    let mut reached = tried.reached;
    super::requests::reach(&mut reached, 20)?;
    let rare = reached.fewer_than(20);
    let rarely = if rare.is_empty() {
        format!("{} reasons reached 20 times or more", reached.all().len())
    } else {
        format!("reached fewer than 20 times: {rare:?}")
    };
    let value = format!(
        "0 in {} transitions of {} scripts; {rarely}",
        tried.transitions, tried.scripts
    );
    let goal = format!("0 in {transitions} transitions; every reason 20 times");
    let figure = Figure::new("5", "laws broken", goal, value, rare.is_empty());
    Ok((figure, reached))
}

/// A conversation whose log holds about so many bytes, payloads included: words with a length that
/// keeps entries and payloads in balance, tool calls, calls and visits.
fn log_of(bytes: usize) -> Result<World, Failure> {
    let round = [
        Op::Say(
            Speaker::Person,
            Words {
                text: "which order? ".into(),
                times: 150,
            },
        ),
        Op::Calls {
            count: 2,
            words: None,
        },
        Op::Results {
            back: vec![0, 1],
            interim: false,
            words: None,
            out: Words {
                text: "shipped ".into(),
                times: 300,
            },
        },
        Op::Call {
            usage: None,
            failed: false,
        },
    ];
    let mut world = World::new(&Script::of(&["sliding-window:keep=3"], Vec::new()), &[])?;
    while stored_bytes(&world)? < bytes {
        world.perform_all(&round)?;
    }
    Ok(world)
}

/// The bits of every entry's stored bytes, and of every entry's first payload with its salt.
fn bits(world: &World) -> Result<Vec<(u64, usize, usize)>, Failure> {
    let id = world.chat.id();
    let each = world.sealed()?.into_iter().map(|sealed| {
        let seq = sealed.entry.seq;
        let payload = world.backend.payload(id, seq, 0)?;
        let bytes = payload.map_or(0, |p| p.bytes.len().saturating_add(p.salt.len()));
        Ok((
            seq.0,
            sealed.bytes.len().saturating_mul(8),
            bytes.saturating_mul(8),
        ))
    });
    each.collect()
}

fn stored_bytes(world: &World) -> Result<usize, Failure> {
    let sizes = bits(world)?
        .into_iter()
        .map(|(_, entry, payload)| entry.saturating_add(payload));
    Ok(sizes.fold(0, usize::saturating_add) / 8)
}

/// How much tampering is tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tampering {
    /// The size of the log whose bits are flipped, in bytes.
    pub bytes: usize,
    /// Every how manieth bit is flipped; 1 is every one.
    pub stride: usize,
    /// Clean logs that must raise no alarm; each is also altered once in every other way.
    pub clean: u64,
}

/// Figure 3: alterations noticed and located, and clean logs that raise no alarm.
///
/// # Errors
/// The alteration that went unnoticed or was located wrongly, or the false alarm.
pub fn tampering_figure(work: Work<'_>, how: Tampering) -> Result<Figure, Failure> {
    let done = AtomicU64::new(0);
    let (stride, threads) = (how.stride.max(1), usize::try_from(work.threads.max(1))?);
    let total =
        u64::try_from(how.bytes.saturating_mul(8).div_ceil(stride))?.saturating_add(how.clean);
    let tell = || {
        let so_far = done.fetch_add(1, Ordering::Relaxed);
        if so_far.is_multiple_of(64) {
            (work.progress)(so_far.min(total), total);
        }
    };
    let each = work.shared(|thread| {
        let world = log_of(how.bytes)?;
        let mut flips = 0_u64;
        let own = usize::try_from(thread).unwrap_or(0).saturating_mul(stride);
        let step = stride.saturating_mul(threads);
        for (at, entry, payload) in bits(&world)? {
            let entry = (own..entry)
                .step_by(step)
                .map(|bit| Alteration::Flip { at, bit });
            let payload = (own..payload)
                .step_by(step)
                .map(|bit| Alteration::FlipPayload { at, bit });
            for alteration in entry.chain(payload) {
                noticed(&world, Some(alteration))?;
                flips = flips.saturating_add(1);
                tell();
            }
        }
        let clean = how.clean.div_ceil(work.threads.max(1));
        let (clean, others) = clean_logs(work.seed_of(thread), clean, &tell)?;
        Ok((flips, clean, others))
    })?;
    let sum =
        |pick: fn(&(u64, u64, u64)) -> u64| each.iter().map(pick).fold(0, u64::saturating_add);
    let (flips, clean, others) = (sum(|e| e.0), sum(|e| e.1), sum(|e| e.2));
    let value = format!(
        "100 % of {flips} flips in {} KiB and of {others} other alterations; 0 false alarms on {clean} clean logs",
        how.bytes / 1024
    );
    let goal = "100 %, first bad entry exact, 0 false alarms";
    Ok(Figure::new(
        "3",
        "tampering detected and located",
        goal,
        value,
        flips > 0,
    ))
}

/// Clean logs, each verified as it is and altered in every way but the flips of single bits.
fn clean_logs(seed: u64, clean: u64, tell: &dyn Fn()) -> Result<(u64, u64), Failure> {
    let mut runner = runner(seed, 1, 0);
    let scripts = script();
    let mut altered = 0_u64;
    for _ in 0..clean {
        let drawn = draw(&scripts, &mut runner)?;
        let case = Case::new(&drawn);
        laws::tamper(&case).map_err(|e| format!("{e}\n\n{drawn}"))?;
        altered = altered.saturating_add(u64::try_from(Alteration::KINDS)?);
        tell();
    }
    Ok((clean, altered))
}

/// Figure 4: windows of so many calls, live, folded from the start, looked up after reopening, and read
/// without folding, with snapshots and without.
///
/// # Errors
/// The call whose window was another one.
pub fn replay_figure(work: Work<'_>, calls: u64) -> Result<Figure, Failure> {
    let done = AtomicU64::new(0);
    let each = work.shared(|thread| {
        let mut runner = runner(work.seed_of(thread), 1, 0);
        let scripts = script();
        let (mut conversations, mut compared) = (0_u64, 0_u64);
        while done.load(Ordering::Relaxed) < calls {
            let drawn = draw(&scripts, &mut runner)?;
            let same = replayed(&drawn).map_err(|e| format!("{e}\n\n{drawn}"))?;
            conversations = conversations.saturating_add(1);
            compared = compared.saturating_add(same);
            let so_far = done.fetch_add(same, Ordering::Relaxed);
            (work.progress)(so_far.min(calls), calls);
        }
        Ok((conversations, compared))
    })?;
    let conversations = each.iter().map(|e| e.0).fold(0, u64::saturating_add);
    let compared = each.iter().map(|e| e.1).fold(0, u64::saturating_add);
    let value = format!(
        "100 % of {compared} calls in {conversations} conversations, with and without snapshots"
    );
    let goal = format!("100 % of {calls} calls");
    Ok(Figure::new(
        "4",
        "replay equals what was sent",
        goal,
        value,
        compared >= calls,
    ))
}

/// Does a script several times over in one conversation, and compares every call's window.
fn replayed(script: &Script) -> Result<u64, Failure> {
    let mut world = World::new(script, &[])?;
    for _ in 0..6 {
        world.perform_all(&script.ops)?;
    }
    let mut cold = Projection::default();
    let mut sent = world.sent.iter().peekable();
    for entry in world.entries()? {
        cold.apply(&entry);
        if let Some((_, digest)) = sent.next_if(|(seq, _)| *seq == entry.seq)
            && cold.digest() != *digest
        {
            return Err(format!(
                "the call {} was sent another window than its log gives",
                entry.seq
            )
            .into());
        }
    }
    if let Some((seq, _)) = sent.next() {
        return Err(format!("the call {seq} is not in the log").into());
    }
    let opened = || {
        let store = Store::on(Arc::clone(&world.backend)).with_pace(Pace::every(13));
        store.existing(world.chat.name())
    };
    let same = |chat: &Conversation, how: &str| -> Result<(), Failure> {
        for (seq, digest) in &world.sent {
            if chat.window_after(*seq)?.digest != *digest {
                let what = format!("the window of the call {seq} is another one {how}");
                return Err(what.into());
            }
        }
        Ok(())
    };
    same(&opened()?, "without being folded")?;
    opened()?.take_snapshots()?;
    same(&opened()?, "with snapshots")?;
    let folded = opened()?;
    folded.with_projection(|_| ())?;
    same(&folded, "after reopening")?;
    Ok(u64::try_from(world.sent.len())?)
}
