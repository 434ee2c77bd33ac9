//! `audit::simulate`: a log replayed through other strategies is the source imported afresh.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::data::{data, folders};
use common::pieces_of;
use ctxlog::audit::{Alternative, Chain, How, Simulated, Story, simulate};
use ctxlog::engine::{CommandSummarizer, Conversation, Redact, Replacement, Store};
use ctxlog::formats::{Link, Step, Transcript, anthropic, claude_code, detect, openai_chat};
use ctxlog::log::{Fields, Message, MessageId, Part, Seq, Usage};
use ctxlog::strategy::{Strategy, parse};
use ctxlog::testkit::{Script, World, generate};
use proptest::prelude::*;

fn chain(specs: &[&str]) -> Vec<Arc<dyn Strategy>> {
    specs.iter().map(|spec| parse(spec).unwrap()).collect()
}

fn alternative(specs: &[&str]) -> Chain {
    Chain {
        strategies: chain(specs),
        summarizer: None,
    }
}

fn asked(chat: &Conversation, chains: &[&[&str]]) -> Simulated {
    let chains: Vec<Chain> = chains.iter().map(|specs| alternative(specs)).collect();
    simulate(chat, &chains, &mut |_, _| {}).unwrap()
}

fn imported(transcript: &Transcript, specs: &[&str]) -> Conversation {
    let store = Store::in_memory();
    store
        .import("a", transcript, chain(specs), &mut |_| {})
        .unwrap();
    store.existing("a").unwrap()
}

/// What a column says, without what messages are called.
fn told(column: &Alternative) -> impl PartialEq + std::fmt::Debug + use<> {
    let changes = column.changes.iter();
    let changes: Vec<_> = changes.map(|c| (c.iteration, c.how, c.reason)).collect();
    let sights = column.out_of_sight.iter();
    let sights: Vec<_> = sights.map(|s| (s.iteration, s.text.clone())).collect();
    let stories: Vec<Story> = column.stories.values().flatten().cloned().collect();
    let sums = [column.visits, column.rereads, column.reread];
    let refused = column.refused.clone();
    (
        stories,
        changes,
        sights,
        column.tokens.clone(),
        sums,
        refused,
        column.lifetime,
    )
}

const CHAINS: [&[&str]; 10] = [
    &["sliding-window:keep=3"],
    &["head-tail:window=5"],
    &["token-budget:limit=3000,notice=auto"],
    &["clear-tool-results:limit=2000,keep=1"],
    &["truncate-outputs:max=400"],
    &["expire:after=3,return=true"],
    &["summarize-oldest:limit=1500,keep=2"],
    &[
        "truncate-outputs:max=900",
        "head-tail:window=9",
        "expire:after=6",
    ],
    &[
        "clear-tool-results:age=2",
        "token-budget:limit=2000,low=0.6",
    ],
    &["buffer:keep=5,notice=auto"],
];

/// The law on one transcript: message by message what importing it afresh gives.
fn is_as_imported_afresh(transcript: &Transcript, place: &str) {
    let recorded = imported(transcript, &[]);
    let retold = recorded.retell().unwrap().transcript;
    let steps = transcript.steps.iter().filter(|s| !s.is_unfinished());
    for (n, (step, again)) in steps.clone().zip(&retold.steps).enumerate() {
        assert_eq!(step, again, "{place}, step {n}");
    }
    assert_eq!(steps.count(), retold.steps.len(), "{place}");
    let simulated = asked(&recorded, &CHAINS);
    for (column, specs) in simulated.alternatives.iter().skip(1).zip(CHAINS) {
        let fresh = &asked(&imported(transcript, specs), &[]).alternatives[0];
        assert!(
            told(column) == told(fresh),
            "{place}, {specs:?}: {} and {} changes",
            column.changes.len(),
            fresh.changes.len()
        );
        // Of a call at which a summary was due and nobody was asked, no entry says anything.
        if column.summaries_due == Some(0) {
            assert_eq!(column.over_budget, fresh.over_budget, "{place}, {specs:?}");
        }
    }
}

