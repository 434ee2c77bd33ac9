//! Questions about a log, and their answers for programs.

use super::shapes::{Entry, Linted, Restored, Verified, Why, Window};
use super::support::Place;

#[test]
fn a_window_is_given_with_its_recorded_digest_only_where_a_call_is_named() {
    let place = Place::furnished();
    let sent: Window = place
        .run(&["window", "--at", "it:3", "--json"])
        .done()
        .json();
    assert_eq!(
        (sent.schema.as_str(), sent.conversation.as_str()),
        ("ctxlog.window/1", "chat")
    );
    assert_eq!(sent.at.iteration, 3);
    assert_eq!(sent.recorded_digest.as_deref(), Some(sent.digest.as_str()));
    assert_eq!(sent.size.messages, 6);
    assert_eq!(
        usize::try_from(sent.size.messages).unwrap(),
        sent.messages.len()
    );
    let find = &sent.messages[2];
    assert_eq!(
        (find.id.as_str(), find.role.as_str(), find.author.as_str()),
        ("m5", "assistant", "model")
    );
    assert_eq!(
        (
            find.parts[0]["type"].as_str(),
            find.parts[0]["name"].as_str()
        ),
        (Some("call"), Some("find"))
    );
    assert_eq!((find.entered.seq, find.form, find.pinned), (5, 5, false));
    let same = format!("s:{}", sent.at.seq);
    let after: Window = place
        .run(&["window", "--at", &same, "--json"])
        .done()
        .json();
    assert_eq!(after.recorded_digest, None);
    assert_eq!(after.digest, sent.digest);
    let now: Window = place.run(&["window", "--json"]).done().json();
    assert!(now.messages.iter().all(|m| m.id != "m5"), "m5 left");
    assert!(now.size.tokens.amount > 0 && !now.size.tokens.method.is_empty());
}

#[test]
fn a_window_as_a_body_is_the_body_alone() {
    let place = Place::furnished();
    let run = place
        .run(&["window", "--at", "it:4", "--format", "openai-chat"])
        .done();
    let body: serde_json::Value = run.json();
    let roles: Vec<&str> = body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| m["role"].as_str().unwrap())
        .collect();
    assert_eq!(
        roles,
        ["system", "user", "assistant", "tool", "assistant", "tool"]
    );
    let anthropic: serde_json::Value = place
        .run(&["window", "--at", "it:4", "--format", "anthropic"])
        .done()
        .json();
    assert_eq!(anthropic["system"], "You help.");
    let same: serde_json::Value = place
        .run(&["export", "--at", "it:4", "--format", "anthropic"])
        .done()
        .json();
    assert_eq!(same, anthropic);
}

#[test]
fn repairs_are_told_on_stderr_and_as_is_makes_none() {
    let place = Place::new();
    // A call that nobody answered: both providers refuse it.
    place
        .run(&["append", "-c", "a", "--text", "Where is it?"])
        .done();
    place
        .feed(&["append"], &super::support::calling("find"))
        .done();
    place.run(&["append", "--text", "Never mind."]).done();
    let repaired = place.run(&["window", "--format", "anthropic"]).done();
    assert!(repaired.err.starts_with("repair "), "{}", repaired.err);
    let json = place
        .run(&["window", "--format", "anthropic", "--json"])
        .done();
    assert!(json.err.lines().all(|l| {
        serde_json::from_str::<serde_json::Value>(l).unwrap()["repair"]["rule"].is_string()
    }));
    assert_eq!(json.out, repaired.out);
    let as_is = place
        .run(&["window", "--format", "anthropic", "--as-is"])
        .done();
    assert_eq!(as_is.err, "");
    assert_ne!(as_is.out, repaired.out);
    let linted = place.run(&["lint", "--provider", "anthropic", "--json"]);
    assert_eq!(linted.code, 1, "{}{}", linted.out, linted.err);
    let linted: Linted = linted.json();
    assert!(!linted.ok && linted.provider == "anthropic");
    assert!(
        linted.problems.iter().any(|p| p.seq == Some(2)),
        "the message is named"
    );
    let fine: Linted = place
        .run(&["lint", "--provider", "openai-chat", "--json", "s:1"])
        .done()
        .json();
    assert!(fine.ok && fine.problems.is_empty());
}

