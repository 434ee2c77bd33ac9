//! `fork`, and what other commands tell of forks.

use serde_json::Value;

use super::support::Place;

#[test]
fn a_fork_goes_on_by_itself_and_is_listed_with_its_parent() {
    let place = Place::furnished();
    let before: Value = place.run(&["status", "--json"]).done().json();
    let run = place.run(&["fork", "it:3", "--as", "other", "--json"]);
    let forked: Value = run.done().json();
    assert_eq!(forked["schema"], "ctxlog.fork/1");
    assert_eq!(
        (&forked["conversation"], &forked["parent"]),
        (&"other".into(), &"chat".into())
    );
    assert_eq!(
        (&forked["iteration"], &forked["closed"]),
        (&3.into(), &0.into())
    );
    let at = forked["at"].as_u64().unwrap();
    assert_eq!(forked["head"]["seq"], at + 1);
    let lines: Vec<Value> = place.run(&["ls", "--json"]).done().lines();
    let told = |name: &str| {
        let line = lines.iter().find(|l| l["conversation"] == name).unwrap();
        (line["parent"].clone(), line["forked_at"].clone())
    };
    assert_eq!(told("chat"), (Value::Null, Value::Null));
    assert_eq!(told("other"), ("chat".into(), at.into()));
    let people = place.run(&["ls"]).done().out;
    assert!(
        people.contains(&format!("other (fork of chat after s:{at})")),
        "{people}"
    );
    let status = place.run(&["status", "-c", "other"]).done().out;
    assert!(
        status.contains(&format!("fork of      chat after s:{at}")),
        "{status}"
    );
    place
        .run(&["append", "-c", "other", "--text", "elsewhere"])
        .done();
    place.run(&["call", "-c", "other"]).done();
    place.run(&["verify"]).done();
    for question in [
        ["log"].as_slice(),
        &["window"],
        &["why", "m1"],
        &["show", "s:1"],
    ] {
        place.run(&[question, &["-c", "other"]].concat()).done();
    }
    let after: Value = place.run(&["status", "-c", "chat", "--json"]).done().json();
    assert_eq!(before["head"], after["head"]);
    assert_eq!(before["messages"], after["messages"]);
}

#[test]
fn people_are_told_where_a_fork_stands_and_what_comes_next() {
    let place = Place::furnished();
    let told = place
        .run(&["fork", "it:3", "--as", "keep orders"])
        .done()
        .out;
    assert!(
        told.starts_with("keep orders leaves chat after s:"),
        "{told}"
    );
    assert!(told.contains("chat stays at "), "{told}");
    assert!(
        told.contains("next: ctxlog window -c 'keep orders'"),
        "{told}"
    );
}

#[test]
fn what_cannot_be_forked_is_refused_by_name() {
    let place = Place::furnished();
    let lines: Vec<Value> = place.run(&["log", "--json"]).done().lines();
    let calls = |line: &&Value| line.to_string().contains("\"find\"");
    let call = lines.iter().find(calls).unwrap()["seq"].to_string();
    let at = format!("s:{call}");
    let fork = |more: &[&str]| place.run(&[&["fork"], more, &["--json"]].concat());
    let (_, help) = fork(&[&at, "--as", "b"]).failed(4, "fork-splits-pair");
    assert!(help.contains("--close"), "{help}");
    fork(&["s:999", "--as", "b"]).failed(1, "range-out-of-bounds");
    fork(&["it:99", "--as", "b"]).failed(1, "range-out-of-bounds");
    let closed: Value = fork(&[&at, "--as", "b", "--close"]).done().json();
    assert_eq!(closed["closed"], 1);
    let again = fork(&["@", "--as", "b", "-c", "chat"]);
    again.failed(4, "name-taken");
    place.run(&["verify"]).done();
}

#[test]
fn an_export_of_a_fork_is_taken_in_elsewhere_with_what_it_left() {
    let place = Place::furnished();
    place.run(&["fork", "it:3", "--as", "other"]).done();
    place
        .run(&["append", "-c", "other", "--text", "more"])
        .done();
    let lines = place.run(&["export", "-c", "other"]).done().out;
    let elsewhere = Place::new();
    elsewhere.feed(&["import", "-"], &lines).done();
    elsewhere.run(&["verify"]).done();
    let listed: Vec<Value> = elsewhere.run(&["ls", "--json"]).done().lines();
    let names: Vec<&Value> = listed.iter().map(|l| &l["conversation"]).collect();
    assert_eq!(names, ["chat", "other"]);
    assert_eq!(elsewhere.run(&["export", "-c", "other"]).done().out, lines);
}

/// An entry of one of two conversations is named with its conversation, and a name may hold an '@'.
#[test]
fn a_difference_between_forks_says_whose_entry_it_is() {
    let place = Place::furnished();
    place.run(&["fork", "@", "--as", "the@other"]).done();
    place.run(&["pin", "m1", "-c", "the@other"]);
    place
        .run(&[
            "append",
            "-c",
            "the@other",
            "--role",
            "user",
            "--text",
            "only here",
        ])
        .done();
    let diff = |a: &str, b: &str| place.run(&["diff", a, b]).done().out;
    let said = diff("chat@", "the@other@");
    assert!(said.contains("the@other@s:"), "{said}");
    let back = diff("the@other@-1", "chat@@");
    assert!(
        back.contains("the same messages") || back.contains("unchanged"),
        "{back}"
    );
    let json = place
        .run(&["diff", "chat@", "the@other@", "--json"])
        .done()
        .out;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["entered"][0]["by"]["conversation"], "the@other");
    let one = place
        .run(&["diff", "@-3", "@", "-c", "the@other", "--json"])
        .done()
        .out;
    assert!(
        !one.contains("\"conversation\":\"the@other\",\"seq\""),
        "{one}"
    );
}
