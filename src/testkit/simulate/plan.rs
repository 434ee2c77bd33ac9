//! What happens in a simulation, as plain data: made from a seed, printed and read as text.

use std::fmt::{self, Display};
use std::str::FromStr;

use proptest::strategy::{Strategy, ValueTree};

use crate::store::Level;
use crate::testkit::check::runner;
use crate::testkit::fault::{Fault, Verb};
use crate::testkit::generate::script;
use crate::testkit::summaries::Answers;
use crate::testkit::{Draw, Op, Script, ScriptError, Speaker, Words};

/// What one client does by itself: nothing happens while a summariser is asked, and the prompts it
/// gets are whole.
fn alone(op: Op) -> Option<Op> {
    match op {
        Op::Meanwhile(_) => None,
        Op::Summaries(Answers::Pieces) => Some(Op::Summaries(Answers::Well)),
        op => Some(op),
    }
}

/// One step of a simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// A client does something, perhaps under an idempotency key.
    Do {
        /// Which client.
        client: usize,
        /// The key, of messages and calls.
        key: Option<u64>,
        /// What it does.
        op: Op,
    },
    /// A client makes its newest keyed request again whose outcome it does not know.
    Retry(usize),
    /// A client wants another level of acknowledgement from here on.
    Level(usize, Level),
    /// A client imports so many steps of a transcript.
    Import(usize, usize),
    /// A client takes in so many entries of an export.
    Take(usize, usize),
    /// A fault is planned for a call of a verb, counted from now.
    Fault {
        /// The verb.
        verb: Verb,
        /// What happens.
        fault: Fault,
        /// At which of its calls, from 1.
        call: u64,
        /// As in [`Planned`](crate::testkit::fault::Planned).
        detail: u64,
    },
    /// The process is killed; so many buffered writes stay.
    Kill(usize),
    /// The power is cut; so many waiting writes stay.
    Cut(usize),
    /// The store is closed and opened.
    Reopen,
}

/// A whole simulation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// Gives ids, salts and background writes.
    pub seed: u64,
    /// How many clients there are; they share the conversations evenly.
    pub clients: usize,
    /// Of a hundred writes, so many are followed by a background write.
    pub background: u64,
    /// The medium is taken for one that never lies: what it loses or damages is a violation.
    pub trusted: bool,
    /// The conversations: strategies and ways; their operations are in `steps`.
    pub conversations: Vec<Script>,
    /// What happens, in order.
    pub steps: Vec<Step>,
}

const LEVELS: [(Level, &str); 3] = [
    (Level::Buffered, "buffered"),
    (Level::Flushed, "flushed"),
    (Level::Synced, "synced"),
];

impl Plan {
    /// The simulation of a seed.
    #[must_use]
    pub fn of(seed: u64) -> Self {
        let mut random = Draw::new(seed);
        let mut source = runner(seed, 1, 0);
        let scripts = (0..2).filter_map(|_| {
            let tree = script().new_tree(&mut source).ok()?;
            Some(tree.current())
        });
        let mut conversations: Vec<Script> = scripts.collect();
        let clients = 3;
        let mut steps = Vec::new();
        let mut ops: Vec<Vec<Op>> = conversations
            .iter_mut()
            .map(|script| std::mem::take(&mut script.ops))
            .map(|ops| ops.into_iter().filter_map(alone).collect())
            .collect();
        ops.iter_mut().for_each(|ops| ops.reverse());
        let lie = random.percent(50).then(|| random.below(12));
        for client in 0..clients {
            steps.extend(
                random
                    .one_of(&LEVELS)
                    .map(|(level, _)| Step::Level(client, *level)),
            );
        }
        let (mut cut, mut shaken) = (None, 0_u64);
        loop {
            let turn = u64::try_from(steps.len()).unwrap_or(u64::MAX);
            if lie.is_some_and(|at| turn >= at) && cut.is_none() {
                steps.extend(scene(&mut random, clients));
                cut = Some(turn.saturating_add(random.below(12)).saturating_add(6));
            }
            if cut.is_some_and(|at| turn >= at) {
                steps.push(Step::Cut(kept(&mut random)));
                cut = Some(u64::MAX);
            }
            let event = event(&mut random, clients);
            // Around a write that fails, clients use keys and ask again.
            shaken = match &event {
                Some(Step::Fault { verb, .. }) if verb.changes() => 4,
                _ => shaken.saturating_sub(1),
            };
            steps.extend(event);
            let client = random.index(clients).unwrap_or_default();
            let own = client.checked_rem(ops.len()).unwrap_or_default();
            let Some(op) = ops.get_mut(own).and_then(Vec::pop) else {
                break;
            };
            let key = random.percent(if shaken > 0 { 80 } else { 20 });
            let key = key.then_some(turn);
            steps.push(Step::Do { client, key, op });
            let again = shaken > 0 && random.percent(60);
            steps.extend(again.then_some(Step::Retry(client)));
        }
        Self {
            seed,
            clients,
            background: random.below(40),
            trusted: false,
            conversations,
            steps,
        }
    }
}