fn each_transcript(folder: &str, read: impl Fn(&Path) -> Vec<Transcript>) {
    let Some(files) = data(folder) else { return };
    for file in files {
        for (n, transcript) in read(&file).iter().enumerate() {
            is_as_imported_afresh(transcript, &format!("{}#{n}", file.display()));
        }
    }
}

#[test]
fn a_simulation_of_each_openai_transcript_is_its_import_afresh() {
    each_transcript("openai-chat", |file| openai_chat::read(pieces_of(file)));
}

#[test]
fn a_simulation_of_each_anthropic_transcript_is_its_import_afresh() {
    each_transcript("anthropic-messages", |file| {
        anthropic::read(pieces_of(file))
    });
}

#[test]
fn a_simulation_of_each_session_is_its_import_afresh() {
    each_transcript("claude-code", |file| {
        let text = std::fs::read(file).unwrap();
        claude_code::read(text.as_slice(), "file", 1 << 30).unwrap()
    });
}

#[test]
fn a_simulation_of_each_file_of_another_format_is_its_import_afresh() {
    let Some(folders) = folders() else { return };
    let done = ["openai-chat", "anthropic-messages", "claude-code"];
    let others = folders
        .iter()
        .filter(|f| !done.iter().any(|d| f.ends_with(d)));
    for folder in others {
        each_transcript(folder.to_str().unwrap(), |file| {
            let format = detect(&pieces_of(file)).unwrap();
            let bytes = std::fs::read(file).unwrap();
            format.read(&mut bytes.as_slice(), "file", 1 << 30).unwrap()
        });
    }
}

/// Steps without the order of parts: results of one message that was split, because the calls of some
/// had left, come back in the order they were filed in (docs/SIMULATION.md).
fn unordered(mut steps: Vec<Step>) -> Vec<Step> {
    for step in &mut steps {
        if let Step::Message { message, .. } = step {
            message.parts.sort_by_key(|part| format!("{part:?}"));
        }
    }
    steps
}

/// A chain's strategy that a command line can name.
fn spec() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::strategy::Strategy as _;
    generate::spec().prop_filter("the kit's own", |spec| parse(spec).is_ok())
}

fn run(script: &Script, forked: bool) -> Result<World, TestCaseError> {
    let world = if forked {
        World::run_forked(script, &[])
    } else {
        World::run(script, &[])
    };
    world.map_err(|e| TestCaseError::fail(e.to_string()))
}

/// Redacts one of the messages that were logged, where there is one.
fn redact(chat: &Conversation, index: prop::sample::Index) {
    let said = chat.with_projection(|p| p.messages().iter().map(|m| m.id).collect::<Vec<_>>());
    let said = said.unwrap();
    if !said.is_empty() {
        chat.redact(Redact::Message(*index.get(&said))).unwrap();
    }
}

