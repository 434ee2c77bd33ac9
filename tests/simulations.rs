//! `audit::simulate`: a log replayed through other strategies is the source imported afresh.

mod common;

use std::path::Path;
use std::sync::Arc;

use common::data::data;
use common::pieces_of;
use ctxlog::audit::{Alternative, Chain, How, Simulated, Story, simulate};
use ctxlog::engine::{Conversation, Store};
use ctxlog::formats::{Step, Transcript, anthropic, claude_code, openai_chat};
use ctxlog::log::{Message, Part};
use ctxlog::strategy::{Strategy, parse};
use ctxlog::testkit::{World, generate};
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
    let sums = [
        column.over_budget,
        column.visits,
        column.rereads,
        column.reread,
    ];
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

const CHAINS: [&[&str]; 3] = [
    &["sliding-window:keep=3"],
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
        let fresh = asked(&imported(transcript, specs), &[]);
        assert_eq!(
            told(column),
            told(&fresh.alternatives[0]),
            "{place}, {specs:?}"
        );
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

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Whatever happened to a conversation: its replay is that of its words, is the same each time,
    /// does not depend on what else is asked, and writes nothing to it.
    #[test]
    fn any_script_is_replayed_alike_alone_and_beside_others(
        script in generate::script(), spec in spec(),
    ) {
        let world = World::run(&script, &[]).map_err(|e| TestCaseError::fail(e.to_string()))?;
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
        script in generate::script(), spec in spec(),
    ) {
        let world = World::run(&script, &[]).map_err(|e| TestCaseError::fail(e.to_string()))?;
        let retold = world.chat.retell().unwrap().transcript;
        let chat = imported(&retold, &[&spec]);
        let simulated = asked(&chat, &[&[&spec]]);
        prop_assert_eq!(told(&simulated.alternatives[0]), told(&simulated.alternatives[1]));
        let again = chat.retell().unwrap().transcript;
        prop_assert_eq!(unordered(again.steps), unordered(retold.steps));
    }
}

fn message(message: Message) -> Step {
    Step::Message {
        message,
        at: None,
        link: ctxlog::formats::Link::None,
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
    assert!(column.summaries_due > 0);
    assert_eq!((column.summaries, column.departures()), (0, 0));
}
