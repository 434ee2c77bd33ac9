//! `diff`, `context`, `grep`, `bisect`, `window --long` and `status --all`.

use std::fmt::Write as _;

use super::shapes::{Bisected, Blame, Context, Diff, Hit, Totals};
use super::support::Place;

/// `chat` with a person's edit of a tool output, an eviction, and something that came back.
fn edited() -> Place {
    let place = Place::furnished();
    let words = "the tool said that order 4411 waits in the depot";
    place
        .run(&["replace", "3", "--in-place", "--text", words])
        .done();
    place.run(&["pin", "m9"]).done();
    place.run(&["restore", "m5"]).done();
    place
        .run(&["append", "--text", "Order 4411 is late."])
        .done();
    place.run(&["call"]).done();
    place
}

#[test]
fn diff_names_the_entry_behind_each_change() {
    let place = edited();
    let d: Diff = place.run(&["diff", "it:3", "it:4", "--json"]).done().json();
    assert_eq!((d.schema.as_str(), d.same), ("ctxlog.diff/1", false));
    assert_eq!((d.from.call, d.to.call), (Some(3), Some(4)));
    assert_eq!(d.left.len(), 1);
    let gone = &d.left[0];
    assert_eq!(gone.messages, [5, 6]);
    assert_eq!(
        (
            gone.by.kind.as_str(),
            gone.by.reason.as_deref(),
            gone.by.iteration
        ),
        ("evict", Some("beyond-keep"), 4)
    );
    assert_eq!(
        gone.by.strategy.as_deref(),
        Some("sliding-window:keep=2,unit=group")
    );
    let came: Vec<u64> = d.entered.iter().flat_map(|c| c.messages.clone()).collect();
    assert!(
        d.entered.iter().all(|c| c.by.kind == "append") && came.len() == 2,
        "{came:?}"
    );
    assert_eq!((d.cache.prefix.messages, d.cache.again.messages), (2, 2));
    assert_eq!(d.words.map(|w| w.len()), None);
    // The other way round, and to itself.
    let back: Diff = place.run(&["diff", "it:4", "it:3", "--json"]).done().json();
    assert_eq!(back.entered[0].messages, [5, 6]);
    assert_eq!(back.entered[0].by, gone.by);
    let none: Diff = place.run(&["diff", "@", "@", "--json"]).done().json();
    assert!(none.same && none.left.is_empty() && none.tokens == Some(0));
    let out = place.run(&["diff", "it:3", "it:4"]).done().out;
    assert!(out.contains("- m5..m6     2 messages"), "{out}");
    assert!(out.contains("evict beyond-keep sliding-window"), "{out}");
    let out = place.run(&["diff", "it:4", "it:3"]).done().out;
    assert!(
        out.contains("the second window is the earlier one"),
        "{out}"
    );
}

#[test]
fn diff_shows_a_new_content_and_what_came_back() {
    let place = edited();
    let run = place
        .run(&["diff", "it:4", "@", "--words", "--json"])
        .done();
    let d: Diff = run.json();
    assert_eq!(d.formed.len(), 1);
    let formed = &d.formed[0];
    assert_eq!((formed.message, formed.form.0), (9, 9));
    assert_eq!(
        (
            formed.by.kind.as_str(),
            formed.by.reason.as_deref(),
            formed.by.by.as_str()
        ),
        ("replace", Some("replaced"), "cli")
    );
    assert!(formed.tokens.1 > formed.tokens.0);
    let back = d.entered.iter().find(|c| c.messages == [5, 6]).unwrap();
    assert_eq!(back.by.kind, "restore");
    let words = d.words.unwrap();
    let marks: Vec<(&str, &str)> = words[0]
        .words
        .iter()
        .map(|w| (w.mark.as_str(), w.text.as_str()))
        .collect();
    assert_eq!(marks[0], ("gone", "done"));
    let out = place.run(&["diff", "it:4", "@", "--words"]).done().out;
    assert!(
        out.contains("[-done-]{+the tool said that order 4411 waits in the depot+}"),
        "{out}"
    );
    let coloured = place
        .run(&["diff", "it:4", "@", "--words", "--color", "always"])
        .done()
        .out;
    assert!(
        coloured.contains("\u{1b}[1m\u{1b}[31m[-done-]"),
        "{coloured:?}"
    );
}

