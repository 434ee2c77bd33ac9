//! What the laws of bodies are asked of: recorded files, whatever their format, and parts of windows.

use ctxlog::formats::lint::lint;
use ctxlog::formats::{Format, Item, Link, Profile, Rendered, Step, Transcript, render};
use ctxlog::log::{Fields, Seq};
use serde_json::Value;

use super::common::Log;
use super::counts::every;
use super::files::{data, folders};

/// Every recorded record of a profile's own format, with what was read from it.
pub fn each(profile: Profile, mut check: impl FnMut(&Value, &Transcript, &str)) {
    let format = Format::from_name(profile.name()).unwrap();
    let is_own = |record: &Value| record.get("format").is_none_or(|f| f == profile.name());
    let mut checked = 0;
    for folder in [profile.name(), "rejected-requests"] {
        for file in data(folder).into_iter().flatten() {
            let place = file.display().to_string();
            let text = std::fs::read_to_string(&file).unwrap();
            let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
            let records: Vec<Value> = lines.collect();
            if !records.iter().any(is_own) {
                continue;
            }
            let transcripts = format.read(&mut text.as_bytes(), "f", 1 << 30).unwrap();
            assert_eq!(records.len(), transcripts.len(), "{place}");
            for (n, (record, transcript)) in records.iter().zip(&transcripts).enumerate() {
                if is_own(record) {
                    check(record, transcript, &format!("{place}#{n}"));
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 20 || folders().is_none(), "{checked}");
}

/// The list of messages of a body.
pub fn list(body: &Value) -> Vec<Value> {
    let fields = ["messages", "input", "contents"];
    let list = fields.iter().find_map(|field| body.get(field));
    match list {
        Some(Value::Array(list)) => list.clone(),
        Some(one) => vec![one.clone()],
        None => panic!("{body} has no messages"),
    }
}

pub fn hard(profile: Profile, body: &Value) -> Vec<String> {
    let problems = lint(profile, body).into_iter().filter(|p| p.hard);
    problems
        .map(|p| format!("{} at {:?}: {}", p.rule, p.index, p.message))
        .collect()
}

pub fn draw(
    profile: Profile,
    items: &[Item<'_>],
    settings: &Fields,
    format: &str,
    as_is: bool,
) -> (Rendered, Value) {
    let rendered = render(profile, items, settings, format, None, as_is);
    let body: Value = serde_json::from_str(&rendered.body)
        .unwrap_or_else(|error| panic!("{error}: {}", rendered.body));
    let written = list(&body).len();
    assert_eq!(rendered.places.len(), written, "a place for each message");
    (rendered, body)
}

/// Draws a window of a profile's own format.
pub fn own(profile: Profile, log: &Log, as_is: bool) -> (Rendered, Value) {
    draw(profile, &log.items(), &vec![], profile.name(), as_is)
}

pub fn is_legal(profile: Profile, items: &[Item<'_>], format: &str, what: &str) {
    let (rendered, body) = draw(profile, items, &vec![], format, false);
    let problems = hard(profile, &body);
    assert!(
        problems.is_empty(),
        "{what}, {profile:?}: {problems:?}\n{:?}\n{body:#}",
        rendered.repairs
    );
    let seqs: Vec<_> = items.iter().map(|item| item.seq).collect();
    // What says that the window is empty is of no message.
    let known = |seq: &Seq| seqs.contains(seq) || *seq == Seq(0);
    assert!(rendered.places.iter().all(known), "{what}");
}

/// The messages of a transcript, with what its source put in the place of others.
fn with_summaries(transcript: &Transcript) -> Log {
    let (mut log, mut numbers) = (Log::default(), Vec::new());
    for step in &transcript.steps {
        match step {
            Step::Message { message, link, .. } => {
                let link = match *link {
                    Link::None => Link::None,
                    Link::Continues(n) => Link::Continues(numbers[n]),
                    Link::SameSource(n) => Link::SameSource(numbers[n]),
                };
                numbers.push(log.messages.len());
                log.push(message.clone(), link);
            }
            Step::Compacted { summary, .. } => log.push(summary.clone(), Link::None),
            _ => {}
        }
    }
    log
}

/// Some of the items, by a number that says which.
pub fn some_of<'a>(items: &[Item<'a>], seed: u64) -> Vec<Item<'a>> {
    let mut state = seed;
    let mut next = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        state >> 61
    };
    items.iter().filter(|_| next() > 2).copied().collect()
}

/// Profiles whose windows are asked here; Gemini and Bedrock are asked more, each by itself.
const WRITTEN: [Profile; 4] = [
    Profile::OpenAiResponses,
    Profile::Mistral,
    Profile::LangChain,
    Profile::VercelUi,
];

#[test]
fn every_recorded_window_and_parts_of_it_render_legally() {
    let mut windows = 0;
    every(|format, (n, transcript), place| {
        let log = with_summaries(transcript);
        let items = log.items();
        for profile in WRITTEN {
            let what = format!("{place}#{n}");
            is_legal(profile, &items, format.name(), &what);
            for seed in 0..3 {
                let some = some_of(&items, seed + n as u64);
                is_legal(profile, &some, format.name(), &format!("{what} {seed}"));
            }
            windows += 1;
        }
    });
    assert!(windows > 500 || folders().is_none(), "{windows}");
}
