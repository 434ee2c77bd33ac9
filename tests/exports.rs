//! The file of an export, read line by line: what it verifies to, what comes back from it, and what a
//! changed one is told apart by.

use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use ctxlog::audit::{self, ExportError, Exported, Verified};
use ctxlog::engine::{Conversation, Redact, Store};
use ctxlog::log::{Message, Seq};
use ctxlog::store::Listed;
use ctxlog::testkit::{Script, World, generate};
use proptest::prelude::*;
use serde_json::Value;
use tempfile::NamedTempFile;

fn run(script: &Script, forked: bool) -> Result<World, TestCaseError> {
    let world = if forked {
        World::run_forked(script, &[])
    } else {
        World::run(script, &[])
    };
    world.map_err(|e| TestCaseError::fail(e.to_string()))
}

fn verified(store: &Store, chat: &Conversation) -> Verified {
    let all = store.list().unwrap();
    let listed: &Listed = all.iter().find(|l| l.conversation == chat.id()).unwrap();
    audit::verify(store, listed, &mut |_, _| {}).unwrap()
}

/// A conversation as the file of a bundle.
fn bundled(chat: &Conversation) -> NamedTempFile {
    let mut file = NamedTempFile::new().unwrap();
    let verified = verified(chat.store(), chat);
    audit::bundle(chat, &verified, None, file.as_file_mut()).unwrap();
    file
}

fn read(path: &Path) -> Result<Vec<Exported>, ExportError> {
    Exported::all(path, usize::MAX, &mut |_, _| {})
}

fn whole(path: &Path) -> Exported {
    let mut all = read(path).unwrap();
    assert_eq!(all.len(), 1);
    all.remove(0)
}

