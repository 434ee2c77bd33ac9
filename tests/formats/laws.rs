//! Laws of every reader: damage costs what is damaged and nothing else, and what was read can be
//! imported, verified and imported again.

use ctxlog::audit;
use ctxlog::engine::Store;
use ctxlog::formats::{Format, PackedTranscript, Transcript};
use ctxlog::log::MessageId;
use ctxlog::strategy::parse;

use super::counts::{READ_AS, parts, read};
use super::files::{data, folders};
use super::fixtures::FIXTURES;

fn read_as(format: &str, bytes: &[u8]) -> Vec<Transcript> {
    let format = Format::from_name(format).unwrap_or_else(|| panic!("no format {format}"));
    format.read(&mut &*bytes, "f", 1 << 16).unwrap()
}

/// Imports all of a file, and again; what the store holds verifies.
fn is_imported(what: &str, transcripts: &[Transcript], specs: &[&str]) {
    let store = Store::in_memory();
    let name = |n: usize| format!("c{n}");
    let named = |id: &str| {
        let at = transcripts.iter().position(|t| t.id.as_deref() == Some(id));
        at.map(name)
    };
    for again in [false, true] {
        for (n, transcript) in transcripts.iter().enumerate() {
            let chain = specs.iter().map(|spec| parse(spec).unwrap()).collect();
            let imported = store
                .import_among(&named, &name(n), transcript.clone(), chain, &mut |_| {})
                .unwrap_or_else(|error| panic!("{what}, {n}: {error}"));
            assert!(!again || imported.added == 0, "{what}, {n}: added again");
        }
    }
    for listed in store.list().unwrap() {
        let verified = audit::verify(&store, &listed, &mut |_, _| {}).unwrap();
        assert!(verified.ok, "{what}: {verified:?}");
    }
}

/// What is read packed is what is read, and packing loses nothing of any step.
#[test]
fn packed_transcripts_hold_the_same_steps() {
    for (format, text) in FIXTURES {
        is_packed_whole(format, text.as_bytes());
    }
    for folder in folders().unwrap_or_default() {
        let name = folder.file_name().unwrap().to_str().unwrap();
        if Format::from_name(name).is_none() {
            continue;
        }
        for file in data(name).unwrap() {
            is_packed_whole(name, &std::fs::read(file).unwrap());
        }
    }
}

fn is_packed_whole(name: &str, bytes: &[u8]) {
    let format = Format::from_name(name).unwrap();
    let read = format.read(&mut &*bytes, "f", 1 << 26).unwrap();
    let packed = format.packed(&mut &*bytes, "f", 1 << 26).unwrap();
    assert_eq!(read.len(), packed.len(), "{name}");
    for (whole, packed) in read.into_iter().zip(packed) {
        assert_eq!(whole.steps.len(), packed.steps.len(), "{name}");
        assert!(
            packed.steps.iter().eq(whole.steps.iter().cloned()),
            "{name}"
        );
        assert_eq!(PackedTranscript::from(whole.clone()), packed, "{name}");
        assert_eq!(Transcript::from(packed), whole, "{name}");
    }
}

#[test]
fn every_format_has_a_fixture_that_is_read_whole() {
    for format in Format::all() {
        let name = format.name();
        let (_, text) = FIXTURES
            .iter()
            .find(|(f, _)| *f == name)
            .unwrap_or_else(|| panic!("{name}"));
        let read = read_as(name, text.as_bytes());
        assert!(read.iter().any(|t| !t.steps.is_empty()), "{name}");
        for step in read.iter().flat_map(|t| &t.steps) {
            let warns = matches!(step, ctxlog::formats::Step::Noted { warn: true, .. });
            assert!(!warns, "{name}: {step:?}");
        }
        is_imported(name, &read, &[]);
    }
}