/// Strategies that look at no size and at no word.
const BY_PLACE: [&[&str]; 4] = [
    &["sliding-window:keep=3"],
    &["head-tail:window=4"],
    &[
        "clear-tool-results:age=1,keep=0,at-least=0",
        "buffer:keep=5",
    ],
    &["expire:after=2"],
];

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever happened to a conversation, in a fork or not, whatever of it is redacted: its replay is
    /// that of its words, is the same each time, does not depend on what else is asked, and writes
    /// nothing to it.
    #[test]
    fn any_script_is_replayed_alike_alone_and_beside_others(
        script in generate::script(), spec in spec(), forked: bool,
        redacted in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let world = run(&script, forked)?;
        for index in redacted {
            redact(&world.chat, index);
        }
        let before = world.sealed().unwrap();
        let spec = spec.as_str();
        let first = asked(&world.chat, &[&[spec]]);
        prop_assert_eq!(&first, &asked(&world.chat, &[&[spec]]));
        let others = asked(&world.chat, &[CHAINS[0], &[spec], CHAINS[1]]);
        prop_assert_eq!(&first.alternatives[0], &others.alternatives[0]);
        prop_assert_eq!(&first.alternatives[1], &others.alternatives[2]);
        prop_assert_eq!(before, world.sealed().unwrap());
        let retold = world.chat.retell().unwrap().transcript;
        let fresh = asked(&imported(&retold, &[spec]), &[]);
        prop_assert_eq!(told(&first.alternatives[1]), told(&fresh.alternatives[0]));
    }

    /// The chain that a conversation was imported through gives what was recorded.
    #[test]
    fn the_recorded_chain_gives_what_was_recorded(
        script in generate::script(), spec in spec(), forked: bool,
    ) {
        let world = run(&script, forked)?;
        let retold = world.chat.retell().unwrap().transcript;
        let chat = imported(&retold, &[&spec]);
        let simulated = asked(&chat, &[&[&spec]]);
        prop_assert_eq!(told(&simulated.alternatives[0]), told(&simulated.alternatives[1]));
        let again = chat.retell().unwrap().transcript;
        prop_assert_eq!(unordered(again.steps), unordered(retold.steps));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 48,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A fork is replayed as what it is: the parent's steps up to where it left, and its own.
    #[test]
    fn a_fork_is_replayed_as_its_parent_up_to_there(
        script in generate::script(), back in 0_u64..40, spec in spec(),
    ) {
        let world = run(&script, false)?;
        let Some(head) = world.chat.head().unwrap() else { return Ok(()) };
        let at = Seq(head.seq.0.saturating_sub(back));
        let Ok(fork) = world.chat.fork(at, "fork") else { return Ok(()) };
        let (whole, own) = (world.chat.retell().unwrap(), fork.retell().unwrap());
        // A message that was split may have been left in its midst.
        let cut = |message: &Vec<Seq>| -> Vec<Seq> {
            message.iter().copied().take_while(|seq| *seq <= at).collect()
        };
        let shared: Vec<Vec<Seq>> = whole.messages.iter().map(cut).filter(|m| !m.is_empty()).collect();
        prop_assert_eq!(&shared, &own.messages);
        // What is told late, or of a message split there, may differ in the last step.
        let steps = own.transcript.steps.len().saturating_sub(1);
        prop_assert_eq!(whole.transcript.steps.get(..steps), own.transcript.steps.get(..steps));
        let alone = imported(&own.transcript, &[&spec]);
        let asked_alone = asked(&alone, &[]);
        prop_assert_eq!(
            told(&asked(&fork, &[&[&spec]]).alternatives[1]),
            told(&asked_alone.alternatives[0])
        );
    }

    /// Redacting destroys words and changes no window: strategies that look at neither size nor words
    /// do what they did.
    #[test]
    fn a_redacted_message_leaves_as_it_would_have(
        script in generate::script(), forked: bool,
        redacted in prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let world = run(&script, forked)?;
        let before = asked(&world.chat, &BY_PLACE);
        for index in redacted {
            redact(&world.chat, index);
        }
        let after = asked(&world.chat, &BY_PLACE);
        for (before, after) in before.alternatives.iter().zip(&after.alternatives) {
            prop_assert_eq!(&before.stories, &after.stories, "{}", before.name);
            prop_assert_eq!(&before.refused, &after.refused, "{}", before.name);
        }
    }
}

/// What is redacted keeps its size, of letters of one byte to the unit.
#[test]
fn a_redacted_message_keeps_its_size() {
    let mut order = order();
    order
        .steps
        .push(message(Message::person("ä → 漢字 in ord-4411?")));
    order.steps.push(CALL);
    let chat = imported(&order, &[]);
    let before = asked(&chat, &[&["token-budget:limit=20,keep=1,measure=estimate"]]);
    chat.redact(Redact::Conversation).unwrap();
    let after = asked(&chat, &[&["token-budget:limit=20,keep=1,measure=estimate"]]);
    assert_eq!(after.left_out.redacted, 7);
    for (before, after) in before.alternatives.iter().zip(&after.alternatives) {
        assert_eq!(before.tokens, after.tokens);
        assert_eq!(before.stories, after.stories);
    }
    assert_eq!(
        after.quotes.found, 0,
        "nobody is thought to quote what is gone"
    );
}

