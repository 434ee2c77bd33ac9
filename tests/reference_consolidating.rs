//! A buffer that is consolidated by a summariser when its policy says so: items of the reference systems.

use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use ctxlog::engine::{
    BufferMemory, Conversation, How, Store, SummarizeError, Summarizer, Summary, SummaryMemory,
};
use ctxlog::log::{AttemptOutcome, Author, Body, Message, MessageId, Part, Seq, VisitOutcome};
use ctxlog::strategy::{ConsolidationPolicy, Prompt, SummarizeOldest};
use ctxlog::window::Measure;

/// Says these one after the other, then fails.
#[derive(Clone, Debug, Default)]
struct Teller {
    answers: Arc<Mutex<Vec<&'static str>>>,
    asked: Arc<Mutex<Vec<Prompt>>>,
}

impl Teller {
    fn saying(answers: &[&'static str]) -> Self {
        let teller = Self::default();
        teller.say(answers);
        teller
    }

    fn say(&self, answers: &[&'static str]) {
        *self.answers.lock().unwrap() = answers.iter().rev().copied().collect();
    }

    fn asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Summarizer for Teller {
    fn name(&self) -> String {
        "teller".into()
    }

    fn summarize(&self, prompt: &Prompt) -> Result<Summary, SummarizeError> {
        self.asked.lock().unwrap().push(prompt.clone());
        let next = self.answers.lock().unwrap().pop();
        next.map(Summary::new)
            .ok_or_else(|| SummarizeError::new("overloaded"))
    }
}

/// A buffer that is due at so many messages, of which all but the newest `keep` may be summarised.
fn buffer(due_at: u64, keep: u64) -> BufferMemory {
    let strategy = SummarizeOldest::new(1)
        .keep(keep)
        .measure(Measure::Estimate);
    let chat = Store::in_memory().conversation("a").unwrap();
    BufferMemory::new(chat.with_strategy(strategy).unwrap())
        .with_consolidation_policy(ConsolidationPolicy::OnMessageCount(due_at))
        .unwrap()
}

/// Words that are larger than what stands for them.
fn long(n: usize) -> String {
    format!("Line {n}: {}", "order 4411 is on its way. ".repeat(30))
}

fn view(chat: &Conversation) -> Vec<MessageId> {
    let window = chat.window().unwrap();
    window.items.iter().map(|i| i.id).collect()
}

/// What was said, word for word, of every message that stands for none.
fn originals(chat: &Conversation) -> Vec<String> {
    let ids: Vec<(MessageId, Seq)> = chat
        .with_projection(|p| {
            let said = p.messages().iter().filter(|m| m.stands_for.is_none());
            said.map(|m| (m.id, m.logged.seq)).collect()
        })
        .unwrap();
    let words = ids
        .into_iter()
        .map(|(id, at)| match chat.message_at(id, at).unwrap() {
            ctxlog::engine::Content::Message(message) => message.words(),
            ctxlog::engine::Content::Redacted => panic!("{id} is redacted"),
        });
    words.collect()
}

fn bodies(chat: &Conversation) -> Vec<Body> {
    let head = chat.head().unwrap().unwrap().seq;
    let mut bodies = Vec::new();
    chat.store()
        .entries(chat.id(), Seq(0), head, &mut |sealed| {
            bodies.push(sealed.entry.body);
            ControlFlow::Continue(())
        })
        .unwrap();
    bodies
}

fn marks(chat: &Conversation) -> usize {
    let bodies = bodies(chat);
    bodies
        .iter()
        .filter(|b| matches!(b, Body::Noted(_)))
        .count()
}

#[test]
fn what_is_due_is_summarised_whole_and_the_visit_is_the_mark() {
    let teller = Teller::saying(&["compressed"]);
    let memory = buffer(3, 0).summarized_by(teller.clone());
    let chat = memory.buffer().conversation().clone();
    for n in 1..=3 {
        let came = memory.append(Message::model(long(n))).unwrap();
        assert_eq!(came.due.due, n == 3);
        assert_eq!(
            teller.asked(),
            usize::from(n == 3),
            "nobody is asked before"
        );
        assert!(n < 3 || matches!(came.consolidated, Some(Ok(true))));
    }
    assert!(memory.buffer().messages().unwrap().is_empty());
    let summary = memory.summary().current_summary().unwrap().unwrap();
    assert!(summary.ends_with("\n\ncompressed"), "{summary}");
    let history = memory.summary().history().unwrap();
    assert_eq!(history.len(), 1);
    // One entry is the summary, the clearing and the mark: there is no state between them.
    let last = memory.buffer().last_consolidated().unwrap().unwrap();
    assert_eq!((last.seq, last.marked), (history[0].given, false));
    assert_eq!(chat.head().unwrap().unwrap().seq, last.seq);
    assert_eq!(marks(&chat), 0);
    let before = Seq(last.seq.0 - 1);
    assert_eq!(chat.window_after(before).unwrap().items.len(), 3);
    assert_eq!(originals(&chat), (1..=3).map(long).collect::<Vec<_>>());
}

#[test]
fn what_may_not_leave_stays_beside_the_summary() {
    let teller = Teller::saying(&["They asked."]);
    let memory = buffer(4, 0).summarized_by(teller.clone());
    let append = |m| memory.append(m).unwrap();
    append(Message::person(long(0)));
    append(Message::model(long(1)));
    let open = append(Message::calls(vec![Part::call("c", "t", "{}")]));
    let came = append(Message::person(long(2)));
    assert!(matches!(came.consolidated, Some(Ok(true))));
    let chat = memory.buffer().conversation();
    let kept = memory.buffer().messages().unwrap();
    let authors: Vec<Author> = kept.iter().map(|m| m.author).collect();
    assert_eq!(authors.last(), Some(&Author::Person), "the request stays");
    assert!(
        view(chat).contains(&MessageId(open.ack.last)),
        "an open call stays"
    );
    // Where there is nothing but a request, nobody is asked.
    let teller = Teller::saying(&["never"]);
    let memory = buffer(3, 0).summarized_by(teller.clone());
    for n in 0..4 {
        let came = memory.append(Message::person(long(n))).unwrap();
        assert!(!matches!(came.consolidated, Some(Ok(true) | Err(_))));
    }
    assert_eq!(
        (teller.asked(), view(memory.buffer().conversation()).len()),
        (0, 4)
    );
    assert_eq!(memory.buffer().last_consolidated().unwrap(), None);
}

#[test]
fn a_failure_before_the_summary_leaves_all_and_the_next_append_asks_again() {
    let teller = Teller::default();
    let memory = buffer(2, 0).summarized_by(teller.clone());
    let chat = memory.buffer().conversation().clone();
    memory.append(Message::model(long(0))).unwrap();
    let failed = memory.append(Message::model(long(1))).unwrap();
    assert!(matches!(failed.consolidated, Some(Ok(false))));
    assert_eq!(memory.buffer().messages().unwrap().len(), 2);
    assert_eq!(memory.summary().current_summary().unwrap(), None);
    assert_eq!(memory.buffer().last_consolidated().unwrap(), None);
    assert_eq!(marks(&chat), 0);
    let newest = chat.head().unwrap().unwrap().seq;
    let visit = chat.entry(newest).unwrap();
    let visit = visit.body.visit().unwrap();
    assert_eq!(
        visit.outcome,
        VisitOutcome::SummarizerFailed,
        "it is in the log"
    );
    assert_eq!(visit.attempts[0].outcome, AttemptOutcome::Failed);
    teller.say(&["They said it."]);
    let again = memory.append(Message::model(long(2))).unwrap();
    assert!(matches!(again.consolidated, Some(Ok(true))));
    assert_eq!(teller.asked(), 2);
    assert!(memory.buffer().messages().unwrap().is_empty());
}

#[test]
fn a_call_summarises_nothing_where_only_the_memory_has_the_summariser() {
    let teller = Teller::saying(&["never"]);
    let memory = buffer(9, 0).summarized_by(teller.clone());
    for n in 0..4 {
        memory.append(Message::model(long(n))).unwrap();
        assert!(memory.buffer().conversation().call().unwrap().due);
    }
    assert_eq!(
        (teller.asked(), memory.buffer().messages().unwrap().len()),
        (0, 4)
    );
}

#[test]
fn successive_summaries_are_one_or_are_joined_by_a_blank_line() {
    // Unless something holds it, the first is summarised with what came since.
    let memory = buffer(2, 0).summarized_by(Teller::saying(&["One.", "One and two."]));
    for n in 0..4 {
        memory.append(Message::model(long(n))).unwrap();
    }
    let history = memory.summary().history().unwrap();
    assert_eq!(history.len(), 2);
    let now = memory.summary().current_summary().unwrap().unwrap();
    assert_eq!(now, history[1].text);
    // A pinned one stays by itself, and the running summary is their texts in order.
    let memory = buffer(2, 0).summarized_by(Teller::saying(&["One.", "Two."]));
    let append = |n| memory.append(Message::model(long(n))).unwrap();
    append(0);
    append(1);
    let first = memory.summary().history().unwrap()[0].id;
    memory.buffer().conversation().pin(first).unwrap();
    append(2);
    append(3);
    let history = memory.summary().history().unwrap();
    let texts: Vec<&str> = history.iter().map(|p| p.text.as_str()).collect();
    assert!(texts[0].ends_with("One.") && texts[1].ends_with("Two."));
    let now = memory.summary().current_summary().unwrap();
    assert_eq!(now, Some(texts.join("\n\n")));
    assert_eq!(originals(memory.buffer().conversation()).len(), 4);
}

#[test]
fn clearing_takes_both_layers_by_one_entry_or_the_buffer_alone() {
    let filled = || {
        let memory = buffer(2, 0).summarized_by(Teller::saying(&["One."]));
        for n in 0..3 {
            memory.append(Message::model(long(n))).unwrap();
        }
        assert_eq!(view(memory.buffer().conversation()).len(), 2);
        memory
    };
    let memory = filled();
    let chat = memory.buffer().conversation();
    let before = chat.head().unwrap().unwrap().seq;
    let ack = memory.clear().unwrap();
    assert_eq!((ack.first, ack.last), (before.next(), before.next()));
    assert!(view(chat).is_empty());
    assert_eq!(memory.summary().current_summary().unwrap(), None);
    assert_eq!(chat.window_after(before).unwrap().items.len(), 2);
    assert_eq!(originals(chat).len(), 3);
    assert!(memory.clear().is_err(), "there is nothing left to clear");

    let memory = filled();
    memory.buffer().clear().unwrap();
    assert!(memory.buffer().messages().unwrap().is_empty());
    assert!(memory.summary().current_summary().unwrap().is_some());
    assert!(memory.buffer().clear().is_err());
}

#[test]
fn a_long_recall_is_one_summary_and_five_as_they_are_and_undoing_it_brings_them_back() {
    let teller = Teller::saying(&["They spoke of order 4411."]);
    let memory = buffer(20, 5).summarized_by(teller.clone());
    let chat = memory.buffer().conversation().clone();
    // At the fifteenth message stands a result that is not parted from its call.
    for n in 0..20 {
        let message = match n {
            14 => Message::calls(vec![Part::call("c", "t", "{}")]),
            15 => Message::tool("c", &long(n)),
            _ => Message::model(long(n)),
        };
        let came = memory.append(message).unwrap();
        assert_eq!(came.consolidated.is_some(), n == 19);
    }
    assert_eq!(teller.asked(), 1, "one question for the span");
    let summary = memory.summary().history().unwrap().remove(0);
    let covered = chat
        .with_projection(|p| p.ids_in(&summary.sources))
        .unwrap();
    // The pair counts as one of the five.
    assert_eq!(
        (covered.len(), memory.buffer().messages().unwrap().len()),
        (14, 6)
    );
    assert_eq!(
        view(&chat)[0],
        summary.id,
        "it stands where the oldest stood"
    );
    let recalled = chat.recall(covered[3]).unwrap();
    assert_eq!(
        recalled.how,
        How::Quoted,
        "the originals are there to be read"
    );
    chat.undo(summary.id.seq()).unwrap();
    assert!(covered.iter().all(|id| view(&chat).contains(id)));
    assert_eq!(SummaryMemory::new(chat).current_summary().unwrap(), None);
}