/// Of the writes that wait at a power cut: how many stay.
fn kept(random: &mut Draw) -> usize {
    usize::try_from(random.below(14)).unwrap_or_default()
}

/// What makes a lie likely to be told, and to matter. Only what nobody synced can be late.
fn scene(random: &mut Draw, clients: usize) -> Vec<Step> {
    let lie = fault(random, true);
    let is = |wanted| matches!(lie, Some(Step::Fault { fault, .. }) if fault == wanted);
    let (late, of_blob) = (is(Fault::LateWrite), is(Fault::RottenBlob));
    let levels = (0..clients).map(|client| Step::Level(client, Level::Buffered));
    let mut steps: Vec<Step> = levels.filter(|_| late).collect();
    let blob = blob(random.index(clients).unwrap_or_default());
    steps.extend((of_blob || random.percent(40)).then_some(blob));
    steps.extend(lie);
    steps
}

/// Words that are long enough to be a blob.
fn blob(client: usize) -> Step {
    let words = Words {
        text: "blob of many words ".to_owned(),
        times: 3_600,
    };
    Step::Do {
        client,
        key: None,
        op: Op::Say(Speaker::Person, words),
    }
}

/// What happens beside the operations, now and then.
fn event(random: &mut Draw, clients: usize) -> Option<Step> {
    let client = random.index(clients).unwrap_or_default();
    let some = |random: &mut Draw, end| usize::try_from(random.below(end)).unwrap_or_default();
    Some(match random.below(100) {
        0..=12 => fault(random, false)?,
        13..=16 => Step::Kill(some(random, 6)),
        17..=21 => Step::Cut(kept(random)),
        22..=24 => Step::Reopen,
        25..=30 => Step::Level(client, random.one_of(&LEVELS)?.0),
        31..=34 => Step::Import(client, some(random, 12)),
        35..=36 => Step::Take(client, some(random, 8).saturating_add(1)),
        37..=41 => Step::Retry(client),
        42..=43 => blob(client),
        _ => return None,
    })
}

fn fault(random: &mut Draw, lies: bool) -> Option<Step> {
    let faults: Vec<Fault> = Fault::ALL
        .iter()
        .copied()
        .filter(|f| f.lies() == lies)
        .collect();
    // These need more to come together.
    let rare = [
        Fault::LateWrite,
        Fault::LateWrite,
        Fault::LostSync,
        Fault::LostWrite,
        Fault::RottenBlob,
    ];
    let rare = rare.into_iter().filter(|_| lies);
    let faults: Vec<Fault> = faults.into_iter().chain(rare).collect();
    let fault = *random.one_of(&faults)?;
    // Mostly where most happens.
    let often = [
        Verb::Append,
        Verb::Append,
        Verb::PutBlob,
        Verb::Entries,
        Verb::Payload,
    ];
    let verbs = Verb::ALL.iter().chain(&often).copied();
    let verbs: Vec<Verb> = verbs.filter(|v| used(*v) && fault.meets(*v)).collect();
    Some(Step::Fault {
        verb: *random.one_of(&verbs)?,
        fault,
        call: random.below(if lies { 2 } else { 4 }).saturating_add(1),
        detail: match fault {
            Fault::NoSpace => random.below(3_000),
            _ => random.number() >> 20,
        },
    })
}

/// Whether requests of a simulation use a verb.
const fn used(verb: Verb) -> bool {
    !matches!(
        verb,
        Verb::PutDerived | Verb::Derived | Verb::DerivedBefore | Verb::Check
    )
}

impl Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Do { client, key, op } => {
                write!(f, "client {client} ")?;
                key.map_or(Ok(()), |key| write!(f, "key {key} "))?;
                write!(f, "do {op}")
            }
            Self::Retry(client) => write!(f, "client {client} retry"),
            Self::Level(client, level) => {
                let name = LEVELS.iter().find(|(l, _)| l == level).map_or("?", |l| l.1);
                write!(f, "client {client} level {name}")
            }
            Self::Import(client, n) => write!(f, "client {client} import {n}"),
            Self::Take(client, n) => write!(f, "client {client} take {n}"),
            Self::Fault {
                verb,
                fault,
                call,
                detail,
            } => write!(f, "fault {} {} {call} {detail}", verb.name(), fault.name()),
            Self::Kill(keep) => write!(f, "kill {keep}"),
            Self::Cut(keep) => write!(f, "cut {keep}"),
            Self::Reopen => f.write_str("reopen"),
        }
    }
}

