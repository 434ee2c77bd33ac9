//! Logs and entries written once and read from then on: what is stored may not change unnoticed.
//!
//! Written again only together with a new format version (or where a log is added), by
//! `CTXLOG_GOLDEN=write cargo test --test laws golden`.

#![allow(
    clippy::too_many_lines,
    reason = "lists of values, one after the other"
)]

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use ctxlog::audit::{export, import_lines, verify};
use ctxlog::engine::{Conversation, Options, Seeded, Store};
use ctxlog::formats::{Step, Transcript};
use ctxlog::log::entry::{self, Sealed};
use ctxlog::log::*;
use ctxlog::strategy::parse;

use ctxlog::testkit::result;

const HEADS: [(&str, &str); 2] = [
    (
        "recorded",
        "99b1020dcf780e737ff1e195b392d1f7f863d2d74ea3620ade30da7e51d8a586",
    ),
    (
        "imported",
        "b97fd683cb2f2cc7d1251ced85e93185959f92e1d888a9bde0277184ab7f8c23",
    ),
];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/golden")
        .join(name)
}

fn store() -> Store {
    Store::in_memory().with_environment(Arc::new(Seeded::new(7, Micros(1_700_000_000_000_000))))
}

/// A live conversation: every door's provenance, a blob, a closed call, a late result, a refusal, an
/// eviction, a restore, an undo, a failure, a note.
fn recorded() -> Conversation {
    let chat = store()
        .with_door(Door::CommandLine, "ada")
        .conversation("golden/recorded")
        .unwrap();
    let chain = [
        "sliding-window:keep=2",
        "token-budget:limit=30,low=0.5,keep=1",
    ];
    let chat = chat
        .with_strategies(chain.iter().map(|s| parse(s).unwrap()).collect())
        .unwrap();
    chat.set_request(
        "openai-chat",
        Some("gpt-4o"),
        &Json("{\"temperature\":0.5,\"n\":1e2}".into()),
    )
    .unwrap();
    let known = |provenance| Options {
        provenance: Some(provenance),
        key: Some("k-1".into()),
        at: Some(Micros(-1)),
        ..Options::default()
    };
    chat.append_with(
        Message::system("You are a support agent."),
        &known(Provenance::Inferred),
    )
    .unwrap();
    chat.append(Message::person("Wo ist Bestellung 4411? 🙂"))
        .unwrap();
    chat.append(Message::calls(vec![
        Part::text("Let me look."),
        Part::call("c", "orders", "{\"id\":4411}"),
        Part::call("c", "orders", "{ }"),
    ]))
    .unwrap();
    let waiting = Message::new(
        Role::Tool,
        Author::Tool,
        vec![result(Some("c"), "orders", true, "pending")],
    );
    chat.append(waiting).unwrap();
    let first = chat.call().unwrap();
    let usage = Usage {
        input: Some(90),
        output: Some(7),
        cache_read: Some(1),
        cache_write: None,
    };
    chat.report(
        first.id,
        Some(usage),
        None,
        Some(&Json("{\"id\":\"r\"}".into())),
    )
    .unwrap();
    chat.append(Message::tool("c", &"x".repeat(65_536)))
        .unwrap();
    chat.append(Message::model("It is on its way.")).unwrap();
    chat.append_with(
        Message::person("When?"),
        &Options {
            provenance: Some(Provenance::Simulated),
            ..Options::default()
        },
    )
    .unwrap();
    let second = chat.call().unwrap();
    chat.report(second.id, None, Some("overloaded"), None)
        .unwrap();
    chat.append(Message::model("Tomorrow.")).unwrap();
    chat.append(Message::person("Thanks")).unwrap();
    chat.call().unwrap();
    let gone = chat
        .with_projection(|p| p.messages().iter().find(|m| !m.visible()).map(|m| m.id))
        .unwrap()
        .unwrap();
    let back = chat.restore(gone).unwrap();
    chat.undo(back.last).unwrap();
    chat.note("checked", Some(&Json("[true,null]".into())))
        .unwrap();
    chat.note("bare", None).unwrap();
    chat
}

