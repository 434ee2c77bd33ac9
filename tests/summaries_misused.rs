//! Summarisers and plans that are used in ways nobody meant.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use ctxlog::engine::{CommandSummarizer, Conversation, Store, SummarizeError, Summarizer, Summary};
use ctxlog::log::{Message, MessageId, Seq, VisitOutcome};
use ctxlog::strategy::{Consolidation, Prompt, parse};

type Answer = dyn Fn(&Prompt) -> Result<Summary, SummarizeError> + Send + Sync;

#[derive(Clone)]
struct Teller {
    name: String,
    panics: bool,
    window: Option<u64>,
    answer: Arc<Answer>,
}

impl std::fmt::Debug for Teller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Teller")
    }
}

impl Summarizer for Teller {
    fn name(&self) -> String {
        assert!(!self.panics, "no name");
        self.name.clone()
    }
    fn instructions(&self) -> Option<String> {
        assert!(!self.panics, "no instructions");
        None
    }
    fn window(&self) -> Option<u64> {
        assert!(!self.panics, "no window");
        self.window
    }
    fn summarize(&self, prompt: &Prompt) -> Result<Summary, SummarizeError> {
        (self.answer)(prompt)
    }
}

fn teller(
    answer: impl Fn(&Prompt) -> Result<Summary, SummarizeError> + Send + Sync + 'static,
) -> Teller {
    Teller {
        name: "teller".into(),
        panics: false,
        window: None,
        answer: Arc::new(answer),
    }
}

const SPEC: &str = "summarize-oldest:limit=300,keep=1,measure=estimate";

fn chat_of(store: &Store, name: &str) -> Conversation {
    let chat = store.conversation(name).unwrap();
    chat.with_strategies(vec![parse(SPEC).unwrap()]).unwrap()
}

fn rounds(chat: &Conversation, n: usize) {
    for n in 0..n {
        let question = format!("Question {n}: {}", "where is order 4411? ".repeat(40));
        chat.append(Message::person(question)).unwrap();
        chat.append(Message::model(format!("Answer {n}."))).unwrap();
    }
}

fn outcome(chat: &Conversation, seq: Seq) -> VisitOutcome {
    chat.entry(seq).unwrap().body.visit().unwrap().outcome
}

#[test]
fn a_summariser_that_panics_wherever_it_is_asked_is_one_that_failed() {
    let one = Teller {
        panics: true,
        ..teller(|_| Ok(Summary::new("x")))
    };
    let chat = chat_of(&Store::in_memory().with_summarizer(one), "a");
    rounds(&chat, 3);
    let call = chat.call().unwrap();
    assert_eq!(call.visits.len(), 1);
    assert_eq!(
        outcome(&chat, call.visits[0]),
        VisitOutcome::SummarizerFailed
    );
}

#[test]
fn what_a_summariser_says_of_itself_does_not_make_a_call_fail() {
    let long = "é".repeat(3 << 20);
    let model = long.clone();
    let one = Teller {
        name: long,
        ..teller(move |_| {
            Ok(Summary {
                text: "short".into(),
                model: Some(model.clone()),
                usage: None,
            })
        })
    };
    let chat = chat_of(&Store::in_memory().with_summarizer(one), "a");
    rounds(&chat, 3);
    let call = chat.call().unwrap();
    assert_eq!(outcome(&chat, call.visits[0]), VisitOutcome::Done);
    let entry = chat.entry(call.visits[0]).unwrap();
    let attempt = &entry.body.visit().unwrap().attempts[0];
    assert!(attempt.summarizer.len() <= 1024);
    assert!(attempt.model.as_ref().is_some_and(|m| m.len() <= 1024));
    verifies(chat.store());
}

fn verifies(store: &Store) {
    for listed in store.list().unwrap() {
        let report = ctxlog::audit::verify(store, &listed, &mut |_, _| {}).unwrap();
        assert!(report.ok, "{report:?}");
    }
}

type Alter = fn(&mut Consolidation);

