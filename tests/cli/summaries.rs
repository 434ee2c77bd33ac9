//! `summarize-oldest` with a command, in imports and in the live loop.

use ctxlog::audit;
use ctxlog::engine::Store;
use ctxlog::log::{AttemptOutcome, Body, MessageId, Seq, StandInKind};
use serde_json::Value;

use super::shapes::{Imported, Verified};
use super::support::Place;
use crate::data::folders;

/// A place with the summariser of these tests, or one that does otherwise.
fn place(script: Option<&str>) -> Place {
    let own = include_bytes!("../summarise.sh").as_slice();
    let place = Place::new();
    place.write("summarise.sh", script.map_or(own, str::as_bytes));
    let path = place.path("summarise.sh");
    let mut mode = std::fs::metadata(&path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&path, mode).unwrap();
    place
}

const SPEC: &str = "summarize-oldest:limit=8000,keep=2,command=./summarise.sh";

#[test]
fn every_recorded_transcript_is_replayed_through_a_summariser() {
    let place = place(None);
    let spec = SPEC.replace(",keep=2", "");
    let Some(folders) = folders() else { return };
    let folders: Vec<&str> = folders.iter().map(|f| f.to_str().unwrap()).collect();
    let import = ["import", "--json", "--strategy", &spec];
    let run = place.run(&[import.as_slice(), &folders].concat()).done();
    assert!(!run.lines::<Imported>().is_empty());
    let all: Vec<Verified> = place.run(&["verify", "--json"]).done().lines();
    assert!(all.len() > 1_600 && all.iter().all(|v| v.ok));
    let (mut claims, mut deepest) = (0_u64, 0);
    let store = Store::open(place.store()).unwrap();
    for listed in store.list().unwrap() {
        let chat = store.by_id(listed).unwrap();
        let head = chat.head().unwrap().unwrap().seq;
        let covering = chat.with_projection(|p| {
            let covered = p.messages().iter().filter_map(|m| {
                let stand_in = m.absent().filter(|_| !m.visible())?.stand_in?;
                p.message(stand_in)?.stands_for?;
                Some((m.id, stand_in))
            });
            let deep = p.messages().iter().map(|m| p.generation(m.id)).max();
            (covered.collect::<Vec<_>>(), deep.unwrap_or(0))
        });
        let (covering, deep) = covering.unwrap();
        deepest = deepest.max(deep);
        for (id, claim) in covering {
            claims += 1;
            let why = audit::why(&chat, id, head).unwrap();
            assert_eq!(
                (why.status, why.stands_for_it),
                ("covered", Some(claim.seq()))
            );
        }
    }
    assert!(
        claims > 1_000 && deepest > 1,
        "{claims} covered, {deepest} deep"
    );
}

fn filled(place: &Place) {
    for n in 0..6 {
        let question = format!("Question {n}: {}", "where is order 4411? ".repeat(90));
        for (role, text) in [("user", question.as_str()), ("assistant", "On its way.")] {
            let append = ["append", "-c", "chat", "--role", role, "--text", text];
            place.run(&append).done();
        }
    }
    place
        .run(&[
            "append", "-c", "chat", "--role", "user", "--text", "And now?",
        ])
        .done();
}

#[test]
fn a_summary_is_made_shown_explained_and_undone() {
    let place = place(None);
    filled(&place);
    let spec = SPEC.replace("8000", "400");
    let call = place
        .run(&["call", "-c", "chat", "--strategy", &spec, "--json"])
        .done();
    assert!(
        call.out.contains("made at iteration 1 (generation 1)"),
        "{}",
        call.out
    );
    let log = place.run(&["log", "-c", "chat", "--json"]).done();
    let lines: Vec<Value> = log.lines();
    let visit = lines
        .iter()
        .find(|l| l["outcome"] == "consolidate")
        .unwrap();
    let body = &visit["body"];
    assert_eq!(body["attempts"][0]["outcome"], "ok");
    assert_eq!(body["attempts"][0]["summarizer"], "./summarise.sh");
    assert!(
        body["strategy"]
            .as_str()
            .unwrap()
            .contains("command=./summarise.sh")
    );
    let entry = format!("s:{}", visit["seq"]);
    let shown = place.run(&["show", &entry, "-c", "chat"]).done().out;
    for words in [
        "asked",
        "generation 1",
        "stands for",
        "made of messages alone",
        "--- original m2",
        "Question 0: where is order 4411?",
    ] {
        assert!(shown.contains(words), "{words}: {shown}");
    }
    let json: Value = place
        .run(&["show", &entry, "-c", "chat", "--json"])
        .done()
        .json();
    assert_eq!(
        (&json["generation"], &json["originals"][0]["id"]),
        (&1.into(), &"m1".into())
    );
    let why = place.run(&["why", "m2", "-c", "chat"]).done().out;
    let claim = format!("m{} stands for it: \"[summary of", visit["seq"]);
    assert!(why.contains(&claim), "{why}");
    let text = place.run(&["log", "-c", "chat"]).done().out;
    assert!(text.contains("consolidate"), "{text}");
    let status = place.run(&["status", "-c", "chat", "--all"]).done().out;
    assert!(status.contains("1 question, 1 answered"), "{status}");
    place.run(&["restore", &entry, "-c", "chat"]).done();
    let why = place.run(&["why", "m2", "-c", "chat"]).done().out;
    assert!(why.contains("visible"), "{why}");
    let verified: Verified = place.run(&["verify", "--json"]).done().json();
    assert!(verified.ok);
}