/// An import: settings, a claim, cleared results, what the source rewound, notes with a warning.
fn imported() -> Conversation {
    let said = |message: Message| Step::Message {
        message,
        at: Some(Micros(5)),
        link: Default::default(),
    };
    let steps = vec![
        Step::Configured {
            model: Some("claude".into()),
            settings: vec![("max_tokens".into(), Json("9".into()))],
        },
        said(Message::system("S")),
        said(Message::person("U")),
        Step::Called {
            model: None,
            at: None,
        },
        said(Message::calls(vec![Part::call("t1", "read", "{}")])),
        Step::Returned {
            usage: Some(Usage::default()),
            failure: None,
            rest: vec![("stop".into(), Json("\"tool_use\"".into()))],
            at: None,
        },
        said(Message::tool("t1", "a long text")),
        Step::Cleared {
            calls: vec!["t1".into()],
            marker: "[cleared]".into(),
            at: Some(Micros(6)),
        },
        said(Message::tool("t1", "again")),
        Step::Called {
            model: None,
            at: None,
        },
        said(Message::model("done")),
        Step::Noted {
            what: "progress".into(),
            place: "f:9".into(),
            content: Some(Json("{}".into())),
            at: None,
            warn: true,
        },
        Step::Compacted {
            summary: Message::new(Role::User, Author::Application, vec![Part::text("summary")]),
            rest: vec![("trigger".into(), Json("\"auto\"".into()))],
            at: None,
        },
        said(Message::person("V")),
        Step::Rewound {
            gone: vec![6],
            at: None,
        },
        Step::Called {
            model: None,
            at: None,
        },
    ];
    let transcript = Transcript {
        format: "claude-code",
        id: None,
        steps,
        ..Transcript::default()
    };
    let store = store();
    store
        .import("golden/imported", &transcript, Vec::new(), &mut |_| {})
        .unwrap();
    let chat = store.existing("golden/imported").unwrap();
    let claim = chat
        .with_projection(|p| {
            p.messages()
                .iter()
                .find(|m| m.stands_for.is_some())
                .map(|m| m.id.seq())
        })
        .unwrap()
        .unwrap();
    chat.undo(claim).unwrap();
    let cleared = chat
        .with_projection(|p| {
            p.messages()
                .iter()
                .find_map(|m| m.forms.get(1))
                .map(|f| f.given)
        })
        .unwrap()
        .unwrap();
    chat.undo(cleared).unwrap();
    chat
}

fn sealed(chat: &Conversation) -> Vec<Sealed> {
    let mut out = Vec::new();
    let head = chat.head().unwrap().unwrap().seq;
    chat.store()
        .entries(chat.id(), Seq(0), head, &mut |s| {
            out.push(s);
            ControlFlow::Continue(())
        })
        .unwrap();
    out
}