#[test]
fn a_plan_changes_nothing_but_what_it_was_made_for() {
    let store = Store::in_memory();
    let (a, b) = (chat_of(&store, "a"), chat_of(&store, "b"));
    rounds(&a, 4);
    rounds(&b, 4);
    let plan = a.plan_consolidation().unwrap().unwrap();
    let commit = |chat: &Conversation, plan: &Consolidation| {
        let before = chat.window().unwrap().items;
        let done = chat.commit_consolidation(plan, Ok(Summary::new("s")));
        let done = done.map(|seq| outcome(chat, seq));
        (done, before == chat.window().unwrap().items)
    };
    let (done, unchanged) = commit(&b, &plan);
    assert_eq!((done.unwrap(), unchanged), (VisitOutcome::Late, true));
    let (done, unchanged) = commit(&chat_of(&store, "empty"), &plan);
    assert!(done.is_err() && unchanged);
    let (done, unchanged) = commit(&a, &plan);
    assert_eq!((done.unwrap(), unchanged), (VisitOutcome::Done, false));
    let (done, unchanged) = commit(&a, &plan);
    assert_eq!((done.unwrap(), unchanged), (VisitOutcome::Late, true));
    // Whoever carried it may have altered it.
    let altered: [Alter; 6] = [
        |p| p.sources.clear(),
        |p| p.sources[0].form = Seq(u64::MAX),
        |p| p.sources[0].form = Seq(0),
        |p| p.sources[0].message = MessageId(Seq(u64::MAX)),
        |p| p.base = Seq(u64::MAX),
        |p| p.position = u32::MAX,
    ];
    for alter in altered {
        let mut plan = plan.clone();
        alter(&mut plan);
        let (done, unchanged) = commit(&a, &plan);
        assert!(
            unchanged && !matches!(done, Ok(VisitOutcome::Done)),
            "{done:?}"
        );
    }
    verifies(&store);
}

#[test]
fn a_conversation_is_used_by_others_while_summaries_are_made() {
    let asked = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&asked);
    let one = teller(move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(Duration::from_millis(1));
        Ok(Summary::new("short"))
    });
    let store = Store::in_memory().with_summarizer(one);
    let chat = chat_of(&store, "a");
    let done = AtomicBool::new(false);
    let until_done = |each: &mut dyn FnMut()| {
        while !done.load(Ordering::SeqCst) {
            each();
            std::thread::sleep(Duration::from_millis(1));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| until_done(&mut || rounds(&chat, 1)));
        scope.spawn(|| {
            until_done(&mut || {
                let changed = chat.visit().unwrap().last().copied();
                drop(changed.map(|seq| chat.undo(seq)));
            });
        });
        scope.spawn(|| {
            let mut n = 0_u32;
            until_done(&mut || {
                n += 1;
                let cleared = n.is_multiple_of(20).then(|| chat.clear());
                drop(cleared.and_then(Result::ok).map(|ack| chat.undo(ack.last)));
            });
        });
        for _ in 0..100 {
            chat.call().unwrap();
            std::thread::sleep(Duration::from_millis(1));
        }
        done.store(true, Ordering::SeqCst);
    });
    assert!(asked.load(Ordering::SeqCst) > 1);
    verifies(&store);
}

#[test]
fn what_a_command_leaves_behind_ends_when_nobody_waits_for_it() {
    let folder = std::env::temp_dir().join(format!("ctxlog-left-behind-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (script, alive) = (folder.join("summarise.sh"), folder.join("ended"));
    let text = format!("#!/bin/sh\nyes\necho ended > '{}'\n", alive.display());
    // The one that is killed is the shell; what it runs is what writes for ever.
    let text = text
        .replace("yes\necho", "(yes; echo")
        .replace("'\n", "') &\nwait\n");
    std::fs::write(&script, text).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).unwrap();
    let one =
        CommandSummarizer::new(script.display().to_string()).timeout(Duration::from_millis(300));
    let chat = chat_of(&Store::in_memory().with_summarizer(one), "a");
    rounds(&chat, 3);
    let call = chat.call().unwrap();
    assert!(
        call.failures[0].contains("took longer"),
        "{:?}",
        call.failures
    );
    let ended = (0..500).any(|_| {
        std::thread::sleep(Duration::from_millis(20));
        alive.exists()
    });
    assert!(ended, "it goes on writing");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_long_span_is_asked_about_in_many_pieces_at_the_cost_of_its_length() {
    let one = Teller {
        window: Some(2_000),
        ..teller(|_| Ok(Summary::new("short")))
    };
    let chat = chat_of(&Store::in_memory().with_summarizer(one), "a");
    chat.append(Message::person("Where is it? ".repeat(80_000)))
        .unwrap();
    rounds(&chat, 2);
    let started = Instant::now();
    let call = chat.call().unwrap();
    println!("{:?}", started.elapsed());
    let entry = chat.entry(call.visits[0]).unwrap();
    let visit = entry.body.visit().unwrap();
    assert_eq!(visit.outcome, VisitOutcome::Done);
    assert!(visit.attempts.len() > 500);
    assert!(started.elapsed() < Duration::from_secs(60));
}

/// The quadratic way took minutes.
#[test]
fn a_message_that_names_very_many_others_costs_its_length() {
    let chat = Store::in_memory().conversation("a").unwrap();
    let returning = parse("expire:after=2,unit=entry,return=true").unwrap();
    let chat = chat.with_strategies(vec![returning]).unwrap();
    rounds(&chat, 4);
    assert!(!chat.visit().unwrap().is_empty());
    let ids: Vec<String> = (1_000_000..1_200_000).map(|n| format!("m{n}")).collect();
    let started = Instant::now();
    chat.append(Message::person(ids.join(" "))).unwrap();
    assert!(started.elapsed() < Duration::from_secs(20));
}