#[test]
fn why_tells_who_saw_a_message_and_what_removed_it() {
    let place = Place::furnished();
    let why: Why = place.run(&["why", "m5", "--json"]).done().json();
    assert_eq!(
        (
            why.schema.as_str(),
            why.message.as_str(),
            why.status.as_str()
        ),
        ("ctxlog.why/1", "m5", "evicted")
    );
    assert_eq!(
        (
            why.seen_by.calls,
            why.seen_by.first_iteration,
            why.seen_by.last_iteration
        ),
        (2, Some(2), Some(3))
    );
    assert_eq!(why.missed_by.calls, 1);
    let left = why.lives[0].left.as_ref().unwrap();
    assert_eq!(
        (left.kind.as_str(), left.reason.as_str(), left.iteration),
        ("evict", "beyond-keep", 4)
    );
    assert_eq!(left.trigger.as_deref(), Some("call"));
    assert_eq!(
        why.restore.unwrap(),
        ["ctxlog", "restore", "m5", "-c", "chat"]
    );
    let then: Why = place
        .run(&["why", "m5", "--at", "it:3", "--json"])
        .done()
        .json();
    assert_eq!((then.status.as_str(), then.at.iteration), ("visible", 3));
    let before: Why = place
        .run(&["why", "m5", "--at", "it:1", "--json"])
        .done()
        .json();
    assert_eq!(before.status, "not-yet");
    let kept: Why = place.run(&["why", "m2", "--json"]).done().json();
    assert!(
        kept.refusals
            .iter()
            .any(|r| r.reason == "current-request" && r.visits > 0)
    );
}

#[test]
fn a_restored_message_is_back_and_the_restore_can_be_undone() {
    let place = Place::furnished();
    let done: Restored = place.run(&["restore", "m5", "--json"]).done().json();
    assert_eq!(done.entered, ["m5", "m6"]);
    let back: Why = place.run(&["why", "m5", "--json"]).done().json();
    assert_eq!((back.status.as_str(), back.lives.len()), ("visible", 2));
    place.run(&["restore", &format!("s:{}", done.seq)]).done();
    let gone: Why = place.run(&["why", "m5", "--json"]).done().json();
    assert_eq!(gone.status, "evicted");
    place
        .run(&["restore", "m2", "--json"])
        .failed(1, "nothing-matches");
}

#[test]
fn the_log_is_a_chain_of_dense_entries() {
    let place = Place::furnished();
    let all: Vec<Entry> = place.run(&["log", "--json"]).done().lines();
    for (n, pair) in all.windows(2).enumerate() {
        assert_eq!(pair[1].prev, pair[0].hash);
        assert_eq!(pair[1].seq, u64::try_from(n).unwrap() + 1);
    }
    assert_eq!(
        (all[0].kind.as_str(), all[0].by.door.as_str()),
        ("opened", "cli")
    );
    assert!(all.iter().any(|e| e.outcome.as_deref() == Some("evict")));
    let part: Vec<Entry> = place.run(&["log", "it:2..3", "--json"]).done().lines();
    assert!(part.iter().all(|e| (2..=3).contains(&e.iteration)) && part.len() > 4);
    let newest: Vec<Entry> = place.run(&["log", "@-1..", "--json"]).done().lines();
    assert_eq!(newest.len(), 2);
    let prefix = &all[4].hash[..12];
    let shown = place.run(&["show", prefix, "--json"]).done();
    let shown: serde_json::Value = shown.json();
    assert_eq!(
        (shown["seq"].as_u64(), shown["schema"].as_str()),
        (Some(4), Some("ctxlog.show/1"))
    );
}

#[test]
fn verify_counts_what_holds_and_says_what_it_cannot_show() {
    let place = Place::furnished();
    let v: Verified = place.run(&["verify", "--json"]).done().json();
    assert!(v.ok && v.chain == "ok" && v.first_bad.is_none() && v.problems.is_empty());
    assert_eq!((v.windows.recorded, v.windows.equal), (4, 4));
    assert_eq!((v.payloads.redacted, v.payloads.lost), (0, 0));
    assert!(v.laws.values().all(|l| l == "ok") && v.laws.contains_key("closure"));
    assert!(!v.not_covered.is_empty());
    assert_eq!(v.head.unwrap().seq + 1, v.entries);
}