#[test]
fn diff_is_no_question_unless_asked_to_be_one() {
    let place = edited();
    place.run(&["diff", "it:3", "it:4"]).done();
    assert_eq!(place.run(&["diff", "it:3", "it:4", "--exit-code"]).code, 1);
    place.run(&["diff", "it:3", "it:3", "--exit-code"]).done();
    place
        .run(&["diff", "it:9", "@", "--json"])
        .failed(1, "range-out-of-bounds");
    place
        .run(&["diff", "nonsense", "@", "--json"])
        .failed(2, "invalid-selector");
}

#[test]
fn windows_of_two_conversations_are_compared_by_name() {
    let place = edited();
    place
        .run(&["append", "-c", "other", "--text", "Hello."])
        .done();
    let d: Diff = place
        .run(&["diff", "chat@it:3", "other@", "--json"])
        .done()
        .json();
    assert_eq!(
        (d.from.conversation.as_str(), d.to.conversation.as_str()),
        ("chat", "other")
    );
    // They share nothing, though both hold an m1.
    assert!(d.stayed.is_empty() && d.left.iter().any(|g| g.messages.contains(&1)));
    assert!(d.entered.iter().any(|c| c.messages.contains(&1)));
    let back = place.run(&["diff", "chat@-3", "chat@", "--json"]).done();
    let back: Diff = back.json();
    assert!(!back.stayed.is_empty());
    place
        .run(&["diff", "nobody@", "other@", "--json"])
        .failed(1, "nothing-matches");
    let out = place.run(&["diff", "chat@it:3", "other@"]).done().out;
    assert!(out.starts_with("window chat@it:3 -> other@s:1"), "{out}");
    assert!(out.contains("= nothing is in both"), "{out}");
}

#[test]
fn a_context_is_what_the_call_was_sent_and_what_it_was_not() {
    let place = edited();
    let asked: Context = place.run(&["context", "m12", "--json"]).done().json();
    assert_eq!(
        (asked.schema.as_str(), asked.message.as_str()),
        ("ctxlog.context/1", "m12")
    );
    let (call, window) = (asked.call.unwrap(), asked.window.unwrap());
    assert_eq!(asked.produced_by, Some(call));
    assert_eq!(
        window.recorded_digest.as_deref(),
        Some(window.digest.as_str())
    );
    assert_eq!(asked.looked_from, 0);
    // A person's message: the first call that saw it, which no longer saw what had left.
    let newest: Context = place.run(&["context", "m2", "--json"]).done().json();
    assert!(newest.produced_by.is_none() && newest.call.unwrap().iteration == 1);
    let out = place.run(&["context", "m2"]).done().out;
    assert!(
        out.starts_with("no call produced m2; the first that saw it is it:1"),
        "{out}"
    );
    assert!(out.contains("nothing had left"), "{out}");
    place.run(&["append", "--text", "And now?"]).done();
    let head: serde_json::Value = place.run(&["ls", "--json"]).done().json();
    let unseen = format!("m{}", head["head"]["seq"]);
    let run = place.run(&["context", &unseen]);
    assert_eq!(
        (run.code, run.out.contains("none saw it so far")),
        (1, true)
    );
    let never: Context = place.run(&["context", &unseen, "--json"]).json();
    assert!(never.window.is_none() && never.missing.is_empty());
    place
        .run(&["context", "m4", "--json"])
        .failed(1, "nothing-matches");
    place
        .run(&["context", "m99", "--json"])
        .failed(1, "nothing-matches");
}

#[test]
fn a_context_groups_what_was_missing_by_the_entry_that_took_it() {
    let place = Place::furnished();
    place
        .feed(&["append"], &super::support::calling("more"))
        .done();
    let ls: serde_json::Value = place.run(&["ls", "--json"]).done().json();
    let id = format!("m{}", ls["head"]["seq"]);
    let asked: Context = place.run(&["context", &id, "--json"]).done().json();
    assert_eq!(asked.call.unwrap().iteration, 4);
    assert_eq!(asked.missing.len(), 1);
    assert_eq!(asked.missing[0].messages, [5, 6]);
    assert_eq!(asked.missing[0].by.reason.as_deref(), Some("beyond-keep"));
    let out = place.run(&["context", &id]).done().out;
    assert!(
        out.starts_with(&format!("{id} was written by call it:4")),
        "{out}"
    );
    assert!(
        out.contains("no longer saw 2 messages\n  m5..m6  2 messages  it:4"),
        "{out}"
    );
}

