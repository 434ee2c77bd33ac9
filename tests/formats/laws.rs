//! Laws of every reader: damage costs what is damaged and nothing else, and what was read can be
//! imported, verified and imported again.

use ctxlog::audit;
use ctxlog::engine::Store;
use ctxlog::formats::{Format, Transcript};
use ctxlog::strategy::parse;

use super::counts::read;
use super::files::data;
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
                .import_among(&named, &name(n), transcript, chain, &mut |_| {})
                .unwrap_or_else(|error| panic!("{what}, {n}: {error}"));
            assert!(!again || imported.added == 0, "{what}, {n}: added again");
        }
    }
    for listed in store.list().unwrap() {
        let verified = audit::verify(&store, &listed, &mut |_, _| {}).unwrap();
        assert!(verified.ok, "{what}: {verified:?}");
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
    let Some(folders) = data("") else { return };
    for folder in folders.iter().filter(|f| f.is_dir()) {
        let name = folder.file_name().unwrap().to_str().unwrap();
        if super::counts::TO_COME.contains(&name) {
            continue;
        }
        for file in data(name).unwrap() {
            let (_, transcripts) = read(&file);
            let what = file.display().to_string();
            is_imported(&what, &transcripts, &[]);
            is_imported(&what, &transcripts, &["sliding-window:keep=3"]);
        }
    }
}
