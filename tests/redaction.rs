//! Redaction: the words are gone wherever they went, and nothing else changes.

use std::sync::Arc;

use ctxlog::audit::{Verified, export, import_lines, verify, why};
use ctxlog::engine::{
    Content, Conversation, Redact, Replacement, Store, SummarizeError, Summarizer, Summary, Words,
};
use ctxlog::formats::{Link, Step, Transcript};
use ctxlog::log::{Fields, Json, Message, MessageId, RequestReason, Seq, payload};
use ctxlog::store::Level;
use ctxlog::strategy::{Prompt, parse};
use ctxlog::testkit::World;
use ctxlog::testkit::generate::script;
use ctxlog::window::Window;
use proptest::prelude::*;
use proptest::sample::Index;

const SECRET: &str = "hunter2-of-alice";

fn verified(chat: &Conversation) -> Verified {
    verify(chat.store(), &chat.listed(), &mut |_, _| {}).unwrap()
}

fn sound(chat: &Conversation) {
    let verified = verified(chat);
    assert!(verified.ok, "{:?}", verified.problems);
    assert_eq!(verified.payloads.lost, 0);
}

fn exported(chat: &Conversation) -> String {
    let mut out = Vec::new();
    export(chat, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The entries whose payloads hold a text, with blobs followed.
fn holding(chat: &Conversation, text: &str) -> Vec<Seq> {
    let backend = chat.store().backend();
    let head = chat.head().unwrap().unwrap().seq;
    let has = |bytes: &[u8]| bytes.windows(text.len()).any(|w| w == text.as_bytes());
    let mut found = Vec::new();
    for seq in (0..=head.0).map(Seq) {
        for index in 0..u32::try_from(chat.entry(seq).unwrap().body.commitments().len()).unwrap() {
            let Some(held) = backend.payload(chat.id(), seq, index).unwrap() else {
                continue;
            };
            let blobs = payload::blobs_of(&held.bytes).unwrap();
            let mut blobs = blobs
                .into_iter()
                .map(|b| backend.blob(chat.id(), b).unwrap().unwrap());
            if has(&held.bytes) || blobs.any(|blob| has(&blob)) {
                found.push(seq);
            }
        }
    }
    found
}

/// A summariser that says what it was shown.
#[derive(Debug)]
struct Parrot;

impl Summarizer for Parrot {
    fn name(&self) -> String {
        "parrot".to_owned()
    }

    fn summarize(&self, prompt: &Prompt) -> Result<Summary, SummarizeError> {
        let kept = prompt.text.contains(SECRET).then_some(SECRET);
        Ok(Summary::new(format!(
            "they said {}",
            kept.unwrap_or("little")
        )))
    }
}

fn windows(chat: &Conversation, to: Seq) -> Vec<Window> {
    (0..=to.0)
        .map(|n| chat.window_after(Seq(n)).unwrap())
        .collect()
}

/// A conversation in which a message was summarised, quoted, and shared with forks of two times.
struct Told {
    chat: Conversation,
    early: Conversation,
    late: Conversation,
    said: MessageId,
    other: MessageId,
}

fn told() -> Told {
    let store = Store::in_memory().with_summarizer(Parrot);
    let chat = store.conversation("a").unwrap();
    let strategy = parse("summarize-oldest:limit=200,keep=2").unwrap();
    let chat = chat.with_strategies(vec![strategy]).unwrap();
    chat.append(Message::system("you help")).unwrap();
    let long = format!("{SECRET} {}", "x".repeat(70_000));
    let said = chat.append(Message::person(long)).unwrap().message();
    let early = chat.fork(head(&chat), "early").unwrap();
    chat.append(Message::model("noted")).unwrap();
    for n in 0..4 {
        let text = format!("question {n} {}", "y".repeat(300));
        chat.append(Message::person(text)).unwrap();
        chat.call().unwrap();
        let text = format!("answer {n} {}", "z".repeat(300));
        chat.append(Message::model(text)).unwrap();
    }
    chat.recall(said).unwrap();
    let late = chat.fork(head(&chat), "late").unwrap();
    late.append(Message::person("go on")).unwrap();
    late.recall(said).unwrap();
    let other = chat.append(Message::person("nothing to see")).unwrap();
    let other = other.message();
    Told {
        chat,
        early,
        late,
        said,
        other,
    }
}

fn head(chat: &Conversation) -> Seq {
    chat.head().unwrap().unwrap().seq
}

#[test]
fn lineage_claims_recalls_forks_and_blobs_go_with_a_message() {
    let Told {
        chat,
        early,
        late,
        said,
        other,
    } = told();
    let logs = [&chat, &early, &late];
    let held = holding(&chat, SECRET);
    assert!(held.len() >= 3, "{held:?}");
    let heads = logs.map(head);
    let seen: Vec<Vec<Window>> = logs
        .iter()
        .zip(heads)
        .map(|(log, to)| windows(log, to))
        .collect();

    let plan = chat.plan_redaction(Redact::Message(said)).unwrap();
    // The message and what quotes it are long.
    assert_eq!((plan.logs.len(), plan.blobs), (3, 2));
    assert!(!plan.is_done());
    let done = chat.redact(Redact::Message(said)).unwrap();
    assert!(done.logs.iter().all(|log| log.filed.is_some()));
    for ((log, to), seen) in logs.iter().zip(heads).zip(&seen) {
        assert_eq!(holding(log, SECRET), [], "{}", log.name());
        assert_eq!(holding(log, &"x".repeat(99)), [], "{}", log.name());
        assert_eq!(&windows(log, to), seen, "no window changes");
        sound(log);
        assert!(verified(log).payloads.redacted > 0);
        assert!(!exported(log).contains(SECRET));
    }
    let now = head(&chat);
    assert!(why(&chat, said, now).unwrap().redacted);
    let content = |id| chat.message_at(id, now).unwrap();
    assert!(matches!(content(said), Content::Redacted));
    assert!(!matches!(content(other), Content::Redacted));
    assert!(
        chat.plan_redaction(Redact::Message(said))
            .unwrap()
            .is_done()
    );
    chat.redact(Redact::Message(said)).unwrap();
    assert_eq!(head(&chat), now, "asking again files nothing");
    // It comes back elsewhere as it is, and goes on as ever.
    let lines = exported(&chat);
    let mut lines = lines.lines().map(|line| Ok(line.to_owned()));
    let (back, _) = import_lines(&Store::in_memory(), &mut lines, None).unwrap();
    sound(&back);
    chat.call().unwrap();
    chat.append(Message::model("and on it goes")).unwrap();
    sound(&chat);
}

#[test]
fn a_form_put_in_its_place_goes_with_the_message_and_a_claim_alone_leaves_its_sources() {
    let store = Store::in_memory();
    let chat = store.conversation("a").unwrap();
    for n in 0..6 {
        let text = if n == 2 {
            SECRET.to_owned()
        } else {
            format!("line {n}")
        };
        let author = if n % 2 == 0 {
            Message::person(text)
        } else {
            Message::model(text)
        };
        chat.append(author).unwrap();
    }
    let one = Replacement::range(2, 3).in_place();
    chat.replace(&one, Message::person(format!("{SECRET} once more")))
        .unwrap();
    let both = Replacement::range(2, 4);
    let claim = chat
        .replace(&both, Message::person(format!("about {SECRET}")))
        .unwrap();
    let claim = MessageId(claim.first);
    assert_eq!(holding(&chat, SECRET).len(), 3);
    let sources = chat.plan_redaction(Redact::Message(claim)).unwrap();
    assert_eq!(
        sources.logs[0].goes.len(),
        1,
        "a claim alone leaves what it stands for"
    );
    chat.redact(Redact::Message(claim)).unwrap();
    assert_eq!(holding(&chat, SECRET).len(), 2);
    let message = chat.window_after(Seq(3)).unwrap().items[2].id;
    chat.redact(Redact::Message(message)).unwrap();
    assert_eq!(holding(&chat, SECRET), []);
    sound(&chat);
}

#[test]
fn a_payload_that_no_entry_says_was_redacted_is_lost() {
    let store = Store::in_memory();
    let chat = store.conversation("a").unwrap();
    let said = chat.append(Message::person("hello")).unwrap().message();
    chat.append(Message::model("hello")).unwrap();
    store
        .backend()
        .destroy_payload(chat.id(), said.seq(), 0, Level::Synced)
        .unwrap();
    let found = verified(&chat);
    assert!(!found.ok);
    assert_eq!((found.payloads.redacted, found.payloads.lost), (0, 1));
    assert_eq!(found.first_bad, Some(said.seq()));
    let refused = chat
        .redact(Redact::Message(MessageId(Seq(99))))
        .unwrap_err();
    assert_eq!(
        refused.refusal().unwrap().reason,
        RequestReason::NothingMatches
    );
}

#[test]
fn the_whole_conversation_goes_and_takes_what_forks_share() {
    let store = Store::in_memory();
    let chat = store.conversation("a").unwrap();
    chat.append(Message::person(SECRET)).unwrap();
    let fork = chat
        .fork(chat.head().unwrap().unwrap().seq, "fork")
        .unwrap();
    let own = fork.append(Message::model("mine")).unwrap().message();
    chat.append(Message::model(format!("you said {SECRET}")))
        .unwrap();
    chat.redact(Redact::Conversation).unwrap();
    for log in [&chat, &fork] {
        assert_eq!(holding(log, SECRET), []);
        sound(log);
    }
    let head = fork.head().unwrap().unwrap().seq;
    assert!(!matches!(
        fork.message_at(own, head).unwrap(),
        Content::Redacted
    ));
    assert!(chat.plan_redaction(Redact::Conversation).unwrap().is_done());
    chat.append(Message::person("anew")).unwrap();
    sound(&chat);
}

#[test]
fn a_fork_made_afterwards_of_an_earlier_place_says_itself_what_it_lacks() {
    let store = Store::in_memory();
    let chat = store.conversation("a").unwrap();
    let said = chat.append(Message::person(SECRET)).unwrap().message();
    chat.append(Message::model("noted")).unwrap();
    chat.append(Message::person("and more")).unwrap();
    chat.redact(Redact::Message(said)).unwrap();
    chat.append(Message::model("so be it")).unwrap();
    let one = chat.fork(said.seq(), "one").unwrap();
    assert_eq!(verified(&one).payloads.redacted, 1);
    chat.redact(Redact::Conversation).unwrap();
    let two = chat.fork(said.seq().next(), "two").unwrap();
    let three = two.fork(said.seq(), "three").unwrap();
    let nothing = chat.fork(head(&chat), "nothing").unwrap();
    assert_eq!(
        head(&nothing),
        head(&chat).next(),
        "the redaction itself is shared"
    );
    for fork in [&one, &two, &three, &nothing] {
        sound(fork);
        assert!(
            fork.plan_redaction(Redact::Message(said))
                .unwrap()
                .is_done()
        );
        // Elsewhere too, with what of its parents comes along.
        let elsewhere = Store::in_memory();
        let lines = exported(fork);
        let mut lines = lines.lines().map(|line| Ok(line.to_owned()));
        import_lines(&elsewhere, &mut lines, None).unwrap();
        for listed in elsewhere.list().unwrap() {
            let name = listed.name.name.clone();
            sound(&elsewhere.existing(&name).unwrap());
        }
    }
}

#[test]
fn a_recall_that_is_the_last_thing_a_fork_shares_goes_with_what_it_quotes() {
    for elsewhere in [false, true] {
        let mut store = Store::in_memory();
        let chat = store.conversation("a").unwrap();
        let said = chat.append(Message::person(SECRET)).unwrap().message();
        for text in ["noted", "what else", "nothing", "well then"] {
            chat.append(Message::model(text)).unwrap();
        }
        chat.append(Message::person("go on")).unwrap();
        let all = Replacement::range(0, 3).with_gaps();
        chat.replace(&all, Message::person("they spoke")).unwrap();
        let quote = chat.recall(said).unwrap().ack.first;
        assert!(holding(&chat, SECRET).contains(&quote));
        let mut fork = chat.fork(quote, "fork").unwrap();
        if elsewhere {
            // There the note is not.
            store = Store::in_memory();
            let lines = exported(&fork);
            let mut lines = lines.lines().map(|line| Ok(line.to_owned()));
            fork = import_lines(&store, &mut lines, None).unwrap().0;
        }
        fork.append(Message::person("and on")).unwrap();
        let from = if elsewhere { &fork } else { &chat };
        from.redact(Redact::Message(said)).unwrap();
        for listed in store.list().unwrap() {
            let chat = store.existing(&listed.name.name).unwrap();
            assert_eq!(holding(&chat, SECRET), [], "{}", chat.name());
            sound(&chat);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(80))]

    #[test]
    fn lineage_no_window_changes_and_the_chain_verifies(script in script(), picks in proptest::collection::vec(any::<Index>(), 1..4), forks in any::<Option<Index>>()) {
        let mut world = World::run(&script, &[]).unwrap();
        let head = world.head().unwrap();
        let ids: Vec<MessageId> = world.chat.with_projection(|p| p.messages().iter().map(|m| m.id).collect()).unwrap();
        prop_assume!(!ids.is_empty());
        let fork = forks.map(|at| {
            let at = Seq(at.index(usize::try_from(head.0).unwrap() + 1) as u64);
            world.chat.fork_closing(at, "fork").unwrap()
        });
        let before = windows(&world.chat, head);
        for pick in picks {
            let id = ids[pick.index(ids.len())];
            world.chat.redact(Redact::Message(id)).unwrap();
            let after = world.chat.message_at(id, head).unwrap();
            prop_assert!(matches!(after, Content::Redacted));
            prop_assert!(world.chat.plan_redaction(Redact::Message(id)).unwrap().is_done());
        }
        prop_assert_eq!(windows(&world.chat, head), before);
        for chat in [Some(&world.chat), fork.as_ref()].into_iter().flatten() {
            let found = verified(chat);
            prop_assert!(found.ok, "{:?}", found.problems);
            prop_assert_eq!(found.payloads.lost, 0);
        }
        // From the entries and snapshots alone.
        let cold = Store::on(Arc::clone(&world.backend)).by_id(world.chat.listed()).unwrap();
        let now = cold.head().unwrap().unwrap().seq;
        prop_assert_eq!(windows(&cold, now), windows(&world.chat, now));
        world.perform_all(&script.ops).unwrap();
        prop_assert!(verified(&world.chat).ok);
    }
}

fn noted(what: &str, content: &str) -> Step {
    Step::Noted {
        what: what.to_owned(),
        place: "file:1".to_owned(),
        content: Some(Json(content.to_owned())),
        at: None,
        warn: false,
    }
}

/// What an importer could not place may hold a message's words: such a note goes with them, others stay
/// and are counted.
#[test]
fn a_note_that_holds_the_words_of_a_message_goes_with_them() {
    let said = "the parcel of Zebra & Sons is \"late\"";
    let quoting = format!(
        "{{\"left\":[{{\"over\":{}}}]}}",
        serde_json::to_string(&format!("> {said} <")).unwrap()
    );
    let transcript = Transcript {
        steps: vec![
            Step::Message {
                message: Message::person(said),
                at: None,
                link: Link::None,
            },
            noted("left over", &quoting),
            noted("left over", "{\"other\":\"words, and more of them\"}"),
            noted(
                "left over",
                "not even JSON: the parcel of Zebra & Sons is \"late\", it says",
            ),
            Step::Message {
                message: Message::model("I see."),
                at: None,
                link: Link::None,
            },
        ],
        ..Transcript::default()
    };
    let store = Store::in_memory();
    store
        .import("a", &transcript, Vec::new(), &mut |_| {})
        .unwrap();
    let chat = store.existing("a").unwrap();
    let id = chat.with_projection(|p| p.messages()[0].id).unwrap();
    let plan = chat.plan_redaction(Redact::Message(id)).unwrap();
    let what: Vec<Words> = plan.logs[0].goes.iter().map(|g| g.what).collect();
    assert_eq!(what, [Words::Message, Words::Note, Words::Note]);
    assert_eq!(plan.notes_kept, 1);
    let named: Vec<_> = plan.logs[0].goes.iter().map(|g| (g.seq, g.index)).collect();
    chat.redact(Redact::Message(id)).unwrap();
    for (seq, index) in named {
        assert_eq!(
            store.backend().payload(chat.id(), seq, index).unwrap(),
            None
        );
    }
    assert!(chat.plan_redaction(Redact::Message(id)).unwrap().is_done());
    assert!(verified(&chat).ok);
    assert!(!exported(&chat).contains("Zebra"));
}

/// What the source made of all before it, and a simulation only noted, is a summary all the same.
#[test]
fn a_compaction_that_was_only_noted_goes_with_what_it_sums_up() {
    let summary = Step::Compacted {
        summary: Message::person("they spoke of zebras"),
        rest: Fields::new(),
        at: None,
    };
    let message = |message| Step::Message {
        message,
        at: None,
        link: Link::None,
    };
    let steps = vec![
        message(Message::person("a zebra?")),
        message(Message::model("a zebra.")),
        summary,
        message(Message::person("and then")),
    ];
    let transcript = Transcript {
        steps,
        ..Transcript::default()
    };
    let store = Store::in_memory();
    let chain = vec![ctxlog::strategy::parse("sliding-window:keep=9").unwrap()];
    store.import("a", &transcript, chain, &mut |_| {}).unwrap();
    let chat = store.existing("a").unwrap();
    let ids = chat
        .with_projection(|p| p.messages().iter().map(|m| m.id).collect::<Vec<_>>())
        .unwrap();
    let plan = chat.plan_redaction(Redact::Message(ids[0])).unwrap();
    let what: Vec<Words> = plan.logs[0].goes.iter().map(|g| g.what).collect();
    assert_eq!(what, [Words::Message, Words::Note]);
    let later = chat.plan_redaction(Redact::Message(ids[2])).unwrap();
    assert_eq!(later.logs[0].goes.len(), 1, "the summary is older");
}

/// A source message that became several is kept as it was with the first of them, where it cannot be
/// written again from its parts: with the words of another part that goes as well.
#[test]
fn the_text_of_a_source_message_goes_with_the_words_of_any_part_of_it() {
    for words in ["nay!", "the parcel of Zebra & Sons is late"] {
        let body = format!(
            r#"{{"messages":[{{"role":"user","content":"go on then"}},
            {{"role":"assistant","content":[{{"type":"tool_use","id":"a","name":"t","input":{{}}}}]}},
            {{"role":"user","content":[{{"type":"text","text":{words:?}}},
            {{"type":"tool_result","tool_use_id":"a","content":"1"}}]}}]}}"#
        );
        let format = ctxlog::formats::Format::from_name("anthropic").unwrap();
        let told = format.read(&mut body.as_bytes(), "f", 1 << 20).unwrap();
        let store = Store::in_memory();
        store
            .import("a", &told[0], Vec::new(), &mut |_| {})
            .unwrap();
        let chat = store.existing("a").unwrap();
        let holding = |text: &str| holding(&chat, text).len();
        assert_eq!(holding(words), 2, "the message, and the text of its source");
        let id = chat
            .with_projection(|p| p.messages().last().unwrap().id)
            .unwrap();
        chat.redact(Redact::Message(id)).unwrap();
        assert_eq!(holding(words), 0);
        assert_eq!(holding("go on then"), 1);
        sound(&chat);
        assert!(chat.plan_redaction(Redact::Message(id)).unwrap().is_done());
    }
}
