//! What sessions lost at their own compactions, as `log`, `why` and `diff` tell it.

use super::shapes::{Diff, Entry, Imported, Why};
use super::support::Place;
use crate::data::data;

/// A person asks, goes back to before a second turn and asks again; then all is summarised.
const CODEX: &str = r#"{"timestamp":"2026-01-02T03:04:05.000Z","type":"session_meta","payload":{"id":"t","cwd":"/w"}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Find it."}]}}
{"type":"response_item","payload":{"type":"function_call","name":"ls","arguments":"{}","call_id":"c"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"a"}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"In a."}]}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Mend it."}]}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Broken."}]}}
{"type":"event_msg","payload":{"type":"thread_rolled_back","num_turns":1}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Mend it well."}]}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done."}]}}
{"type":"compacted","payload":{"message":"It was in a, and is mended."}}
{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Thank you."}]}}
{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Gladly."}]}}
"#;

/// The same as the other client writes it.
const CLAUDE_CODE: &str = r#"{"type":"user","uuid":"a","parentUuid":null,"sessionId":"t","message":{"role":"user","content":"Find it."}}
{"type":"assistant","uuid":"b","parentUuid":"a","sessionId":"t","message":{"id":"m1","role":"assistant","content":[{"type":"tool_use","id":"c","name":"ls","input":{}}]}}
{"type":"user","uuid":"c","parentUuid":"b","sessionId":"t","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"c","content":"a"}]}}
{"type":"assistant","uuid":"d","parentUuid":"c","sessionId":"t","message":{"id":"m2","role":"assistant","content":[{"type":"text","text":"In a."}]}}
{"type":"user","uuid":"e","parentUuid":"d","sessionId":"t","message":{"role":"user","content":"Mend it."}}
{"type":"assistant","uuid":"f","parentUuid":"e","sessionId":"t","message":{"id":"m3","role":"assistant","content":[{"type":"text","text":"Broken."}]}}
{"type":"user","uuid":"g","parentUuid":"d","sessionId":"t","message":{"role":"user","content":"Mend it well."}}
{"type":"assistant","uuid":"h","parentUuid":"g","sessionId":"t","message":{"id":"m4","role":"assistant","content":[{"type":"text","text":"Done."}]}}
{"type":"system","subtype":"compact_boundary","uuid":"i","parentUuid":null,"logicalParentUuid":"h","sessionId":"t"}
{"type":"user","uuid":"j","parentUuid":"i","sessionId":"t","isCompactSummary":true,"message":{"role":"user","content":"It was in a, and is mended."}}
{"type":"user","uuid":"k","parentUuid":"j","sessionId":"t","message":{"role":"user","content":"Thank you."}}
{"type":"assistant","uuid":"l","parentUuid":"k","sessionId":"t","message":{"id":"m5","role":"assistant","content":[{"type":"text","text":"Gladly."}]}}
"#;

fn log(place: &Place) -> Vec<Entry> {
    place.run(&["log", "--json"]).done().lines()
}

#[test]
fn what_a_source_took_away_is_told_as_inferred() {
    for (format, session) in [("codex-rollout", CODEX), ("claude-code", CLAUDE_CODE)] {
        let place = Place::new();
        place.write("s.jsonl", session);
        place.run(&["import", "s.jsonl", "--format", format]).done();
        let entries = log(&place);
        let edits: Vec<&Entry> = entries.iter().filter(|e| e.kind == "edited").collect();
        let outcomes: Vec<_> = edits.iter().map(|e| e.outcome.as_deref()).collect();
        assert_eq!(outcomes, [Some("evict"), Some("consolidate")], "{format}");
        assert!(edits.iter().all(|e| e.provenance == "inferred"), "{format}");
        let told = place.run(&["log"]).done().out;
        assert_eq!(told.matches("inferred: ").count(), 2, "{told}");

        let by_person = |e: &&Entry| e.body["skeleton"]["author"] == "person";
        let asked: Vec<u64> = entries.iter().filter(by_person).map(|e| e.seq).collect();
        let [first, taken_back, ..] = asked[..] else {
            panic!("{format}: {asked:?}");
        };
        for (message, edit, reason, status) in [
            (taken_back, edits[0], "cleared", "evicted"),
            (first, edits[1], "summarized", "covered"),
        ] {
            let name = format!("m{message}");
            let why: Why = place.run(&["why", &name, "--json"]).done().json();
            let left = why.lives[0].left.as_ref().unwrap();
            assert_eq!((left.seq, left.reason.as_str()), (edit.seq, reason));
            assert!(left.inferred, "{format}: {name}");
            assert_eq!(why.status, status);
            let told = place.run(&["why", &name]).done().out;
            assert!(told.contains("  inferred\n"), "{told}");

            let ends = [edit.seq - 1, edit.seq].map(|seq| format!("s:{seq}"));
            let diff: Diff = place
                .run(&["diff", &ends[0], &ends[1], "--json"])
                .done()
                .json();
            let gone = diff.left.iter().find(|g| g.messages.contains(&message));
            let by = &gone.unwrap().by;
            assert_eq!((by.seq, by.reason.as_deref()), (edit.seq, Some(reason)));
            assert!(by.inferred, "{format}: {name}");
            let told = place.run(&["diff", &ends[0], &ends[1]]).done().out;
            assert!(told.contains(" inferred\n"), "{told}");
        }
        let last = asked.last().unwrap();
        let why: Why = place
            .run(&["why", &format!("m{last}"), "--json"])
            .done()
            .json();
        assert_eq!(why.status, "visible");
    }
}

/// Of each recorded session that compacted or went back: one message that each edit took away.
#[test]
fn what_recorded_sessions_lost_is_told_as_inferred() {
    let mut asked = 0;
    for folder in ["claude-code", "codex-rollout"] {
        for file in data(folder).into_iter().flatten() {
            let place = Place::new();
            let file = file.to_str().unwrap();
            let imported = place.run(&["import", file, "--json"]);
            if imported.code != 0 {
                continue; // lines of a documentation, where they hold no conversation
            }
            for line in imported.lines::<Imported>() {
                asked += edits_asked(&place, &line.conversation);
            }
        }
    }
    assert!(asked > 0 || data("claude-code").is_none());
}

fn edits_asked(place: &Place, name: &str) -> usize {
    let entries: Vec<Entry> = place.run(&["log", "-c", name, "--json"]).done().lines();
    let mut asked = 0;
    for edit in entries.iter().filter(|e| e.kind == "edited") {
        let change = &edit.body["change"];
        let ranges = [
            &change["left"][0]["messages"],
            &change["stand_ins"][0]["sources"],
        ];
        let Some(message) = ranges.iter().find_map(|r| r[0][0].as_u64()) else {
            continue; // it took nothing away
        };
        let (message, at) = (format!("m{message}"), format!("s:{}", edit.seq));
        let why: Why = place
            .run(&["why", "-c", name, &message, "--at", &at, "--json"])
            .done()
            .json();
        let left = why.lives.last().and_then(|life| life.left.as_ref());
        let formed = why.forms.last().is_some_and(|form| form.seq == edit.seq);
        let by = left.is_some_and(|left| left.seq == edit.seq && left.inferred);
        assert!(by || formed, "{name} {message} at {at}");
        asked += 1;
    }
    asked
}
