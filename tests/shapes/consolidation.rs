//! What a summariser does wrong, and what happens while it is asked.

use ctxlog::engine::{Conversation, Store, SummarizeError, Summarizer, Summary};
use ctxlog::log::{Json, Media, Message, MessageId, Part, PartBody, VisitOutcome};
use ctxlog::strategy::{Prompt, parse};

use crate::support::{outcomes, sound, view, words};

/// Breaks off in the middle of its answer.
#[derive(Debug)]
struct BrokenOff;

impl Summarizer for BrokenOff {
    fn name(&self) -> String {
        "broken-off".into()
    }

    fn summarize(&self, _: &Prompt) -> Result<Summary, SummarizeError> {
        Err(SummarizeError::new("502: error while summarising"))
    }
}

/// Somebody says something while it writes.
#[derive(Debug)]
struct Slow(Conversation);

impl Summarizer for Slow {
    fn name(&self) -> String {
        "slow".into()
    }

    fn summarize(&self, _: &Prompt) -> Result<Summary, SummarizeError> {
        for n in 0..5 {
            let said = Message::person(format!("Meanwhile {n}."));
            let said = self.0.append(said);
            said.map_err(|e| SummarizeError::new(e.to_string()))?;
        }
        Ok(Summary::new("They asked where order 4411 is."))
    }
}

fn filled(rounds: usize) -> Conversation {
    let chat = Store::in_memory().conversation("a").unwrap();
    let spec = "summarize-oldest:limit=300,keep=2,measure=estimate";
    let chat = chat.with_strategies(vec![parse(spec).unwrap()]).unwrap();
    for n in 0..rounds {
        let question = format!("Question {n}: {}", "where is order 4411? ".repeat(30));
        chat.append(Message::person(question)).unwrap();
        chat.append(Message::model("On its way.")).unwrap();
    }
    chat
}

/// B71. A summariser failed; its error became the summary, and 195 messages were gone.
#[test]
fn a_summariser_that_breaks_off_leaves_every_message_and_its_error_is_no_summary() {
    let chat = filled(98).with_summarizer(BrokenOff);
    let before = view(&chat);
    let call = chat.call().unwrap();
    assert_eq!(call.failures, ["502: error while summarising"]);
    assert_eq!(view(&chat), before);
    assert_eq!(outcomes(&chat)[0].0, VisitOutcome::SummarizerFailed);
    assert!(before.iter().all(|id| !words(&chat, *id).contains("502")));
    sound(&chat);
}

/// B76. Messages that came while a summary was made were overwritten by what had been there before.
#[test]
fn what_comes_during_a_long_summary_is_in_the_window_after_it() {
    let plain = filled(20);
    let before = view(&plain);
    let chat = plain.clone().with_summarizer(Slow(plain));
    let visit = chat.visit().unwrap()[0];
    let window = view(&chat);
    assert_eq!(window[0], MessageId(visit), "the summary");
    let tail = &before[before.len() - 2..];
    assert_eq!(window[1..3], *tail, "what was kept");
    assert_eq!(window.len(), 3 + 5);
    assert_eq!(words(&chat, window[7]), "Meanwhile 4.");
    sound(&chat);
    chat.undo(visit).unwrap();
    assert_eq!(view(&chat)[..before.len()], before);
    sound(&chat);
}

/// The prompt of a summariser names media and does not spell them out.
#[test]
fn media_are_named_in_a_prompt() {
    let chat = filled(3);
    let data = "iVBORw0KGgo=".repeat(500);
    let block = format!("{{\"type\":\"image_url\",\"image_url\":{{\"url\":\"{data}\"}}}}");
    let shown = Part {
        body: PartBody::Block(ctxlog::log::BlockBody::Media(Media::Image, Json(block))),
        extra: Vec::new(),
    };
    let author = ctxlog::log::Author::Person;
    let image = Message::new(ctxlog::log::Role::User, author, vec![shown]);
    chat.append(image).unwrap();
    chat.append(Message::model("A cat.")).unwrap();
    for _ in 0..2 {
        chat.append(Message::person("And?")).unwrap();
        chat.append(Message::model("No.")).unwrap();
    }
    let plan = chat.plan_consolidation().unwrap().unwrap();
    let prompt = chat.consolidation_prompt(&plan).unwrap().text;
    assert!(prompt.contains("[image of"), "{prompt}");
    assert!(!prompt.contains("iVBORw0KGgo"));
}