/// A log may have been written by anybody: a command that it names is not run.
#[test]
fn a_command_is_run_only_where_this_command_line_names_it() {
    let place = place(Some("#!/bin/sh\ntouch ran\necho fine\n"));
    filled(&place);
    let spec = SPEC.replace("8000", "90000");
    place
        .run(&["call", "-c", "chat", "--strategy", &spec])
        .done();
    for _ in 0..40 {
        let text = "quite a long message, as they go. ".repeat(300);
        for role in ["user", "assistant"] {
            let append = ["append", "-c", "chat", "--role", role, "--text", &text];
            place.run(&append).done();
        }
    }
    let call = place.run(&["call", "-c", "chat"]).done();
    assert!(!place.path("ran").exists());
    assert!(
        call.err.contains("a summary is due and nobody was asked"),
        "{}",
        call.err
    );
    place
        .run(&["call", "-c", "chat", "--strategy", &spec])
        .done();
    assert!(place.path("ran").exists());
}

/// What a command does wrong is told, and the call goes out all the same; nothing is left running.
#[test]
fn a_command_that_fails_leaves_the_window_and_says_why() {
    for (script, said) in [
        ("#!/bin/sh\necho 'no credit' >&2\nexit 3\n", "no credit"),
        (
            "#!/bin/sh\ncat > /dev/null\nexec sleep 60\n",
            "took longer than 1 s",
        ),
        ("#!/bin/sh\nprintf '\\377\\376'\n", "no UTF-8"),
        ("#!/bin/sh\nexit 0\n", "it answered nothing"),
        ("not a program", "cannot be run"),
    ] {
        let place = place(Some(script));
        filled(&place);
        let spec = format!("{},timeout=1", SPEC.replace("8000", "400"));
        let call = place
            .run(&["call", "-c", "chat", "--strategy", &spec, "--json"])
            .done();
        assert!(
            call.err.contains("no summary") && call.err.contains(said),
            "{}",
            call.err
        );
        let store = Store::open(place.store()).unwrap();
        let chat = store.existing("chat").unwrap();
        assert_eq!(chat.window().unwrap().items.len(), 13, "{said}");
        let head = chat.head().unwrap().unwrap().seq;
        let visit = chat.entry(Seq(head.0 - 1)).unwrap();
        let Body::Visited(visit) = visit.body else {
            panic!("no visit");
        };
        let ended = visit.attempts[0].outcome;
        assert!([AttemptOutcome::Failed, AttemptOutcome::Empty].contains(&ended));
        assert!(visit.change.stand_ins.is_empty());
        assert!(visit.attempts[0].sources.contains(MessageId(Seq(2))) || head.0 > 0);
    }
}

#[test]
fn one_chain_has_one_command_and_a_path_has_no_comma() {
    let place = place(None);
    filled(&place);
    let one = "summarize-oldest:limit=9,command=./a";
    let two = "summarize-oldest:limit=8,command=./b";
    let call = [
        "call",
        "-c",
        "chat",
        "--strategy",
        one,
        "--strategy",
        two,
        "--json",
    ];
    place.run(&call).failed(2, "invalid-option");
    let comma = "summarize-oldest:limit=9,command=./a,b.sh";
    let run = place.run(&["call", "-c", "chat", "--strategy", comma]);
    assert!(run.err.contains("without a comma"), "{}", run.err);
    let store = Store::open(place.store()).unwrap();
    let chat = store.existing("chat").unwrap();
    let claims = chat.entry(chat.head().unwrap().unwrap().seq).unwrap();
    let claim = claims
        .body
        .change()
        .map(|c| c.stand_ins.iter().any(|s| s.kind == StandInKind::Claim));
    assert_ne!(claim, Some(true));
}
