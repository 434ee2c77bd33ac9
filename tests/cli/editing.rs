//! Edits from a shell: replacing, clearing.

use serde_json::Value;

use super::shapes::Window;
use super::support::Place;

fn four() -> Place {
    let place = Place::new();
    for text in ["one", "two", "three", "four"] {
        let said = ["append", "-c", "a", "--role", "assistant", "--text", text];
        place.run(&said).done();
    }
    place
}

fn shown(place: &Place) -> Vec<String> {
    let window: Window = place.run(&["window", "--json"]).done().json();
    window.messages.into_iter().map(|m| m.id).collect()
}

#[test]
fn a_range_is_replaced_from_a_shell_and_put_back() {
    let place = four();
    let done = place
        .feed(&["replace", "0..-1", "--json"], "so far\n")
        .done();
    let done: Value = done.json();
    assert_eq!(done["schema"], "ctxlog.replace/1");
    assert_eq!(
        (&done["message"], &done["of"]),
        (&"m5".into(), &serde_json::json!(["m1", "m2", "m3"]))
    );
    assert_eq!(done["request"]["asked"]["end"], -1);
    assert_eq!(shown(&place), ["m5", "m4"]);
    let show = place.run(&["show", "s:5"]).done().out;
    assert!(
        show.contains("asked") && show.contains("resolved"),
        "{show}"
    );
    let text = place.run(&["window", "--format", "text"]).done().out;
    assert!(text.contains("so far") && !text.contains("one"), "{text}");
    let why = place.run(&["why", "m2"]).done().out;
    assert!(why.contains("replaced"), "{why}");
    place.run(&["restore", "s:5"]).done();
    assert_eq!(shown(&place), ["m1", "m2", "m3", "m4"]);
    place.run(&["verify"]).done();
}

#[test]
fn every_form_of_a_range_is_read() {
    for (range, gone) in [
        ("-1", vec!["m4"]),
        ("-3..-1", vec!["m2", "m3"]),
        ("2..", vec!["m3", "m4"]),
        ("..2", vec!["m1", "m2"]),
        ("1", vec!["m2"]),
    ] {
        let place = four();
        let done = place
            .run(&["replace", range, "--text", "x", "--json"])
            .done();
        let done: Value = done.json();
        assert_eq!(done["of"], serde_json::json!(gone), "{range}");
    }
}

#[test]
fn what_cannot_be_replaced_is_refused_by_name() {
    let place = four();
    for (arguments, exit, code) in [
        (
            &["replace", "0..9", "--text", "x"][..],
            1,
            "range-out-of-bounds",
        ),
        (&["replace", "3..1", "--text", "x"], 2, "range-inverted"),
        (&["replace", "0..0", "--text", "x"], 1, "nothing-matches"),
        (&["replace", "all", "--text", "x"], 2, "invalid-selector"),
        (
            &["replace", "0..2", "--tag", "smell", "--text", "x"],
            2,
            "invalid-option",
        ),
        (&["replace", "0..2"], 4, "empty-message"),
        (
            &["replace", "0..2", "--in-place", "--text", "x"],
            2,
            "invalid-option",
        ),
        (
            &["replace", "--asked", "s:1", "--text", "x"],
            1,
            "nothing-matches",
        ),
        (
            &["replace", "--asked", "m1", "--text", "x"],
            2,
            "invalid-selector",
        ),
        (&["clear", "s:1"], 2, "invalid-selector"),
        (&["clear", "m9"], 1, "nothing-matches"),
    ] {
        place.run(arguments).failed(exit, code);
    }
    assert_eq!(shown(&place).len(), 4);
}

#[test]
fn the_words_may_come_later_and_name_what_was_asked() {
    let place = four();
    let ask = place.run(&["replace", "0..2", "--ask"]).done().out;
    assert!(
        ask.contains("means m1 m2") && ask.contains("replace --asked s:5"),
        "{ask}"
    );
    place
        .run(&["append", "--text", "an ordinary question"])
        .done();
    place.feed(&["replace", "--asked", "s:5"], "both").done();
    assert_eq!(shown(&place), ["m7", "m3", "m4", "m6"]);
}

#[test]
fn the_window_is_cleared_and_brought_back() {
    let place = Place::furnished();
    let before = shown(&place);
    let told = place.run(&["clear", &before[2]]).done().out;
    assert!(
        told.contains("cleared") && told.contains("undo with"),
        "{told}"
    );
    let done: Value = place.run(&["clear", "--json"]).done().json();
    assert_eq!(done["schema"], "ctxlog.clear/1");
    assert_eq!(shown(&place), before[..2], "the envelope and the request");
    place.run(&["clear"]).failed(1, "nothing-matches");
    place
        .run(&["restore", &format!("s:{}", done["seq"])])
        .done();
    assert!(shown(&place).len() > 2);
    place.run(&["verify"]).done();
}

#[test]
fn what_left_is_recalled_and_what_is_stood_for_is_quoted() {
    let place = Place::furnished();
    let back: Value = place.run(&["recall", "m5", "--json"]).done().json();
    assert_eq!(
        (&back["schema"], &back["how"]),
        (&"ctxlog.recall/1".into(), &"restored".into())
    );
    assert_eq!(back["messages"], serde_json::json!(["m5", "m6"]));
    let unknown = place.run(&["recall", "m0"]);
    assert_eq!(unknown.code, 1, "{}", unknown.out);
    place.run(&["recall", "s:1"]).failed(2, "invalid-selector");
    let place = four();
    place.run(&["replace", "0..2", "--text", "both"]).done();
    let told = place.run(&["recall", "m5"]).done().out;
    assert!(told.contains("m1 m2 quoted by m6"), "{told}");
    let text = place.run(&["window", "--format", "text"]).done().out;
    assert!(
        text.contains("both") && text.contains("\"words\":\"one\""),
        "{text}"
    );
    place.run(&["verify"]).done();
}