#[test]
fn an_export_comes_back_with_the_same_head() {
    let place = Place::furnished();
    place.run(&["export", "-o", "log.jsonl"]).done();
    let stdout = place.run(&["export"]).done().out;
    assert_eq!(
        std::fs::read_to_string(place.path("log.jsonl")).unwrap(),
        stdout
    );
    let import = ["--store", "other", "import", "log.jsonl", "--json"];
    let line: super::shapes::Imported = place.run(&import).done().json();
    let head: Verified = place.run(&["verify", "--json"]).done().json();
    assert_eq!(Some(&line.head), head.head.as_ref());
    assert_eq!(
        (line.format.as_str(), line.conversation.as_str()),
        ("ctxlog", "chat")
    );
    let again: super::shapes::Imported = place.run(&import).done().json();
    assert_eq!(again.added, 0);
    let cut: String = stdout.replacen("\"stored\":\"Q1RYT", "\"stored\":\"Q1RYTQ", 1);
    place.write("bad.jsonl", cut);
    place
        .run(&["--store", "third", "import", "bad.jsonl", "--json"])
        .failed(3, "damaged-export");
    let mut lines: Vec<&str> = stdout.lines().collect();
    lines.remove(2);
    place.write("gap.jsonl", lines.join("\n"));
    let (message, _) = place
        .run(&["--store", "third", "import", "gap.jsonl", "--json"])
        .failed(3, "damaged-export");
    assert!(message.contains("gap.jsonl:3"), "{message}");
}

#[test]
fn listings_and_status_are_json_too() {
    let place = Place::furnished();
    for (command, schema) in [("ls", "ctxlog.ls/1"), ("status", "ctxlog.status/1")] {
        let value: serde_json::Value = place.run(&[command, "--json"]).done().json();
        assert_eq!(value["schema"], schema);
        assert_eq!(value["conversation"], "chat");
        assert_eq!(value["head"]["hash"].as_str().unwrap().len(), 64);
    }
    let bare: serde_json::Value = place.run(&["--json"]).done().json();
    assert_eq!(bare["schema"], "ctxlog.status/1", "no arguments are status");
}

#[test]
fn a_bundle_verifies_without_a_store_and_comes_back() {
    let place = Place::furnished();
    place
        .run(&["export", "--format", "bundle", "-o", "b.jsonl"])
        .done();
    let text = std::fs::read_to_string(place.path("b.jsonl")).unwrap();
    let head: Verified = place.run(&["verify", "--json"]).done().json();
    let first: serde_json::Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
    assert_eq!(first["schema"], "ctxlog.bundle/1");
    assert_eq!(first["entries"], head.entries);
    let away = [
        "--store", "nowhere", "verify", "--bundle", "b.jsonl", "--json",
    ];
    let there: Verified = place.run(&away).done().json();
    assert!(there.ok);
    assert_eq!((there.entries, there.head), (head.entries, head.head));
    assert!(!place.path("nowhere").exists());
    let import = ["--store", "other", "import", "b.jsonl", "--json"];
    let line: super::shapes::Imported = place.run(&import).done().json();
    assert_eq!(line.added, head.entries);
    // A file of several logs: a line of a bundle belongs to the log behind it.
    let log = place.run(&["export"]).done().out;
    place.write("two.jsonl", format!("{log}{text}"));
    let both: Vec<Verified> = place
        .run(&["verify", "--bundle", "two.jsonl", "--json"])
        .done()
        .lines();
    assert_eq!(both.len(), 2);
    // How many entries there should be, and who wrote the fields that are there to be read.
    assert_eq!(both[0].not_covered.len(), both[1].not_covered.len() + 2);
}

#[test]
fn a_bundle_that_is_not_whole_is_refused_by_name() {
    let place = Place::furnished();
    let text = place.run(&["export", "--format", "bundle"]).done().out;
    let lines: Vec<&str> = text.lines().collect();
    let short = lines[..lines.len() - 1].join("\n");
    let other = text.replacen("\"entries\":", "\"entries\":1", 1);
    let headless = text.replacen("\"hash\":\"", "\"hash\":\"00", 1);
    for (name, bad) in [("short", short), ("other", other), ("headless", headless)] {
        place.write("bad.jsonl", bad);
        for command in [
            &["verify", "--bundle", "bad.jsonl", "--json"][..],
            &["--store", "third", "import", "bad.jsonl", "--json"],
        ] {
            let (message, _) = place.run(command).failed(3, "damaged-export");
            assert!(message.contains("bad.jsonl:"), "{name}: {message}");
        }
    }
}

#[test]
fn a_page_says_on_stderr_what_it_leaves_out() {
    let place = Place::furnished();
    let page = ["export", "--format", "html", "-o", "chat.html"];
    let said = place.run(&page).done().err;
    assert!(said.contains("to chat.html"), "{said}");
    assert!(!said.contains("left out"), "{said}");
    let cut = [&page[..], &["--max-words", "1", "--json"]].concat();
    let said = place.run(&cut).done();
    assert!(said.err.contains("left out"), "{}", said.err);
    assert!(said.out.is_empty());
    let html = place
        .run(&["export", "--format", "html", "--no-words"])
        .done()
        .out;
    assert!(html.starts_with("<!DOCTYPE html>"));
    assert!(!html.contains("ctxlog.words/1\""));
}
