//! Importing, importing again, and importing what has grown, changed or was cut off.

use std::sync::Arc;

use ctxlog::audit::verify;
use ctxlog::engine::{Error, Imported, Store};
use ctxlog::formats::input::pieces;
use ctxlog::formats::{Link, Step, Transcript, UNFINISHED, anthropic, claude_code, openai_chat};
use ctxlog::log::{Json, Message, Part, RequestReason, Seq, Usage};
use ctxlog::store::Level;
use ctxlog::strategy::{SlidingWindow, Strategy, TokenBudget};
use ctxlog::window::{Measure, NoReading};

type Read = fn(&[u8]) -> Vec<Transcript>;

fn openai(text: &[u8]) -> Vec<Transcript> {
    openai_chat::read(pieces(text, "f", 1 << 20).map(Result::unwrap))
}

fn anthropic(text: &[u8]) -> Vec<Transcript> {
    anthropic::read(pieces(text, "f", 1 << 20).map(Result::unwrap))
}

fn claude(text: &[u8]) -> Vec<Transcript> {
    claude_code::read(text, "f", 1 << 20).unwrap()
}

fn import(store: &Store, transcript: &Transcript) -> Result<Imported, Error> {
    store.import("a", transcript, Vec::new(), &mut |_| {})
}

fn replay(
    store: &Store,
    transcript: &Transcript,
    chain: Vec<Arc<dyn Strategy>>,
) -> Result<Imported, Error> {
    store.import("a", transcript, chain, &mut |_| {})
}

fn refusal<T: std::fmt::Debug>(result: Result<T, Error>) -> RequestReason {
    let error = result.expect_err("a refusal");
    error.refusal().unwrap_or_else(|| panic!("{error}")).reason
}

/// Imports every transcript of a file under the name its place and id give it.
fn import_all(store: &Store, transcripts: &[Transcript]) -> Vec<Imported> {
    let named = transcripts.iter().enumerate();
    named
        .map(|(n, t)| {
            // Notes that no session stands for yet have a log of their own.
            let name = t.id.clone().unwrap_or_else(|| format!("file-{n}"));
            let imported = store.import(&name, t, Vec::new(), &mut |_| {});
            imported.unwrap_or_else(|e| panic!("{name}: {e}"))
        })
        .collect()
}

/// The words and notes of every log of a store that holds messages, by name.
fn shown(store: &Store) -> Vec<(String, Vec<Message>, Vec<String>)> {
    let mut out = Vec::new();
    for listed in store.list().unwrap() {
        let name = listed.name.name.clone();
        let chat = store.by_id(listed).unwrap();
        let window = chat.window().unwrap();
        let items = chat.load(window).unwrap().items;
        let messages: Vec<Message> = items.into_iter().map(|i| i.message).collect();
        let mut kinds = Vec::new();
        let head = chat.head().unwrap().unwrap().seq;
        for seq in 0..=head.0 {
            kinds.push(format!("{:?}", chat.entry(Seq(seq)).unwrap().body.kind()));
        }
        if !messages.is_empty() {
            out.push((name, messages, kinds));
        }
    }
    out.sort_by(|a, b| a.0.cmp(&b.0));
    out
}

/// Every beginning of a file imports, and the whole file then continues it.
fn continues_after_every_cut(text: &str, read: Read) {
    let whole = read(text.as_bytes());
    let at_once = Store::in_memory();
    import_all(&at_once, &whole);
    let expected = shown(&at_once);
    assert!(!expected.is_empty());
    for end in 0..=text.len() {
        let store = Store::in_memory();
        import_all(&store, &read(&text.as_bytes()[..end]));
        import_all(&store, &whole);
        assert_eq!(shown(&store), expected, "cut at {end}");
        assert!(import_all(&store, &whole).iter().all(|i| i.added == 0));
    }
}