fn text(chat: &Conversation) -> String {
    let mut out = Vec::new();
    audit::export(chat, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Redacts one of the messages that were logged, where there is one.
fn redact(chat: &Conversation, index: prop::sample::Index) {
    let said = chat.with_projection(|p| p.messages().iter().map(|m| m.id).collect::<Vec<_>>());
    let said = said.unwrap();
    if !said.is_empty() {
        chat.redact(Redact::Message(*index.get(&said))).unwrap();
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 24,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// A bundle verifies to what its log does, with the logs that it shares; it comes back bit for bit,
    /// once; and what it has to be read is what it holds.
    #[test]
    fn a_bundle_is_the_log_it_is_of(
        script in generate::script(), forked: bool,
        redacted in prop::collection::vec(any::<prop::sample::Index>(), 0..3),
    ) {
        let world = run(&script, forked)?;
        for index in redacted {
            redact(&world.chat, index);
        }
        let chat = &world.chat;
        let Some(head) = chat.head().unwrap() else { return Ok(()) };
        let file = bundled(chat);
        let exported = whole(file.path());
        prop_assert_eq!(exported.misread().unwrap(), Some(None));
        prop_assert_eq!(exported.conversation(), Some(chat.id()));
        let there = Store::on(Arc::new(exported.clone()));
        prop_assert_eq!(verified(&there, chat), verified(&world.store, chat));
        for listed in there.list().unwrap() {
            let shared = audit::verify(&there, &listed, &mut |_, _| {}).unwrap();
            prop_assert!(shared.ok, "{shared:?}");
        }
        let store = Store::in_memory();
        let (back, added) = store.adopt(&exported, None).unwrap();
        prop_assert_eq!(added, head.seq.0 + 1);
        prop_assert_eq!(text(&back), text(chat));
        prop_assert_eq!(store.adopt(&exported, None).unwrap().1, 0);
        for listed in store.list().unwrap() {
            let shared = audit::verify(&store, &listed, &mut |_, _| {}).unwrap();
            prop_assert!(shared.ok, "{shared:?}");
        }
    }

    /// Whoever opens a bundle reads its readable fields: one that says something else than the bytes
    /// that count is found, whichever it is.
    #[test]
    fn a_readable_field_that_was_changed_is_found(
        script in generate::script(), line: prop::sample::Index, field: prop::sample::Index,
    ) {
        let world = run(&script, false)?;
        let file = bundled(&world.chat);
        let mut lines: Vec<String> = std::fs::read_to_string(file.path())
            .unwrap()
            .lines()
            .map(str::to_owned)
            .collect();
        let at = 1 + line.index(lines.len() - 1);
        let mut value: Value = serde_json::from_str(&lines[at]).unwrap();
        let fields = value.as_object_mut().unwrap();
        let counted = ["stored", "payloads", "blobs", "hash", "schema"];
        let names: Vec<String> = fields.keys().filter(|k| !counted.contains(&k.as_str())).cloned().collect();
        let name = field.get(&names);
        fields.insert(name.clone(), Value::from("another"));
        lines[at] = value.to_string();
        let mut changed = NamedTempFile::new().unwrap();
        changed.write_all(lines.join("\n").as_bytes()).unwrap();
        let found = whole(changed.path()).misread().unwrap().unwrap();
        let said = format!("line {}: its field '{name}'", at + 1);
        prop_assert!(found.as_ref().is_some_and(|found| found.starts_with(&said)), "{found:?}");
    }

    /// A file that ends too early is told apart, and nothing is made of it.
    #[test]
    fn a_bundle_that_was_cut_off_is_none(script in generate::script(), cut: prop::sample::Index) {
        let world = run(&script, false)?;
        let file = bundled(&world.chat);
        let bytes = std::fs::read(file.path()).unwrap();
        let end = bytes.len() - usize::from(bytes.ends_with(b"\n"));
        let mut part = NamedTempFile::new().unwrap();
        part.write_all(&bytes[..cut.index(end)]).unwrap();
        prop_assert!(read(part.path()).is_err());
    }
}

/// More entries than are written at once.
#[test]
fn a_long_export_comes_back_in_several_batches() {
    let store = Store::in_memory();
    let chat = store.conversation("long").unwrap();
    for n in 0..5_000 {
        chat.append(Message::person(n.to_string())).unwrap();
    }
    let file = bundled(&chat);
    let exported = whole(file.path());
    let again = Store::in_memory();
    let (back, added) = again.adopt(&exported, None).unwrap();
    assert_eq!((added, back.head().unwrap()), (5_001, chat.head().unwrap()));
    let random = |seq| back.text(Seq(seq), 0).is_ok();
    assert!(!random(77) && verified(&again, &back).ok);
}

#[test]
fn a_file_of_several_logs_gives_each() {
    let store = Store::in_memory();
    let mut all = String::new();
    for name in ["a", "b"] {
        let chat = store.conversation(name).unwrap();
        chat.append(Message::person(name)).unwrap();
        all.push_str(&text(&chat));
        all.push('\n');
        all.push_str(&std::fs::read_to_string(bundled(&chat).path()).unwrap());
    }
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(all.as_bytes()).unwrap();
    let logs = read(file.path()).unwrap();
    let told: Vec<_> = logs
        .iter()
        .map(|l| (l.birth_name(), l.is_bundle()))
        .collect();
    assert_eq!(told, [("a", false), ("a", true), ("b", false), ("b", true)]);
    assert_eq!(
        logs[0].misread().unwrap(),
        None,
        "nothing says who wrote it"
    );
}

#[test]
fn what_is_no_export_is_told_apart_from_a_damaged_one() {
    for foreign in ["", "\n\n", "{\"a\":1}\n", "hello\n", "[1,2", "\u{0}\u{1}"] {
        let mut file = NamedTempFile::new().unwrap();
        file.write_all(foreign.as_bytes()).unwrap();
        let read = read(file.path());
        assert!(
            matches!(read, Err(ExportError::Foreign)),
            "{foreign:?} {read:?}"
        );
    }
    let mut binary = NamedTempFile::new().unwrap();
    binary.write_all(&[0xff, 0xfe, 0x00]).unwrap();
    assert!(matches!(read(binary.path()), Err(ExportError::Foreign)));
    let damaged = "{\"schema\":\"ctxlog.log/1\",\"seq\":0,\"hash\":\"";
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(damaged.as_bytes()).unwrap();
    assert!(matches!(
        read(file.path()),
        Err(ExportError::Line { line: 1, .. })
    ));
    let limited = Exported::all(file.path(), 10, &mut |_, _| {});
    assert!(matches!(
        limited,
        Err(ExportError::TooLarge { line: 1, limit: 10 })
    ));
}