#[test]
fn grep_tells_which_calls_could_see_a_text() {
    let place = edited();
    let hits: Vec<Hit> = place.run(&["grep", "find", "--json"]).done().lines();
    assert_eq!(hits.len(), 1);
    let hit = &hits[0];
    assert_eq!((hit.message.as_str(), hit.author.as_str()), ("m5", "model"));
    let seen: Vec<(u64, u64)> = hit.seen.iter().map(|s| (s.first, s.last)).collect();
    assert_eq!(seen, [(2, 3), (5, 5)]);
    assert_eq!(
        (hit.calls, hit.first_without, hit.visible),
        (3, Some(4), true)
    );
    let ended = hit.seen[0].ended.as_ref().unwrap();
    assert_eq!(ended.reason.as_deref(), Some("beyond-keep"));
    // A content that was replaced holds it no more; one that replaced holds it since.
    let hits: Vec<Hit> = place.run(&["grep", "depot", "--json"]).done().lines();
    assert_eq!((hits[0].message.as_str(), hits[0].seen[0].first), ("m9", 5));
    assert!(hits[0].forms[0] > 9);
    let hits: Vec<Hit> = place.run(&["grep", "done", "--json"]).done().lines();
    let m9 = hits.iter().find(|h| h.message == "m9").unwrap();
    assert_eq!(
        (m9.seen[0].last, m9.first_without, m9.visible),
        (4, Some(5), false)
    );
    assert_eq!(m9.seen[0].ended.as_ref().unwrap().kind, "replace");
    let out = place.run(&["grep", "find"]).done().out;
    for words in [
        "m5 model",
        "seen   it:2..3  2 calls  left it:4",
        "it:4 answered without it",
    ] {
        assert!(out.contains(words), "{words}\n{out}");
    }
}

#[test]
fn grep_takes_texts_expressions_and_authors() {
    let place = edited();
    let found = |arguments: &[&str]| -> Vec<String> {
        let run = place.run(&[["grep", "--json"].as_slice(), arguments].concat());
        let hits: Vec<Hit> = run.lines();
        assert_eq!(run.code, i32::from(hits.is_empty()), "{}", run.err);
        hits.into_iter().map(|h| h.message).collect()
    };
    assert_eq!(found(&["ORDER 4411"]), Vec::<String>::new());
    assert_eq!(found(&["-i", "ORDER 4411"]).len(), 3);
    assert_eq!(found(&["-i", "order 4411", "--in", "person"]).len(), 2);
    assert_eq!(found(&["order 4411", "--in", "tool"]), ["m9"]);
    assert_eq!(found(&["-E", r"order \d{4} waits"]), ["m9"]);
    assert_eq!(found(&["-F", r"\d{4}"]), Vec::<String>::new());
    assert_eq!(found(&["is late.", "--in", "user"]).len(), 1);
    place
        .run(&["grep", "-E", "(", "--json"])
        .failed(2, "invalid-option");
    place
        .run(&["grep", "", "--json"])
        .failed(2, "invalid-option");
    place
        .run(&["grep", "x", "--in", "nobody", "--json"])
        .failed(2, "invalid-option");
    let none = place.run(&["grep", "zebra"]);
    assert_eq!(none.code, 1);
    assert!(none.out.contains("0 messages of"), "{}", none.out);
}

#[cfg(unix)]
#[test]
fn bisect_finds_the_first_call_that_fails() {
    let place = edited();
    let sees_find = [
        "bisect", "--json", "--good", "it:2", "--bad", "it:4", "--", "grep", "-q", "find",
    ];
    let done: Bisected = place.run(&sees_find).done().json();
    assert_eq!((done.good, done.first_bad), (3, Some(4)));
    assert_eq!(done.runs.len(), 1);
    assert_eq!(done.changes.unwrap().left[0].messages, [5, 6]);
    // The window is that of `window --format`, its call in the environment.
    let said = place
        .run(&["bisect", "--", "sh", "-c", "test $CTXLOG_ITERATION -lt 3"])
        .done();
    assert!(said.out.contains("first bad: it:3"), "{}", said.out);
    assert!(said.out.starts_with("it:5 bad\n"), "{}", said.out);
    let body = [
        "bisect",
        "--format",
        "openai-chat",
        "--",
        "sh",
        "-c",
        "! grep -q '\"name\":\"track\"'",
    ];
    assert!(place.run(&body).done().out.contains("first bad: it:3"));
    let first: Bisected = place
        .run(&["bisect", "--json", "--", "false"])
        .done()
        .json();
    assert_eq!((first.good, first.first_bad), (0, Some(1)));
    assert!(
        first.changes.is_none(),
        "there was no window before the first call"
    );
}