const OPENAI_LINES: &str = concat!(
    r#"{"id":"r1","request":{"model":"m","messages":[{"role":"user","content":"häi"}]},"response":{"model":"m","choices":[{"message":{"role":"assistant","content":"yes"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}}"#,
    "\n",
    r#"{"id":"broken","request":{"messages":[1,"#,
    "\n",
    r#"{"id":"r2","messages":[{"role":"user","content":"b"},{"role":"assistant","content":"c"}]}"#,
    "\noops\n12\n",
    r#"{"id":"r3","traj":[{"role":"user","content":"d"}]}"#,
    "\n"
);

#[test]
fn every_beginning_of_recorded_calls_is_continued_by_the_whole() {
    continues_after_every_cut(OPENAI_LINES, openai);
}

#[test]
fn every_beginning_of_bare_messages_is_continued_by_the_whole() {
    let lines = [
        r#"{"role":"user","content":"a"}"#,
        r#"{"role":"assistant","content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"t","arguments":"{}"}}]}"#,
        r#"{"role":"tool","tool_call_id":"c","content":"cut off he"#,
        r#"{"role":"tool","tool_call_id":"c","content":"r"}"#,
        r#"{"role":"user","content":["#,
        r#"{"role":"assistant","content":"é"}"#,
    ];
    continues_after_every_cut(&lines.join("\n"), openai);
}

#[test]
fn every_beginning_of_anthropic_messages_is_continued_by_the_whole() {
    let lines = [
        r#"{"role":"user","content":"a"}"#,
        r#"{"role":"assistant","content":[{"type":"tool_use","id":"c","name":"t","input":{}}]}"#,
        "{\"role\":\"user\",\"content\":[\n  {\"type\":\"text\",\"text\":\"over two lines\"}]}",
        r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"},{"type":"text","text":"and?"}]}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"é"}]}"#,
    ];
    continues_after_every_cut(&lines.join("\n"), anthropic);
}

fn session_line(kind: &str, uuid: &str, parent: &str, message: &str) -> String {
    let parent = match parent {
        "" => "null".to_owned(),
        other => format!("\"{other}\""),
    };
    format!(
        r#"{{"type":"{kind}","uuid":"{uuid}","parentUuid":{parent},"sessionId":"s","message":{message}}}"#
    )
}

