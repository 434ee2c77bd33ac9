//! What oversized input costs in memory; alone in its process, so that it can be measured.

use std::io::{BufReader, Read};

use ctxlog::engine::Store;
use ctxlog::formats::input::pieces;
use ctxlog::formats::{Transcript, claude_code, openai_chat};

const LIMIT: usize = 64 << 20;

/// A line of a record that is made while it is read.
fn long_line(bytes: u64) -> impl Read {
    let start = &b"{\"role\":\"user\",\"content\":\""[..];
    let end = &b"\"}\n{\"role\":\"user\",\"content\":\"small\"}\n"[..];
    start.chain(std::io::repeat(b'x').take(bytes)).chain(end)
}

/// The most memory this process ever held, in bytes, where the system tells.
fn peak() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|l| l.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib << 10)
}

/// What importing told, and how many steps it kept.
fn imported(transcripts: &[Transcript]) -> (Vec<String>, usize) {
    let store = Store::in_memory();
    let mut told = Vec::new();
    for (n, transcript) in transcripts.iter().enumerate() {
        let imported = store.import(&format!("t{n}"), transcript, Vec::new(), &mut |_| {});
        let warnings = imported.unwrap().warnings.into_iter();
        told.extend(warnings.map(|w| format!("{} {}", w.place, w.what)));
    }
    (told, transcripts.iter().map(|t| t.steps.len()).sum())
}

#[test]
fn a_line_far_beyond_the_limit_costs_no_more_memory_than_the_limit() {
    const LONG: u64 = 200 << 20;
    let input = || BufReader::with_capacity(1 << 16, long_line(LONG));
    let read = openai_chat::read(pieces(input(), "f", LIMIT).map(Result::unwrap));
    let session = claude_code::read(input(), "f", LIMIT).unwrap();
    for read in [read, session] {
        let (warned, kept) = imported(&read);
        assert_eq!(warned.len(), 1, "{warned:?}");
        let size = LONG.to_string();
        let about = "exceeds the limit of 67108864 bytes";
        assert!(
            warned[0].starts_with("f:1 ") && warned[0].contains(about),
            "{warned:?}"
        );
        assert!(warned[0].contains(&size[..5]), "{warned:?}");
        assert_eq!(kept, 2, "the next line is kept beside the note");
    }
    // A growing buffer is at most twice as large, and moves once at its largest.
    if let Some(peak) = peak() {
        assert!(peak < (3 * 64) << 20, "{peak} bytes");
    }
}
