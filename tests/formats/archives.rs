//! Logs of Inspect as it packs them.
#![cfg(feature = "archives")]

use std::io::{BufReader, Cursor, Read, Write};

use ctxlog::formats::archive::{Archive, MAGIC};
use ctxlog::formats::input::RECORD_LIMIT;
use ctxlog::formats::{Format, Transcript, detect, input};
use serde_json::Value;
use zip::write::{SimpleFileOptions, ZipWriter};

use super::files::data;

/// An archive of these files, as large as their names and texts allow.
fn packed(files: &[(String, String)]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, text) in files {
        let options = SimpleFileOptions::default();
        zip.start_file(
            name.as_str(),
            options.compression_method(zip::CompressionMethod::Deflated),
        )
        .unwrap();
        zip.write_all(text.as_bytes()).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

fn unpacked(bytes: &[u8], limit: usize) -> std::io::Result<String> {
    let mut text = String::new();
    let archive = Archive::open(Cursor::new(bytes), limit)?;
    archive.expect("a log").read_to_string(&mut text)?;
    Ok(text)
}

/// A log as Inspect packs it.
fn files(log: &str) -> Option<Vec<(String, String)>> {
    let mut log: Value = serde_json::from_str(log).unwrap();
    let samples = log.as_object_mut()?.remove("samples")?;
    let sample = |sample: &Value| {
        let name = format!("samples/{}_epoch_{}.json", sample["id"], sample["epoch"]);
        (name, sample.to_string())
    };
    let mut files = vec![("_journal/start.json".to_owned(), log.to_string())];
    files.extend(samples.as_array()?.iter().map(sample));
    files.push(("summaries.json".to_owned(), "[{\"id\":1}]".to_owned()));
    files.push(("header.json".to_owned(), log.to_string()));
    Some(files)
}

/// What a log says, apart from where.
fn told(mut read: Vec<Transcript>) -> Vec<Transcript> {
    for step in read.iter_mut().flat_map(|t| &mut t.steps) {
        if let ctxlog::formats::Step::Noted { place, .. } = step {
            place.clear();
        }
    }
    read
}

#[test]
fn a_packed_log_says_what_it_says_unpacked() {
    let mut compared = 0;
    for file in data("inspect-log").unwrap_or_default() {
        let text = std::fs::read_to_string(&file).unwrap();
        // Numbers and order of fields as the writer of JSON here has them.
        let text = serde_json::from_str::<Value>(&text).unwrap().to_string();
        let Some(files) = files(&text) else { continue };
        let bytes = packed(&files);
        assert!(bytes.starts_with(MAGIC));
        let open = || {
            Archive::open(Cursor::new(&bytes), RECORD_LIMIT)
                .unwrap()
                .unwrap()
        };
        let pieces: Vec<_> = input::pieces(open(), "f", RECORD_LIMIT)
            .map(Result::unwrap)
            .collect();
        let format = detect(&pieces).unwrap();
        assert_eq!(format.name(), "inspect-log", "{}", file.display());
        let read = format.read(&mut open(), "f", RECORD_LIMIT).unwrap();
        let plain = Format::from_name("inspect-log").unwrap();
        let plain = plain.read(&mut text.as_bytes(), "f", RECORD_LIMIT).unwrap();
        assert_eq!(told(read), told(plain), "{}", file.display());
        compared += 1;
    }
    assert!(compared > 3 || data("").is_none(), "{compared}");
}

#[test]
fn a_log_that_is_still_written_has_no_header() {
    let files = [
        ("_journal/start.json".to_owned(), "{\"eval\":{}}".to_owned()),
        ("samples/1_epoch_1.json".to_owned(), "{\"id\":1}".to_owned()),
    ];
    let text = unpacked(&packed(&files), 100).unwrap();
    assert_eq!(text, "{\"eval\":{}}\n{\"id\":1}\n");
}

#[test]
fn an_archive_of_something_else_is_no_log() {
    let bytes = packed(&[("conversations.json".to_owned(), "[]".to_owned())]);
    let opened = Archive::open(BufReader::new(Cursor::new(bytes)), 100).unwrap();
    assert!(opened.is_none());
}

fn refusal(bytes: &[u8], limit: usize) -> String {
    unpacked(bytes, limit).unwrap_err().to_string()
}

fn bomb(size: usize) -> Vec<u8> {
    packed(&[("samples/b.json".to_owned(), " ".repeat(size))])
}

#[test]
fn what_declares_more_than_a_record_may_have_is_not_unpacked() {
    let refused = refusal(&bomb(1 << 20), 1 << 16);
    let expected = "samples/b.json in it has 1048576 bytes, above the limit of 65536 bytes a record; \
                    raise the limit (--max-record) to read it";
    assert_eq!(refused, expected);
    assert_eq!(unpacked(&bomb(1 << 20), 1 << 20).unwrap().trim(), "");
}

/// The bytes of an archive with a number of its headers changed.
fn changed(bytes: &[u8], from: u32, to: u32) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut found = 0;
    for at in 0..bytes.len() - 4 {
        if bytes[at..at + 4] == from.to_le_bytes() {
            bytes[at..at + 4].copy_from_slice(&to.to_le_bytes());
            found += 1;
        }
    }
    assert!(found > 0);
    bytes
}

#[test]
fn no_more_comes_out_of_a_file_than_it_declares() {
    let size = 1_234_567;
    let refused = refusal(&changed(&bomb(size), 1_234_567, 1_000), 1 << 16);
    assert!(refused.contains("samples/b.json"), "{refused}");
    assert!(refused.contains("unpack it"), "{refused}");
    let refused = refusal(&changed(&bomb(size), 1_234_567, 2_000_000), 1 << 24);
    assert!(refused.contains("samples/b.json"), "{refused}");
}

/// One stretch of packed bytes that many files share is how a small archive becomes a large one.
#[test]
fn files_that_share_their_bytes_are_refused() {
    let file = |name: &str| (format!("samples/{name}.json"), " ".repeat(1 << 16));
    let mut bytes = packed(&[file("a"), file("b")]);
    let listed = bytes.windows(4).rposition(|at| at == b"PK\x01\x02");
    let place = listed.unwrap() + 42;
    assert_ne!(bytes[place..place + 4], [0; 4]);
    bytes[place..place + 4].fill(0);
    let refused = refusal(&bytes, 1 << 20);
    assert!(refused.contains("lie within each other"), "{refused}");
}

#[test]
fn damage_says_what_is_damaged_and_never_panics() {
    let whole = packed(&[
        (
            "header.json".to_owned(),
            "{\"eval\":{},\"plan\":{}}".to_owned(),
        ),
        (
            "samples/b.json".to_owned(),
            "{\"id\":1,\"epoch\":1,\"messages\":[]}".repeat(9),
        ),
    ]);
    let text = unpacked(&whole, 1 << 16).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        let cut = Archive::open(Cursor::new(&whole[..at]), 1 << 16);
        assert!(cut.is_err(), "the list of files stands at the end");
        let says = |error: std::io::Error| {
            let words = error.to_string();
            assert!(
                words.contains("unpack") || words.contains("raise"),
                "{at}: {words}"
            );
        };
        match Archive::open(Cursor::new(&bytes), 1 << 16) {
            Ok(Some(mut archive)) => {
                let mut read = String::new();
                match archive.read_to_string(&mut read) {
                    Ok(_) => assert!(read.len() <= text.len(), "{at}"),
                    Err(error) => says(error),
                }
            }
            Ok(None) => {}
            Err(error) => says(error),
        }
    }
}