fn session() -> Vec<String> {
    let words = |text: &str| format!(r#"{{"role":"user","content":"{text}"}}"#);
    let answer = |id: &str, block: &str| {
        format!(
            r#"{{"id":"{id}","role":"assistant","model":"claude","content":[{block}],"usage":{{"input_tokens":1,"output_tokens":2}}}}"#
        )
    };
    vec![
        r#"{"type":"queue","x":"é"}"#.to_owned(),
        session_line("user", "u", "", &words("a")),
        session_line(
            "assistant",
            "v",
            "u",
            &answer("m1", r#"{"type":"tool_use","id":"c","name":"t","input":{}}"#),
        ),
        session_line(
            "user",
            "w",
            "v",
            r#"{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"r"}]}"#,
        ),
        "{\"type\":\"user\",\"uuid\":\"cut".to_owned(),
        r#"{"type":"system","subtype":"microcompact_boundary","uuid":"b","parentUuid":"w","sessionId":"s","microcompactMetadata":{"compactedToolIds":["c"]}}"#
            .to_owned(),
        session_line(
            "assistant",
            "x",
            "w",
            &answer("m2", r#"{"type":"text","text":"done"}"#),
        ),
        session_line("user", "y", "u", &words("another way")),
    ]
}

#[test]
fn every_beginning_of_a_session_is_continued_by_the_whole() {
    let lines = session();
    continues_after_every_cut(&lines[1..].join("\n"), claude);
    // A session's name is not known before its first line: notes before it have a log of their own.
    continues_after_every_cut(&lines.join("\n"), claude);
}

#[test]
fn an_unfinished_record_is_told_and_not_filed() {
    let store = Store::in_memory();
    let text = "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"assi";
    let imported = import(&store, &openai(text.as_bytes())[0]).unwrap();
    assert_eq!(imported.notes, 0);
    let told: Vec<_> = imported.warnings.iter().map(|w| &w.place).collect();
    assert_eq!(told, ["f:2"]);
    let what = &imported.warnings[0].what;
    assert!(what.starts_with(UNFINISHED) && what.ends_with("import again when it is complete"));
    let chat = store.existing("a").unwrap();
    let head = chat.head().unwrap().unwrap().seq;
    for seq in 0..=head.0 {
        let kind = chat.entry(Seq(seq)).unwrap().body.kind().unwrap();
        assert_ne!(kind, ctxlog::log::Kind::Noted);
    }
    // The file as it was once longer is there already: a shorter copy adds and refuses nothing.
    let whole =
        "{\"role\":\"user\",\"content\":\"a\"}\n{\"role\":\"assistant\",\"content\":\"b\"}\n";
    import(&store, &openai(whole.as_bytes())[0]).unwrap();
    let again = import(&store, &openai(text.as_bytes())[0]).unwrap();
    assert_eq!((again.added, again.messages), (0, 2));
}

#[test]
fn a_cut_off_array_or_object_is_continued_by_the_whole() {
    let array = "[\n  {\"role\": \"user\", \"content\": \"a\"},\n  {\"role\": \"user\", \"content\": \"b\"}\n]\n";
    let object = "{\n  \"id\": \"x\",\n  \"messages\": [\n    {\"role\": \"user\", \"content\": \"a\"}\n  ]\n}\n";
    continues_after_every_cut(array, openai);
    continues_after_every_cut(object, openai);
}

/// A transcript with one step of every kind.
fn every_kind() -> Transcript {
    let text = |text: &str| Json(format!("\"{text}\""));
    let message = |message: Message| Step::Message {
        message,
        at: None,
        link: Link::None,
    };
    let steps = vec![
        Step::Configured {
            model: Some("m".into()),
            settings: vec![("model".into(), text("m"))],
        },
        message(Message::system("s")),
        message(Message::person("a")),
        Step::Called {
            model: Some("m".into()),
            at: None,
        },
        message(Message::calls(vec![Part::call("c", "t", "{}")])),
        Step::Returned {
            usage: Some(Usage {
                input: Some(5),
                ..Usage::default()
            }),
            failure: None,
            rest: vec![("id".into(), text("r"))],
            at: None,
        },
        message(Message::tool("c", "out")),
        Step::Cleared {
            calls: vec!["c".into()],
            marker: "[gone]".into(),
            at: None,
        },
        message(Message::person("b")),
        Step::Rewound {
            gone: vec![4],
            at: None,
        },
        message(Message::person("d")),
        Step::Compacted {
            summary: Message::person("sum"),
            rest: vec![("why".into(), text("full"))],
            at: None,
        },
        Step::Noted {
            what: "n".into(),
            place: "f:1".into(),
            content: Some(text("note")),
            at: None,
            warn: false,
        },
        message(Message::person("e")),
    ];
    Transcript {
        format: openai_chat::FORMAT,
        id: None,
        steps,
        ..Transcript::default()
    }
}

/// What changes, the number of the step, how.
type Difference = (&'static str, usize, fn(&mut Step));

/// What can change in a step beside its kind, by the number of the step.
const CHANGES: &[Difference] = &[
    ("settings", 0, |s| {
        if let Step::Configured { settings, .. } = s {
            settings.push(("temperature".into(), Json("1".into())));
        }
    }),
    ("message", 2, |s| {
        if let Step::Message { message, .. } = s {
            *message = Message::person("A");
        }
    }),
    ("called model", 3, |s| {
        if let Step::Called { model, .. } = s {
            *model = Some("other".into());
        }
    }),
    ("usage", 5, |s| {
        if let Step::Returned { usage, .. } = s {
            *usage = None;
        }
    }),
    ("failure", 5, |s| {
        if let Step::Returned { failure, .. } = s {
            *failure = Some("other".into());
        }
    }),
    ("rest of the answer", 5, |s| {
        if let Step::Returned { rest, .. } = s {
            rest.clear();
        }
    }),
    ("cleared calls", 7, |s| {
        if let Step::Cleared { calls, .. } = s {
            calls.clear();
        }
    }),
    ("marker", 7, |s| {
        if let Step::Cleared { marker, .. } = s {
            *marker = "[other]".into();
        }
    }),
    ("rewound", 9, |s| {
        if let Step::Rewound { gone, .. } = s {
            gone.push(1);
        }
    }),
    ("summary", 11, |s| {
        if let Step::Compacted { summary, .. } = s {
            *summary = Message::person("other");
        }
    }),
    ("rest of the compaction", 11, |s| {
        if let Step::Compacted { rest, .. } = s {
            rest.clear();
        }
    }),
    ("note", 12, |s| {
        if let Step::Noted { content, .. } = s {
            *content = Some(Json("1".into()));
        }
    }),
];

/// The transcript with one step changed, in every way a step can change.
fn changed() -> Vec<(&'static str, Transcript)> {
    let mut out = Vec::new();
    for (what, at, change) in CHANGES {
        let mut transcript = every_kind();
        change(&mut transcript.steps[*at]);
        assert_ne!(transcript, every_kind(), "{what}");
        out.push((*what, transcript));
    }
    for at in 1..every_kind().steps.len() {
        let mut transcript = every_kind();
        transcript.steps[at - 1] = transcript.steps[at].clone();
        out.push(("the kind of a step", transcript));
    }
    out
}

#[test]
fn a_step_that_changed_in_the_source_is_told() {
    for chain in [false, true] {
        let chain = || -> Vec<Arc<dyn Strategy>> {
            if chain {
                vec![Arc::new(SlidingWindow::new(8))]
            } else {
                Vec::new()
            }
        };
        let store = Store::in_memory();
        let first = replay(&store, &every_kind(), chain()).unwrap();
        assert!(first.added > 12);
        assert_eq!(replay(&store, &every_kind(), chain()).unwrap().added, 0);
        for (what, transcript) in changed() {
            let reason = refusal(replay(&store, &transcript, chain()));
            assert_eq!(reason, RequestReason::SourceDiverged, "{what}");
        }
        let head = store.existing("a").unwrap().head().unwrap();
        assert_eq!(head, first.head, "a refused import writes nothing");
    }
}

#[test]
fn a_longer_source_continues_and_a_shorter_one_adds_nothing() {
    let whole = every_kind();
    for cut in 0..=whole.steps.len() {
        let mut part = whole.clone();
        part.steps.truncate(cut);
        let store = Store::in_memory();
        import(&store, &part).unwrap();
        let all = import(&store, &whole).unwrap();
        let at_once = import(&Store::in_memory(), &whole).unwrap();
        assert_eq!(
            (all.messages, all.entries),
            (at_once.messages, at_once.entries)
        );
        assert_eq!(import(&store, &part).unwrap().added, 0);
    }
}

#[test]
fn strategies_of_an_import_are_its_own_for_good() {
    let store = Store::in_memory();
    let chain = |n| -> Vec<Arc<dyn Strategy>> { vec![Arc::new(SlidingWindow::new(n))] };
    replay(&store, &every_kind(), chain(2)).unwrap();
    assert_eq!(import(&store, &every_kind()).unwrap().added, 0);
    let conflict = RequestReason::PolicyConflict;
    assert_eq!(refusal(replay(&store, &every_kind(), chain(3))), conflict);
    let mut more = chain(2);
    more.push(Arc::new(TokenBudget::new(100)));
    assert_eq!(refusal(replay(&store, &every_kind(), more)), conflict);

    let plain = Store::in_memory();
    let head = import(&plain, &every_kind()).unwrap().head;
    assert_eq!(refusal(replay(&plain, &every_kind(), chain(2))), conflict);
    assert_eq!(plain.existing("a").unwrap().head().unwrap(), head);
}

#[test]
fn a_replayed_log_grows_as_its_source_does() {
    let mut part = every_kind();
    part.steps.truncate(6);
    let chain = || -> Vec<Arc<dyn Strategy>> { vec![Arc::new(SlidingWindow::new(2))] };
    let store = Store::in_memory();
    replay(&store, &part, chain()).unwrap();
    let grown = import(&store, &every_kind()).unwrap();
    let at_once = replay(&Store::in_memory(), &every_kind(), chain()).unwrap();
    assert_eq!(
        (grown.entries, grown.visits, grown.evicted),
        (at_once.entries, at_once.visits, at_once.evicted)
    );
}

#[test]
fn a_log_that_went_on_by_hand_still_follows_its_source() {
    let mut part = every_kind();
    part.steps.truncate(7);
    let store = Store::in_memory();
    import(&store, &part).unwrap();
    let chat = store.existing("a").unwrap();
    chat.append(Message::person("by hand")).unwrap();
    let chat = chat.with_strategy(SlidingWindow::new(4)).unwrap();
    chat.call().unwrap();
    let grown = import(&store, &every_kind()).unwrap();
    assert!(grown.added > 0);
    assert_eq!(import(&store, &every_kind()).unwrap().added, 0);
    let summaries = chat.with_projection(|p| p.visits().len()).unwrap();
    let applied = chat.window().unwrap().items.len();
    assert!(
        applied <= 3,
        "the source's compaction was not applied: {applied}, {summaries}"
    );
    let listed = store.list().unwrap().remove(0);
    let report = verify(&store, &listed, &mut |_, _| {}).unwrap();
    assert_eq!(report.problems, Vec::<String>::new());
}

#[test]
fn what_was_redacted_is_not_compared() {
    let store = Store::in_memory();
    let head = import(&store, &every_kind()).unwrap().head.unwrap();
    let chat = store.existing("a").unwrap();
    for seq in 1..=head.seq.0 {
        let count = chat.entry(Seq(seq)).unwrap().body.commitments().len();
        for index in 0..u32::try_from(count).unwrap() {
            store
                .backend()
                .destroy_payload(chat.id(), Seq(seq), index, Level::Buffered)
                .unwrap();
        }
    }
    assert_eq!(import(&store, &every_kind()).unwrap().added, 0);
    for (what, transcript) in changed() {
        let shown_by_skeleton = ["usage", "failure", "called model", "the kind of a step"];
        if !shown_by_skeleton.contains(&what) {
            assert_eq!(import(&store, &transcript).unwrap().added, 0, "{what}");
        }
    }
}

/// What a provider reported is of the source's window. Once a strategy let something leave, it says
/// nothing about the simulated one.
#[test]
fn usage_of_the_source_serves_only_windows_that_are_the_sources() {
    let says = |message| Step::Message {
        message,
        at: None,
        link: Link::None,
    };
    let usage = |input| Step::Returned {
        usage: Some(Usage {
            input: Some(input),
            ..Usage::default()
        }),
        failure: None,
        rest: Vec::new(),
        at: None,
    };
    let called = || Step::Called {
        model: None,
        at: None,
    };
    let mut steps = Vec::new();
    for round in 0..6 {
        // By the estimate each message is 20 tokens.
        steps.push(says(Message::person("and ".repeat(20))));
        steps.extend([called(), usage(1_000 * (round + 1))]);
        steps.push(says(Message::model("so. ".repeat(20))));
    }
    let transcript = Transcript {
        format: "openai-chat",
        id: None,
        steps,
        ..Transcript::default()
    };
    let reading = |limit| {
        let cuts = TokenBudget::new(limit).low_thousandths(200).keep(1);
        let chain: Vec<Arc<dyn Strategy>> = vec![Arc::new(cuts.measure(Measure::Estimate))];
        let store = Store::in_memory();
        replay(&store, &transcript, chain).unwrap();
        let chat = store.existing("a").unwrap();
        let tokens = chat
            .with_projection(|p| p.tokens(Measure::Reported))
            .unwrap();
        tokens.map(|t| t.total)
    };
    assert!(reading(100_000).is_ok_and(|total| total > 6_000));
    // The fourth call is the first that is sent less than the source's window; the later ones find
    // what was sent before them unchanged.
    assert_eq!(reading(100), Err(NoReading::Stale));
}