impl Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {}", self.seed)?;
        writeln!(f, "clients {}", self.clients)?;
        writeln!(f, "background {}", self.background)?;
        if self.trusted {
            writeln!(f, "trusted")?;
        }
        for script in &self.conversations {
            write!(f, "conversation\n{script}")?;
        }
        writeln!(f, "steps")?;
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))
    }
}

fn number<T: FromStr>(word: Option<&str>) -> Result<T, String> {
    let word = word.unwrap_or_default();
    word.parse()
        .map_err(|_| format!("'{word}' is no number that fits here"))
}

fn client_step(rest: &str) -> Result<Step, String> {
    let (client, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let client = number(Some(client))?;
    let (what, rest) = rest.split_once(' ').unwrap_or((rest, ""));
    let op = |text: &str| text.parse::<Op>().map_err(|e| e.problem);
    Ok(match what {
        "do" => Step::Do {
            client,
            key: None,
            op: op(rest)?,
        },
        "key" => {
            let (key, rest) = rest.split_once(" do ").unwrap_or((rest, ""));
            Step::Do {
                client,
                key: Some(number(Some(key))?),
                op: op(rest)?,
            }
        }
        "retry" => Step::Retry(client),
        "level" => {
            let level = LEVELS.iter().find(|(_, name)| *name == rest);
            Step::Level(client, level.ok_or(format!("'{rest}' is no level"))?.0)
        }
        "import" => Step::Import(client, number(Some(rest))?),
        "take" => Step::Take(client, number(Some(rest))?),
        _ => return Err(format!("no client does '{what}'")),
    })
}

fn step(line: &str) -> Result<Step, String> {
    if let Some(rest) = line.strip_prefix("client ") {
        return client_step(rest);
    }
    let mut words = line.split_whitespace();
    Ok(match words.next() {
        Some("fault") => {
            let verb = words.next().and_then(Verb::named);
            let fault = words.next().and_then(Fault::named);
            let (Some(verb), Some(fault)) = (verb, fault) else {
                return Err("no such verb or fault".to_owned());
            };
            Step::Fault {
                verb,
                fault,
                call: number(words.next())?,
                detail: number(words.next())?,
            }
        }
        Some("kill") => Step::Kill(number(words.next())?),
        Some("cut") => Step::Cut(number(words.next())?),
        Some("reopen") => Step::Reopen,
        _ => return Err("it is no step".to_owned()),
    })
}

/// A plan that is being read.
struct Reading {
    plan: Plan,
    stepping: bool,
}

impl Reading {
    fn take(&mut self, line: &str) -> Result<(), String> {
        if self.stepping {
            self.plan.steps.push(step(line)?);
            return Ok(());
        }
        let mut words = line.split_whitespace();
        match words.next() {
            Some("seed") => self.plan.seed = number(words.next())?,
            Some("clients") => self.plan.clients = number(words.next())?,
            Some("background") => self.plan.background = number(words.next())?,
            Some("trusted") => self.plan.trusted = true,
            Some("steps") => self.stepping = true,
            Some("conversation") => self.plan.conversations.push(Script::of(&[], Vec::new())),
            _ => {
                let last = self.plan.conversations.last_mut();
                let script = last.ok_or("it belongs to no conversation")?;
                let mut text = script.to_string();
                // A plain script has times of its own.
                if line.starts_with("times") {
                    text = text
                        .lines()
                        .filter(|l| !l.starts_with("times"))
                        .fold(String::new(), |sum, l| sum + l + "\n");
                }
                text.push_str(line);
                *script = text.parse().map_err(|e: ScriptError| e.problem)?;
            }
        }
        Ok(())
    }
}

impl FromStr for Plan {
    type Err = ScriptError;

    /// Reads what [`Display`] writes. Empty lines, and lines that begin with `#`, say nothing.
    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut reading = Reading {
            plan: Self {
                seed: 0,
                clients: 1,
                background: 0,
                trusted: false,
                conversations: Vec::new(),
                steps: Vec::new(),
            },
            stepping: false,
        };
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            reading.take(text).map_err(|problem| ScriptError {
                line,
                text: text.to_owned(),
                problem,
            })?;
        }
        Ok(reading.plan)
    }
}
