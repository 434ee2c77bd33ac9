//! Bytes on the disk per byte of content.

use ctxlog::store::Level;

use crate::compare::{alone, beside};
use crate::content::{Kind, Said};
use crate::disk::allocated;
use crate::ours;
use crate::setup::Setup;
use crate::sinks::{BATCH, Bare, Sink, folder, values};
use crate::stats::float;
use crate::table::{Goal, Row, Table, Unit, number};

/// How many messages are made at a time; it is whole rounds of the traffic.
const CHUNK: u64 = 100;

/// What some content takes on the disk.
struct Held {
    content: u64,
    ours: u64,
    bare: u64,
}

impl Held {
    fn times(&self, bytes: u64) -> f64 {
        float(bytes) / float(self.content)
    }
}

pub fn run(setup: &Setup, table: &mut Table) {
    let messages = setup.sizes.disk;
    let text = hold(setup, Kind::Text, messages);
    let tenth = hold(setup, Kind::Text, messages / 10);
    let random = hold(setup, Kind::Random, messages / 2);

    let measure = format!("bytes on disk, text, {} messages", number(messages));
    let row = |goal| alone(&measure, Unit::Times, goal, &[text.times(text.ours)]);
    table.rows.push(row(Goal::AtMost(1.0)));
    table.rows.push(by_sled(&measure, &text, Goal::None));
    python(setup, table, &measure, text.times(text.ours));

    let measure = format!("bytes on disk, random, {} messages", number(messages / 2));
    table
        .rows
        .push(by_sled(&measure, &random, Goal::RatioAtMost(1.2)));

    let singles = [singles(setup)];
    let measure = format!(
        "bytes on disk, text, after {} synced single appends",
        number(setup.sizes.synced)
    );
    let goal = Goal::AtMost(1.2);
    table
        .rows
        .push(alone(&measure, Unit::Times, goal, &singles));

    let measure = format!(
        "bytes on disk of {} messages in those of {}",
        number(messages),
        number(messages / 10)
    );
    let growth = [float(text.ours) / float(tenth.ours)];
    let goal = Goal::AtMost(10.5);
    table.rows.push(alone(&measure, Unit::Times, goal, &growth));
}

fn by_sled(measure: &str, held: &Held, goal: Goal) -> Row {
    let ours = [held.times(held.ours)];
    let theirs = vec![held.times(held.bare)];
    let row = alone(measure, Unit::Times, goal, &ours);
    beside(row, &ours, "bare sled", Ok(theirs))
}

fn python(setup: &Setup, table: &mut Table, measure: &str, ours: f64) {
    for work in ["session", "saver"] {
        let theirs = setup.python.figure(work, "bytes", 0).map(|f| vec![f]);
        let row = alone(measure, Unit::Times, Goal::None, &[ours]);
        let name = setup.python.name(work);
        table.rows.push(beside(row, &[ours], &name, theirs));
    }
}

/// A conversation with calls and visits, appended without waiting, and bare sled with its messages
/// in batches; both synced and closed.
fn hold(setup: &Setup, kind: Kind, count: u64) -> Held {
    let dir = setup.dir();
    let (ours, theirs) = (dir.path().join("ours"), folder(dir.path(), "bare"));
    let mut content = 0;
    {
        let store = ours::open(&ours, Level::Buffered);
        let chat = ours::with_strategy(&store, "held");
        let mut bare = Bare::open(&theirs);
        for from in (0..count).step_by(usize::try_from(CHUNK).expect("a step")) {
            let said = setup.source.stretch(kind, 0, from, CHUNK);
            content += said.iter().map(Said::bytes).sum::<u64>();
            let batches = said.chunks(BATCH).zip((from..).step_by(BATCH));
            batches.for_each(|(said, from)| bare.apply(&values(0, from, said)));
            ours::converse(&chat, said);
            setup.step("messages held", from, count);
        }
        ours::sync(&store);
        bare.sync();
    }
    Held {
        content,
        ours: allocated(&ours),
        bare: allocated(&theirs),
    }
}

/// What a byte takes straight after synced appends, one at a time.
fn singles(setup: &Setup) -> f64 {
    let dir = setup.dir();
    let ours = dir.path().join("ours");
    let said = setup.source.stretch(Kind::Text, 0, 0, setup.sizes.synced);
    let content: u64 = said.iter().map(Said::bytes).sum();
    {
        let store = ours::open(&ours, Level::Synced);
        let chat = store.conversation("singles").expect("a conversation");
        for one in said {
            chat.append(one.message).expect("an append");
        }
    }
    float(allocated(&ours)) / float(content)
}