#[test]
fn every_format_has_a_fuzz_target_that_begins_with_its_fixture() {
    let fuzz = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    for format in Format::all() {
        let name = format.name();
        let target = name.replace('-', "_");
        let source = std::fs::read_to_string(fuzz.join(format!("fuzz_targets/{target}.rs")));
        let reads = format!("ctxlog_fuzz::target!(\"{name}\");");
        assert!(source.unwrap().contains(&reads), "{name}");
        let seed = std::fs::read_to_string(fuzz.join(format!("corpus/{target}/fixture")));
        let (_, text) = FIXTURES.iter().find(|(f, _)| *f == name).unwrap();
        assert_eq!(seed.unwrap(), *text, "{name}");
    }
}

#[test]
fn a_fixture_cut_at_every_byte_gives_notes_and_the_good_part() {
    for (format, text) in FIXTURES {
        for end in 0..text.len() {
            let read = read_as(format, &text.as_bytes()[..end]);
            if end % 16 == 0 {
                is_imported(format, &read, &[]);
            }
        }
    }
}

#[test]
fn a_fixture_damaged_at_every_byte_is_read() {
    for (format, text) in FIXTURES {
        for at in 0..text.len() {
            for bad in *b"x\"{]\0\xff" {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = bad;
                let read = read_as(format, &bytes);
                if bad == b'x' {
                    is_imported(format, &read, &[]);
                }
            }
        }
    }
}

#[test]
fn every_recorded_file_is_imported_and_verifies() {
    let Some(folders) = folders() else { return };
    for folder in &folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        for file in data(name).unwrap() {
            let what = file.display().to_string();
            for (_, transcripts) in parts(&file) {
                is_imported(&what, &transcripts, &[]);
                is_imported(&what, &transcripts, &["sliding-window:keep=3"]);
            }
        }
    }
}

#[test]
fn a_sub_agent_names_the_call_that_started_it() {
    let (_, text) = FIXTURES.iter().find(|(f, _)| *f == "claude-code").unwrap();
    let read = read_as("claude-code", text.as_bytes());
    let ids: Vec<&str> = read.iter().map(|t| t.id.as_deref().unwrap()).collect();
    assert_eq!(ids, ["t", "t#q"]);
    let store = Store::in_memory();
    let named = |id: &str| Some(id.to_owned());
    for transcript in &read {
        let name = transcript.id.as_deref().unwrap();
        let imported = store.import_among(&named, name, transcript.clone(), vec![], &mut |_| {});
        imported.unwrap();
    }
    let main = store.existing("t").unwrap();
    let (by, message, part) = store
        .existing("t#q")
        .unwrap()
        .started_by()
        .unwrap()
        .unwrap();
    assert_eq!(by, main.id());
    let called =
        main.with_projection(|p| p.message(MessageId(message)).unwrap().skeleton().cloned());
    assert_eq!(
        called.unwrap().unwrap().parts[part as usize]
            .label
            .as_deref(),
        Some("c")
    );
    assert_eq!(main.started_by().unwrap(), None);
}

/// A file of lines may grow: what it holds then begins with what it held.
#[test]
fn a_file_that_grew_begins_with_the_steps_it_had() {
    let mut texts: Vec<(&str, String)> = Vec::new();
    for (format, text) in FIXTURES {
        let is_record = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        if text.lines().count() > 1 && text.lines().all(is_record) {
            texts.push((format, (*text).to_owned()));
        }
    }
    for folder in ["codex-rollout", "codex-exec-stream"] {
        for file in data(folder).into_iter().flatten() {
            let text = std::fs::read_to_string(&file).unwrap();
            texts.push((
                folder,
                text.lines()
                    .take(60)
                    .map(|line| line.to_owned() + "\n")
                    .collect(),
            ));
        }
    }
    for (format, text) in texts {
        let whole = read_as(format, text.as_bytes());
        let ends = text.match_indices('\n').map(|(at, _)| at + 1);
        for end in ends {
            for (n, part) in read_as(format, &text.as_bytes()[..end]).iter().enumerate() {
                let there = &whole[n];
                assert!(there.steps.starts_with(&part.steps), "{format} at {end}");
                assert!(
                    part.id.is_none() || part.id == there.id,
                    "{format} at {end}"
                );
            }
        }
    }
}