#[test]
fn a_message_is_replayed_with_its_first_words_also_where_others_stand_for_it() {
    let chat = imported(&order(), &[]);
    let plain = asked(&chat, &[&["sliding-window:keep=9"]]);
    let what = Replacement::range(-1, None).in_place();

    chat.replace(&what, Message::model("-")).unwrap();
    let replaced = asked(&chat, &[&["sliding-window:keep=9"]]);
    assert_eq!(replaced.left_out.edits, 1);
    assert_eq!(plain.alternatives[1], replaced.alternatives[1]);
    let changes = &replaced.alternatives[0].changes;
    assert!(changes.iter().any(|c| c.how == How::Form));
}

/// A recall by hand shows the model what had left: a replay in which it did not leave needs no quote.
#[test]
fn what_was_recalled_by_hand_is_no_message_of_a_replay() {
    let chat = imported(&order(), &[]);
    let what = Replacement::range(0, 3);
    chat.replace(&what, Message::person("they asked")).unwrap();
    let (before, quoted) = (chat.retell().unwrap(), MessageId(Seq(2)));
    let said = chat.with_projection(|p| p.messages().len()).unwrap();
    chat.recall(quoted).unwrap();
    assert_eq!(
        chat.with_projection(|p| p.messages().len()).unwrap(),
        said + 1
    );
    let after = chat.retell().unwrap();
    assert_eq!(before.messages, after.messages);
    assert_eq!(after.edits, before.edits + 1);
}

fn usage(input: u64) -> Step {
    let usage = Usage {
        input: Some(input),
        ..Usage::default()
    };
    Step::Returned {
        usage: Some(usage),
        failure: None,
        rest: Fields::new(),
        at: None,
    }
}

/// The source's usage measures the source's window: where that is another one than the simulated, of
/// its own making or the simulation's, a strategy must not take it for a measure.
#[test]
fn usage_of_another_window_is_no_measure() {
    let tool = |n: usize| {
        let (id, words) = (format!("c{n}"), "parcel ".repeat(400));
        [
            message(Message::calls(vec![Part::call(&id, "find", "{}")])),
            message(Message::tool(&id, &words)),
        ]
    };
    let mut steps = vec![message(Message::person("go on"))];
    for n in 0..4 {
        steps.extend(tool(n));
        steps.extend([CALL, usage(9)]);
    }
    let whole = |steps: &[Step]| Transcript {
        steps: steps.to_vec(),
        ..Transcript::default()
    };
    let budget: &[&str] = &["token-budget:limit=700,keep=1,measure=auto"];
    let left =
        |t: &Transcript, specs: &[&str]| asked(&imported(t, specs), &[]).alternatives.remove(0);
    // The usage says that all is small: nothing leaves while it measures what is sent.
    assert_eq!(left(&whole(&steps), budget).departures(), 0);
    // Outputs that the simulation cleared were in the window that was measured.
    let cleared: &[&str] = &["clear-tool-results:age=1,keep=0", budget[0]];
    let with = left(&whole(&steps), cleared);
    let without: Vec<Step> = steps
        .iter()
        .filter(|s| !matches!(s, Step::Returned { .. }))
        .cloned()
        .collect();
    assert!(with.visits > 0);
    assert_eq!(
        with.changes.len(),
        left(&whole(&without), cleared).changes.len()
    );
    // The source compacted: what it reports from then on measures its summary.
    let compacted = Step::Compacted {
        summary: Message::person("a summary"),
        rest: Fields::new(),
        at: None,
    };
    steps.insert(9, compacted);
    assert!(left(&whole(&steps), budget).departures() > 0);
}