fn lines(chat: &Conversation) -> String {
    let mut out = Vec::new();
    export(chat, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// What an import needs of an export; the readable members beside it may change.
fn kept(text: &str) -> Vec<serde_json::Value> {
    let line = |l: &str| -> serde_json::Value { serde_json::from_str(l).unwrap() };
    let pick = |v: serde_json::Value| serde_json::json!([v["stored"], v["payloads"], v["blobs"]]);
    text.lines().map(line).map(pick).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let byte = |i: usize| u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
    (0..text.len() / 2).map(byte).collect()
}

/// One entry of every kind with every member filled, also those that nothing writes yet.
fn bodies() -> Vec<Entry> {
    let some = |n: u8| Commitment {
        digest: Hash([n; 32]),
        bytes: u64::from(n),
    };
    let count = Count {
        method: "tiktoken:o200k_base".into(),
        amount: 12,
    };
    let reading = |amount| Reading {
        unit: Unit::Token,
        method: "reported+tiktoken:o200k_base".into(),
        amount,
    };
    let ranges = |a, b| Ranges(vec![(Seq(a), Seq(b)), (Seq(b + 2), Seq(b + 2))]);
    let skeleton = Skeleton {
        role: Role::Assistant,
        author: Author::Strategy,
        parts: vec![PartSkeleton {
            kind: PartKind::Result,
            bytes: 3,
            flags: 63,
            name: Some("t".into()),
            label: Some("c".into()),
            answers: Some((Seq(4), 1)),
        }],
        utf16: 5,
        by_script: 6,
        tokens: Some(count.clone()),
    };
    let stand_in = |kind, n| StandIn {
        kind,
        reason: LeftReason::Summarized,
        sources: ranges(1, 3),
        skeleton: skeleton.clone(),
        content: some(n),
    };
    let change = Change {
        left: vec![
            Left {
                reason: LeftReason::OverBudget,
                messages: ranges(5, 9),
            },
            Left {
                reason: LeftReason::Opener,
                messages: ranges(10, 11),
            },
        ],
        stand_ins: vec![
            stand_in(StandInKind::Form, 1),
            stand_in(StandInKind::Claim, 2),
            stand_in(StandInKind::Notice, 3),
        ],
        entered: ranges(20, 21),
        reverted: vec![(Seq(7), Seq(3))],
        pinned: ranges(30, 31),
        unpinned: ranges(40, 41),
        undoes: Some(Seq(2)),
    };
    let opened = Opened {
        namespace: vec!["default".into(), "team".into()],
        name: "nämé".into(),
        identity: Identity::Session,
        fork: Some(ForkPoint {
            parent: ConversationId([9; 16]),
            at: Seq(8),
        }),
        started_by: Some((ConversationId([8; 16]), Seq(3), 2)),
        secret: some(4),
    };
    let settings = Settings {
        model: Some("m".into()),
        format: "anthropic".into(),
        content: some(5),
        overhead: Some(count),
    };
    let configured = Configured {
        strategies: Some(vec!["sliding-window:keep=1,unit=group".into()]),
        settings: Some(settings),
        open_calls: Some(OpenCalls::Keep),
        limits: vec![("bytes".into(), 6)],
        consolidation: Some("never".into()),
    };
    let appended = Appended {
        skeleton,
        continues: Some(Seq(2)),
        same_source: Some(Seq(3)),
        produced_by: Some(Seq(1)),
        content: some(6),
    };
    let body = RenderedBody {
        profile: "anthropic".into(),
        renderer: 3,
        digest: Hash([7; 32]),
    };
    let called = Called {
        window: Hash([1; 32]),
        messages: 4,
        settings: Hash([2; 32]),
        model: None,
        body: Some(body),
    };
    let returned = Returned {
        call: Seq(5),
        failed: true,
        usage: Some(Usage {
            input: Some(1),
            output: None,
            cache_read: Some(2),
            cache_write: Some(3),
        }),
        rest: Some(some(7)),
    };
    let visited = Visited {
        strategy: "token-budget:limit=1,low=0.8,keep=6,measure=auto".into(),
        position: 1,
        base: Seq(4),
        trigger: Trigger::Demand,
        before: reading(50),
        limit: 40,
        target: 32,
        after: reading(41),
        outcome: VisitOutcome::Short,
        shortfall: Some(9),
        refused: GroupReason::ALL
            .iter()
            .map(|r| Refused {
                reason: *r,
                messages: ranges(50, 51),
            })
            .collect(),
        released: ranges(60, 61),
        stood_down: ranges(62, 62),
        unchanged_since: Some(Seq(3)),
        first_changed: Some(Seq(5)),
        invalidated: Some(reading(33)),
        attempts: AttemptOutcome::ALL
            .iter()
            .map(|outcome| Attempt {
                summarizer: "s".into(),
                sources: ranges(2, 4),
                digest: Hash([10; 32]),
                prompt: Hash([11; 32]),
                model: Some("m".into()),
                usage: Some(Usage::default()),
                answered: 12,
                clipped: true,
                outcome: *outcome,
            })
            .collect(),
        change: change.clone(),
    };
    let edited = Edited {
        action: EditAction::Unpin,
        change,
        rest: Some(some(8)),
    };
    let noted = Noted {
        what: "w".into(),
        place: "f:1".into(),
        warn: true,
        content: Some(some(9)),
    };
    let all = [
        Body::Opened(opened),
        Body::Configured(configured),
        Body::Appended(appended),
        Body::Called(called),
        Body::Returned(returned),
        Body::Visited(Box::new(visited)),
        Body::Edited(edited),
        Body::Noted(noted),
        Body::Redacted(Redacted {
            asked: Some(Seq(3)),
            up_to: Some(Seq(2)),
            payloads: vec![(Seq(3), 0), (Seq(5), 1)],
        }),
        Body::Redacted(Redacted {
            asked: None,
            up_to: None,
            payloads: vec![(Seq(1 << 40), u32::MAX)],
        }),
    ];
    let mut entries: Vec<Entry> = (0..)
        .zip(all)
        .map(|(n, body)| Entry {
            conversation: ConversationId([1; 16]),
            seq: Seq(n),
            iteration: Iteration(n + 1),
            at: (n % 2 == 0).then_some(Micros(-62_135_596_800_000_000 + i64::try_from(n).unwrap())),
            prev: Hash([u8::try_from(n).unwrap(); 32]),
            provenance: Provenance::ALL[usize::try_from(n % 4).unwrap()],
            must_understand: n % 3 == 0,
            by: By {
                door: Door::ALL[usize::try_from(n % 6).unwrap()],
                principal: "é".into(),
            },
            key: (n % 2 == 1).then(|| Key {
                text: "key".into(),
                entries: 2,
            }),
            body,
        })
        .collect();
    let unknown = Body::Unknown {
        kind: 99,
        bytes: vec![0, 255, 3],
    };
    let by = By {
        door: Door::Library,
        principal: String::new(),
    };
    entries.push(Entry {
        body: unknown,
        by,
        key: None,
        ..entries[0].clone()
    });
    entries
}

#[test]
fn golden_logs_read_back_as_the_same_bytes_hashes_and_windows() {
    for (name, head) in HEADS {
        let text = std::fs::read_to_string(path(&format!("{name}.jsonl"))).unwrap();
        let raw = std::fs::read_to_string(path(&format!("{name}.hex"))).unwrap();
        let store = Store::in_memory();
        let (chat, _) =
            import_lines(&store, &mut text.lines().map(|l| Ok(l.to_owned())), None).unwrap();
        let read = sealed(&chat);
        assert_eq!(read.len(), raw.lines().count());
        for (sealed, raw) in read.iter().zip(raw.lines()) {
            let opened = entry::open(&unhex(raw)).unwrap();
            assert_eq!(&opened, sealed, "{name}");
            assert_eq!(entry::seal(opened.entry).unwrap(), *sealed, "{name}");
        }
        assert_eq!(
            chat.head().unwrap().unwrap().hash.to_string(),
            head,
            "{name}"
        );
        let verified = verify(&store, &store.list().unwrap()[0], &mut |_, _| {}).unwrap();
        assert!(verified.ok, "{name}: {:?}", verified.problems);
        let windows: Vec<String> = read
            .iter()
            .map(|s| chat.window_after(s.entry.seq).unwrap().digest.to_string())
            .collect();
        let pinned = std::fs::read_to_string(path(&format!("{name}.windows"))).unwrap();
        assert_eq!(windows, pinned.lines().collect::<Vec<_>>(), "{name}");
        assert_eq!(kept(&lines(&chat)), kept(&text), "{name}: exported again");
    }
}

#[test]
fn golden_logs_hold_every_kind_and_provenance_that_is_built() {
    let of = |name: &str| std::fs::read_to_string(path(&format!("{name}.hex"))).unwrap();
    let entries: Vec<Entry> = HEADS
        .iter()
        .flat_map(|(n, _)| {
            of(n)
                .lines()
                .map(|l| entry::open(&unhex(l)).unwrap().entry)
                .collect::<Vec<_>>()
        })
        .collect();
    for kind in [
        "opened",
        "configured",
        "appended",
        "called",
        "returned",
        "visited",
        "edited",
        "noted",
    ] {
        assert!(
            entries
                .iter()
                .any(|e| e.body.kind().is_some_and(|k| k.name() == kind)),
            "{kind}"
        );
    }
    for provenance in Provenance::ALL {
        assert!(
            entries.iter().any(|e| e.provenance == *provenance),
            "{provenance}"
        );
    }
}

#[test]
fn golden_bodies_decode_to_every_member_they_were_written_from() {
    let text = std::fs::read_to_string(path("bodies.hex")).unwrap();
    let expected = bodies();
    assert_eq!(text.lines().count(), expected.len());
    for (line, entry) in text.lines().zip(expected) {
        let opened = entry::open(&unhex(line)).unwrap();
        assert_eq!(opened.entry, entry);
        assert_eq!(hex(&entry::seal(entry).unwrap().bytes), line);
    }
}

/// What the engine writes today is what it wrote then. Counts need the tokenizer.
#[test]
#[cfg_attr(not(feature = "tiktoken"), ignore = "counts need --features tiktoken")]
fn the_engine_writes_the_golden_logs_still() {
    if std::env::var_os("CTXLOG_GOLDEN").is_some_and(|v| v == "write") {
        write_again();
    }
    for (name, chat) in [("recorded", recorded()), ("imported", imported())] {
        let text = std::fs::read_to_string(path(&format!("{name}.jsonl"))).unwrap();
        assert_eq!(kept(&lines(&chat)), kept(&text), "{name}");
    }
}

#[cfg(feature = "tiktoken")]
fn write_again() {
    let encoded: Vec<String> = bodies()
        .into_iter()
        .map(|e| hex(&entry::seal(e).unwrap().bytes))
        .collect();
    std::fs::write(path("bodies.hex"), encoded.join("\n") + "\n").unwrap();
    for (name, chat) in [("recorded", recorded()), ("imported", imported())] {
        let sealed = sealed(&chat);
        let raw: Vec<String> = sealed.iter().map(|s| hex(&s.bytes)).collect();
        let windows: Vec<String> = sealed
            .iter()
            .map(|s| chat.window_after(s.entry.seq).unwrap().digest.to_string())
            .collect();
        std::fs::write(path(&format!("{name}.jsonl")), lines(&chat)).unwrap();
        std::fs::write(path(&format!("{name}.hex")), raw.join("\n") + "\n").unwrap();
        std::fs::write(path(&format!("{name}.windows")), windows.join("\n") + "\n").unwrap();
        println!("{name}: {}", chat.head().unwrap().unwrap().hash);
    }
}