#[cfg(unix)]
#[test]
fn bisect_says_what_it_cannot_tell() {
    let place = edited();
    let passes = place.run(&["bisect", "--json", "--", "true"]);
    assert_eq!(passes.code, 1);
    let passes: Bisected = passes.json();
    assert_eq!((passes.bad, passes.first_bad), (None, None));
    let test = "case $CTXLOG_ITERATION in 5) exit 1;; 1) exit 0;; *) exit 125;; esac";
    let skipped = place.run(&["bisect", "--json", "--", "sh", "-c", test]);
    assert_eq!(skipped.code, 1);
    let skipped: Bisected = skipped.json();
    assert_eq!(
        (skipped.first_bad, skipped.candidates),
        (None, vec![2, 3, 4, 5])
    );
    assert!(
        skipped
            .runs
            .iter()
            .any(|r| r.verdict == "skip" && r.exit == 125)
    );
    place
        .run(&["bisect", "--json", "--", "./is-not-there"])
        .failed(2, "io");
    place
        .run(&["bisect", "--json", "--", "sh", "-c", "exit 130"])
        .failed(2, "test-aborted");
    place
        .run(&["bisect", "--json", "--", "sh", "-c", "kill -9 $$"])
        .failed(2, "test-aborted");
    place
        .run(&[
            "bisect", "--json", "--good", "it:4", "--bad", "it:2", "--", "true",
        ])
        .failed(2, "range-inverted");
    place
        .run(&["bisect", "--json", "--bad", "s:0", "--", "true"])
        .failed(1, "range-out-of-bounds");
    place.run(&["append", "-c", "empty", "--text", "hi"]).done();
    place
        .run(&["bisect", "-c", "empty", "--json", "--", "true"])
        .failed(1, "nothing-matches");
}

#[cfg(unix)]
#[test]
fn a_test_that_reads_nothing_or_leaves_someone_behind_does_not_block() {
    let place = Place::new();
    let long = "words and more words ".repeat(40_000);
    place
        .feed(
            &["append", "-c", "chat"],
            &serde_json::json!({ "role": "user", "content": long }).to_string(),
        )
        .done();
    place.run(&["call"]).done();
    let said = place
        .run(&["bisect", "--json", "--", "sh", "-c", "exit 1"])
        .done();
    assert_eq!(said.json::<Bisected>().first_bad, Some(1));
    // Someone holds the pipe and does not read it; what a test says does not mix with the answer.
    let holds = "sleep 20 <&0 >/dev/null 2>&1 & echo noise; exit 1";
    let began = std::time::Instant::now();
    let said = place
        .run(&["bisect", "--json", "--", "sh", "-c", holds])
        .done();
    assert_eq!(said.json::<Bisected>().first_bad, Some(1));
    assert!(said.err.contains("noise"));
    assert!(began.elapsed().as_secs() < 15);
}

#[test]
fn a_long_window_names_who_put_each_message_there_and_what_it_was_before() {
    let place = edited();
    let json = place.run(&["window", "--long", "--json"]).done();
    let mut json: serde_json::Value = json.json();
    let long: Vec<Blame> = serde_json::from_value(json["long"].take()).unwrap();
    assert_eq!(long.len(), json["messages"].as_array().unwrap().len());
    let m5 = long.iter().find(|b| b.message == 5).unwrap();
    assert_eq!(
        (m5.entered.kind.as_str(), m5.form.is_none()),
        ("restore", true)
    );
    let m9 = long.iter().find(|b| b.message == 9).unwrap();
    assert_eq!(m9.entered.kind, "append");
    assert_eq!(m9.form.as_ref().unwrap().kind, "replace");
    assert_eq!(m9.before.as_ref().unwrap().messages, 1);
    let out = place.run(&["window", "--long"]).done().out;
    assert!(out.contains("content  it:5"), "{out}");
    assert!(out.contains("replace replaced cli  1 -> "), "{out}");
    let plain: serde_json::Value = place.run(&["window", "--json"]).done().json();
    assert!(plain.get("long").is_none(), "only where it was asked for");
}