/// What a reader cannot pair is told: of the recorded files, only what they lack.
#[test]
fn calls_and_results_of_recorded_files_find_each_other() {
    let lacking = [
        // Tails of conversations that the provider's server holds.
        ("openai-responses/pydantic-a.jsonl", 1),
        // Examples of lines.
        ("codex-rollout/agentcmd-individual-lines.jsonl", 1),
    ];
    let folders = [
        "openai-responses",
        "mistral-chat",
        "codex-rollout",
        "codex-exec-stream",
        "agent-framework",
        "inspect-log",
        "mini-swe-traj",
        "sweagent-traj",
        "sharegpt",
    ];
    let mut found = Vec::new();
    for file in folders.iter().filter_map(|f| data(f)).flatten() {
        let (_, transcripts) = read(&file);
        let store = Store::in_memory();
        for (n, transcript) in transcripts.iter().enumerate() {
            let imported = store.import(&format!("c{n}"), transcript, Vec::new(), &mut |_| {});
            for warning in imported.unwrap().warnings {
                let known = lacking.iter().any(|(name, _)| file.ends_with(name));
                if warning.what.contains("answers the call")
                    || warning.what.contains("second result")
                {
                    found.push((known, format!("{} {n}: {}", file.display(), warning.what)));
                }
            }
        }
    }
    let lacks = found.iter().filter(|(known, _)| *known).count();
    let wrong: Vec<_> = found.iter().map(|(_, what)| what.as_str()).collect();
    let expected: usize = lacking.iter().map(|(_, n)| n).sum();
    assert!(
        found.is_empty() || (lacks == found.len() && lacks == expected),
        "{}",
        wrong.join("\n")
    );
}

/// Items and messages of formats that keep them for sending again are given back equal.
#[test]
fn what_was_read_is_given_back_equal() {
    for (folder, pointer) in [
        ("openai-responses", "/request/input"),
        ("openai-responses", "/response/output"),
        ("mistral-chat", "/request/messages"),
        ("codex-rollout", "/payload"),
    ] {
        for file in data(folder).into_iter().flatten() {
            let text = std::fs::read_to_string(&file).unwrap();
            for record in text
                .lines()
                .map(|l| serde_json::from_str::<serde_json::Value>(l).unwrap())
            {
                let items = match record.pointer(pointer) {
                    Some(serde_json::Value::Array(items)) => items.clone(),
                    Some(item) if record["type"] == "response_item" => vec![item.clone()],
                    _ => continue,
                };
                for item in items {
                    let json = ctxlog::log::Json(item.to_string());
                    let message = match folder {
                        "mistral-chat" => ctxlog::formats::mistral_chat::read_message(&json),
                        _ => ctxlog::formats::openai_responses::read_item(&json),
                    };
                    let message = message.unwrap();
                    let again = ctxlog::formats::given(&[&message]).unwrap();
                    let kept = message.source.unwrap().verbatim;
                    let again: serde_json::Value = serde_json::from_str(&again.0).unwrap();
                    assert!(again == item || kept.as_ref() == Some(&json), "{item}");
                    // The neutral form itself gives back nearly all.
                    let odd = ["tool_search_call", "tool_search_output"];
                    let odd = item["type"]
                        .as_str()
                        .is_some_and(|kind| odd.contains(&kind));
                    assert!(kept.is_none() || odd, "{item}\n{again}");
                }
            }
        }
    }
}

/// Every file is read as the format whose folder it lies in, and as no other.
#[test]
fn no_reader_claims_what_lies_in_another_folder() {
    let Some(folders) = folders() else { return };
    let mut read_so = 0;
    for folder in &folders {
        let name = folder.file_name().unwrap().to_str().unwrap();
        for file in data(name).unwrap() {
            let parts = parts(&file);
            read_so += 1;
            if parts.len() > 1 {
                continue; // each record is read as the format that it names
            }
            let (format, _) = parts[0];
            let named =
                |(of, read_as): &(&str, &str)| file.ends_with(of) && *read_as == format.name();
            let own = name.starts_with(format.name()) || READ_AS.iter().any(named);
            assert!(own, "{}: {format:?}", file.display());
        }
    }
    assert!(read_so > 100, "{read_so} files");
}