/// A conversation with strategies of its own was reported for the windows that they left.
#[test]
fn usage_of_a_conversation_with_strategies_measures_its_own_windows() {
    let store = Store::in_memory();
    let chat = store.conversation("live").unwrap();
    let chat = chat
        .with_strategies(chain(&["sliding-window:keep=1"]))
        .unwrap();
    for n in 0..4 {
        chat.append(Message::person(format!("{n} {}", "words ".repeat(300))))
            .unwrap();
        let call = chat.call().unwrap();
        let usage = Usage {
            input: Some(300),
            ..Usage::default()
        };
        chat.returned(call.id, Some(usage)).unwrap();
        chat.append(Message::model("yes")).unwrap();
    }
    let simulated = asked(&chat, &[&["token-budget:limit=900,keep=1,measure=auto"]]);
    assert_eq!(simulated.left_out.own_usage, 3);
    assert!(simulated.alternatives[1].departures() > 0);
}

fn message(message: Message) -> Step {
    Step::Message {
        message,
        at: None,
        link: Link::None,
    }
}

const CALL: Step = Step::Called {
    model: None,
    at: None,
};

fn order() -> Transcript {
    Transcript {
        steps: vec![
            message(Message::person("where is my order?")),
            CALL,
            message(Message::calls(vec![Part::call("c", "find", "{}")])),
            message(Message::tool("c", "order ord-4411 left Turku")),
            CALL,
            message(Message::model("It left.")),
            message(Message::person("thanks; and its number?")),
            CALL,
            message(Message::model("It is ord-4411.")),
        ],
        ..Transcript::default()
    }
}

#[test]
fn a_quoted_text_is_out_of_sight_where_its_message_had_left() {
    let simulated = asked(
        &imported(&order(), &[]),
        &[&["sliding-window:keep=1"], &["sliding-window:keep=9"]],
    );
    let sights = |n: usize| &simulated.alternatives[n].out_of_sight;
    assert_eq!(
        (sights(0).len(), sights(1).len(), sights(2).len()),
        (0, 1, 0)
    );
    let sight = &sights(1)[0];
    assert_eq!((sight.text.as_str(), sight.iteration.0), ("ord-4411", 3));
    let left = &simulated.alternatives[1].changes;
    assert!(
        left.iter()
            .any(|c| c.message == sight.message && c.how == How::Left)
    );
}

#[test]
fn summaries_nobody_was_asked_for_are_counted() {
    let chat = imported(&order(), &[]);
    let simulated = asked(&chat, &[&["summarize-oldest:limit=1,keep=1"]]);
    let column = &simulated.alternatives[1];
    let due = column.summaries_due.unwrap();
    assert!(due > 0);
    assert_eq!((column.summaries, column.departures()), (0, 0));
    assert!(column.over_budget >= due, "such a call is over the limit");
    let recorded = simulated.alternatives[0].summaries_due;
    assert_eq!(recorded, None, "no entry says when one was due");
}

/// A summariser that an alternative names is asked; one that fails is counted, and changes nothing.
#[cfg(unix)]
#[test]
fn summaries_that_a_command_makes_or_fails_to_make_are_counted() {
    let chat = imported(&order(), &[]);
    let spec = |command: &str| format!("summarize-oldest:limit=1,keep=1,command={command}");
    let with = |command: &str| Chain {
        strategies: chain(&[&spec(command)]),
        summarizer: CommandSummarizer::of_spec(&spec(command)),
    };
    let chains = [with("/bin/echo"), with("/bin/false"), with("/nobody/there")];
    let simulated = simulate(&chat, &chains, &mut |_, _| {}).unwrap();
    let sums = |n: usize| {
        let c: &Alternative = &simulated.alternatives[n];
        (c.summaries_failed > 0, c.summaries_due)
    };
    assert_eq!(sums(2), (true, Some(0)));
    assert_eq!(sums(3), (true, Some(0)));
    let failed = &simulated.alternatives[2];
    assert_eq!((failed.departures(), failed.summaries), (0, 0));
    assert!(failed.over_budget > 0);
}