#[test]
fn a_status_of_all_sums_up() {
    let place = edited();
    let mut json: serde_json::Value = place.run(&["status", "--all", "--json"]).done().json();
    let t: Totals = serde_json::from_value(json["totals"].take()).unwrap();
    assert_eq!(t.sent.len(), 5);
    assert_eq!(t.peak.map(|p| p.0), t.sent.iter().max().copied());
    assert_eq!(
        (t.evicted.messages, t.restored, t.replaced.forms),
        (2, 2, 1)
    );
    assert!(t.replaced.after > t.replaced.before && t.always == 2);
    assert!(t.stored.entry_bytes > 0 && t.stored.payload_bytes > 0);
    let out = place.run(&["status", "--all"]).done().out;
    for words in [
        "tokens       a call: median",
        "left         evicted 2 messages",
        "replaced     1 new content",
        "2 messages came back",
        "bytes ",
    ] {
        assert!(out.contains(words), "{words}\n{out}");
    }
}

#[test]
fn the_tokens_of_a_call_are_those_of_its_window() {
    let place = Place::new();
    place.run(&["demo"]).done();
    let mut json: serde_json::Value = place.run(&["status", "--all", "--json"]).done().json();
    let t: Totals = serde_json::from_value(json["totals"].take()).unwrap();
    assert_eq!(t.sent.len(), 38);
    for n in [1, 5, 6, 7, 34, 38] {
        let at = format!("it:{n}");
        let shown = place.run(&["window", "--at", &at, "--json"]).done();
        let size = shown.json::<super::shapes::Window>().size.tokens;
        assert_eq!((size.amount, &size.method), (t.sent[n - 1], &t.method));
    }
}

/// Hashes are of salted words and differ from run to run.
fn without_hashes(text: &str) -> String {
    let hash = |word: &str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let masked = line.split(' ').map(|w| {
            if hash(w.trim_end()) {
                w.replace(w.trim_end(), "<hash>")
            } else {
                w.to_owned()
            }
        });
        out.push_str(&masked.collect::<Vec<_>>().join(" "));
    }
    out
}

/// What a person sees, at the widths of narrow and wide terminals, with and without colour.
#[cfg(unix)]
#[test]
fn the_questions_as_people_see_them() {
    let place = Place::new();
    place.run(&["demo"]).done();
    let edits = edited();
    for (columns, color) in [
        ("80", "never"),
        ("120", "never"),
        ("80", "always"),
        ("120", "always"),
    ] {
        let mut seen = String::new();
        let mut ask = |place: &Place, arguments: &[&str]| {
            let mut command = place.command(arguments);
            command.env("COLUMNS", columns).args(["--color", color]);
            // Options stand before what is run.
            if let Some(at) = arguments.iter().position(|a| *a == "--") {
                command = place
                    .command(&[&["--color", color], &arguments[..at], &arguments[at..]].concat());
                command.env("COLUMNS", columns);
            }
            let output = command.output().unwrap();
            let text = without_hashes(&String::from_utf8(output.stdout).unwrap());
            let _ = writeln!(seen, "$ ctxlog {}\n{text}", arguments.join(" "));
        };
        ask(&place, &["diff", "it:5", "it:9"]);
        ask(&place, &["diff", "it:9", "it:5"]);
        ask(&place, &["context", "m35"]);
        ask(&place, &["grep", "final_sale"]);
        ask(
            &place,
            &["bisect", "--", "sh", "-c", "! grep -q 'final_sale'"],
        );
        ask(&edits, &["diff", "it:4", "@", "--words"]);
        ask(&edits, &["grep", "done"]);
        ask(&edits, &["window", "--long"]);
        ask(&edits, &["context", "m12"]);
        insta::assert_snapshot!(format!("{columns}_{color}"), seen);
    }
}
