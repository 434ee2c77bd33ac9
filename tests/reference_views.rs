//! A conversation as buffer, summary and consolidating memory: items of the reference systems.

use std::cell::RefCell;

use ctxlog::engine::{
    BufferMemory, ConsolidatingMemory, Conversation, Namespace, Store, SummaryMemory,
};
use ctxlog::formats::{Link, Step, Transcript};
use ctxlog::log::{Body, Message, Part};
use ctxlog::strategy::{Because, ConsolidationPolicy, Signals};

fn chat() -> Conversation {
    Store::in_memory().conversation("a").unwrap()
}

fn words(buffer: &BufferMemory) -> Vec<String> {
    let messages = buffer.messages().unwrap();
    messages.iter().map(Message::words).collect()
}

#[test]
fn a_buffer_gives_what_was_said_and_asks_only_the_policy_it_was_given() {
    let plain = BufferMemory::new(chat());
    plain.append(Message::system("instructions")).unwrap();
    plain.append(Message::person("one")).unwrap();
    plain.append(Message::model("two")).unwrap();
    assert_eq!(words(&plain), ["one", "two"]);
    let none = plain.should_consolidate().unwrap();
    assert_eq!(
        (none.due, &none.why[0].because),
        (false, &Because::NoPolicy)
    );
    let policy = ConsolidationPolicy::OnMessageCount(2);
    let buffer = plain.with_consolidation_policy(policy).unwrap();
    assert!(buffer.should_consolidate().unwrap().due);
    // It never summarises by itself.
    assert_eq!(words(&buffer), ["one", "two"]);
    assert_eq!(buffer.last_consolidated().unwrap(), None);
}

#[test]
fn the_policy_in_force_is_asked_after_a_restart_too() {
    let policy = ConsolidationPolicy::AnyOf(vec![
        ConsolidationPolicy::OnMessageCount(2),
        ConsolidationPolicy::OnTokens(900),
    ]);
    let first = BufferMemory::new(chat())
        .with_consolidation_policy(policy)
        .unwrap();
    first.append(Message::person("one")).unwrap();
    let again = BufferMemory::new(first.conversation().clone());
    assert!(!again.should_consolidate().unwrap().due);
    again.append(Message::person("two")).unwrap();
    let due = again.should_consolidate().unwrap();
    assert_eq!((due.due, due.why.len()), (true, 2));
}

/// A conversation whose source was compacted twice.
fn compacted() -> Conversation {
    let store = Store::in_memory();
    let say = |message| Step::Message {
        message,
        at: None,
        link: Link::None,
    };
    let compact = |text: &str| Step::Compacted {
        summary: Message::person(text),
        rest: Vec::new(),
        at: None,
    };
    let transcript = Transcript {
        format: "openai-chat",
        id: None,
        steps: vec![
            say(Message::person("one")),
            say(Message::model("two")),
            compact("they counted to two"),
            say(Message::person("three")),
            compact("they counted to three"),
            say(Message::person("four")),
        ],
        ..Transcript::default()
    };
    store
        .import("a", &transcript, Vec::new(), &mut |_| {})
        .unwrap();
    store.existing("a").unwrap()
}

#[test]
fn a_summary_is_what_stands_for_others_and_its_history_is_kept() {
    assert_eq!(SummaryMemory::new(chat()).current_summary().unwrap(), None);
    let chat = compacted();
    let summary = SummaryMemory::new(chat.clone());
    let history = summary.history().unwrap();
    let told: Vec<(&str, bool)> = history.iter().map(|p| (p.text.as_str(), p.live)).collect();
    assert_eq!(
        told,
        [
            ("they counted to two", false),
            ("they counted to three", true)
        ]
    );
    assert_eq!(
        summary.current_summary().unwrap().as_deref(),
        Some("they counted to three")
    );
    // The originals are in the log, by number.
    let sources = |at: usize| {
        let sources = history[at].sources.clone();
        chat.with_projection(|p| p.ids_in(&sources)).unwrap()
    };
    assert_eq!(sources(0).len(), 2);
    assert!(sources(1).contains(&history[0].id));
    // What the source did is a consolidation, whoever marks it.
    let last = chat.last_consolidated().unwrap().unwrap();
    assert_eq!((last.seq, last.marked), (history[1].given, false));
    // The buffer is what was said since, and the window holds both.
    assert_eq!(words(&BufferMemory::new(chat.clone())), ["four"]);
    assert_eq!(chat.window().unwrap().items.len(), 2);
    let one = ConsolidationPolicy::OnMessageCount(2);
    let due = chat.should_consolidate(&one, &Signals::new()).unwrap();
    assert!(
        !due.due,
        "a summary is not counted as a message to summarise"
    );
}

fn marks(chat: &Conversation) -> usize {
    let head = chat.head().unwrap().unwrap().seq;
    let mut marks = 0;
    chat.store()
        .entries(chat.id(), ctxlog::Seq(0), head, &mut |sealed| {
            marks += usize::from(matches!(sealed.entry.body, Body::Noted(_)));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    marks
}

#[test]
fn what_is_due_is_consolidated_after_an_append_and_marked_once() {
    let policy = ConsolidationPolicy::OnMessageCount(3);
    let buffer = BufferMemory::new(chat())
        .with_consolidation_policy(policy)
        .unwrap();
    let asked = RefCell::new(0);
    let memory = ConsolidatingMemory::new(buffer, |_: &Conversation| {
        *asked.borrow_mut() += 1;
        Ok::<bool, String>(true)
    });
    for n in 1..=3 {
        let came = memory.append(Message::person(format!("m{n}"))).unwrap();
        assert_eq!(came.due.due, n == 3);
        assert_eq!(came.consolidated.is_some(), n == 3);
        assert_eq!(*asked.borrow(), usize::from(n == 3));
    }
    assert_eq!(marks(memory.buffer().conversation()), 1);
    assert!(memory.buffer().last_consolidated().unwrap().unwrap().marked);
    // Through the buffer alone nothing is asked; what comes next here sees all of it.
    memory.buffer().append(Message::person("beside")).unwrap();
    assert_eq!(*asked.borrow(), 1);
    memory.append(Message::person("more")).unwrap();
    assert_eq!(*asked.borrow(), 2);
    assert_eq!(memory.summary().current_summary().unwrap(), None);
}

#[test]
fn where_consolidating_fails_the_message_is_there_and_the_next_append_tries_again() {
    let policy = ConsolidationPolicy::OnMessageCount(2);
    let buffer = BufferMemory::new(chat())
        .with_consolidation_policy(policy)
        .unwrap();
    let fails = RefCell::new(true);
    let memory = ConsolidatingMemory::new(buffer, |_: &Conversation| {
        if fails.replace(false) {
            return Err("the model is away");
        }
        Ok(true)
    });
    memory.append(Message::person("one")).unwrap();
    let failed = memory.append(Message::person("two")).unwrap();
    assert_eq!(failed.consolidated, Some(Err("the model is away")));
    assert_eq!(words(memory.buffer()), ["one", "two"]);
    assert_eq!(memory.buffer().last_consolidated().unwrap(), None);
    let again = memory.append(Message::person("three")).unwrap();
    assert_eq!(again.consolidated, Some(Ok(true)));
    assert!(memory.buffer().last_consolidated().unwrap().is_some());
}

#[test]
fn without_a_policy_a_consolidating_memory_is_a_plain_buffer() {
    let memory = ConsolidatingMemory::new(BufferMemory::new(chat()), |_: &Conversation| {
        Err::<bool, _>("never asked")
    });
    for n in 0..20 {
        let came = memory.append(Message::model(format!("{n}"))).unwrap();
        assert!(came.consolidated.is_none());
    }
    assert_eq!(words(memory.buffer()).len(), 20);
}

#[test]
fn memories_of_one_conversation_are_one_and_those_of_another_namespace_are_others() {
    let store = Store::in_memory();
    let of = |tenant| {
        let space = Namespace::new(tenant).unwrap();
        store.within(space).conversation("thread").unwrap()
    };
    let (one, same, other) = (of("a"), of("a"), of("b"));
    BufferMemory::new(one)
        .append(Message::person("mine"))
        .unwrap();
    let call = Message::calls(vec![Part::call("c", "t", "{}")]);
    BufferMemory::new(same.clone()).append(call).unwrap();
    assert_eq!(words(&BufferMemory::new(same)).len(), 2);
    assert!(words(&BufferMemory::new(other)).is_empty());
}
