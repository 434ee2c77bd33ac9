//! What a checkpoint that is kept elsewhere tells of a log, and that no other note passes for it.

use std::sync::Arc;

use ctxlog::audit::{Breach, Checkpoint, Note, Verified, hold, read_notes, verify};
use ctxlog::engine::Store;
use ctxlog::log::{Hash, Head, Message, Seq};
use ctxlog::store::{Backend, Listed, MemoryStore};
use ctxlog::testkit::tamper::{Alteration, Altered};
use proptest::prelude::*;

/// A store with one log of so many turns.
fn store_of(turns: usize) -> (Arc<MemoryStore>, Store, Listed) {
    let backend = Arc::new(MemoryStore::new());
    let store = Store::on(backend.clone());
    let chat = store.conversation("kept").unwrap();
    for turn in 0..turns {
        chat.append(Message::person(format!("question {turn}")))
            .unwrap();
        chat.call().unwrap();
        chat.append(Message::model(format!("answer {turn}")))
            .unwrap();
    }
    drop(chat);
    let listed = store.list().unwrap().remove(0);
    (backend, store, listed)
}

/// The checkpoint after so many entries.
fn after(store: &Store, listed: &Listed, entries: u64) -> Note {
    let id = listed.conversation;
    let mut head = None;
    let at = Seq(entries - 1);
    store
        .entries(id, at, at, &mut |sealed| {
            head = Some(sealed.head());
            std::ops::ControlFlow::Break(())
        })
        .unwrap();
    let text = Checkpoint::of(id, head.unwrap()).unwrap().to_string();
    read_notes(&text).unwrap().remove(0)
}

fn held(store: &Store, listed: &Listed, notes: &[Note]) -> Verified {
    let mut verified = verify(store, listed, &mut |_, _| {}).unwrap();
    hold(&mut verified, store, listed.conversation, notes, None).unwrap();
    verified
}

fn breach(verified: &Verified) -> Option<Breach> {
    let held = verified.checkpoint.as_ref().unwrap();
    assert_eq!(held.ok, held.broken.is_none());
    assert!(!verified.ok || held.ok);
    held.broken
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// The law of checkpoints: each still fits the log it was taken of, whatever came since.
    #[test]
    fn every_checkpoint_of_a_log_fits_it_for_ever(
        turns in 1_usize..8, places in prop::collection::vec(any::<prop::sample::Index>(), 1..5)
    ) {
        let (_, store, listed) = store_of(turns);
        let entries = verify(&store, &listed, &mut |_, _| {}).unwrap().entries;
        let place = |i: &prop::sample::Index| u64::try_from(i.index(usize::try_from(entries).unwrap())).unwrap() + 1;
        let notes: Vec<Note> = places.iter().map(|i| after(&store, &listed, place(i))).collect();
        let newest = places.iter().map(place).max().unwrap();
        let verified = held(&store, &listed, &notes);
        prop_assert!(verified.ok, "{:?}", verified.problems);
        let held = verified.checkpoint.unwrap();
        prop_assert_eq!((held.entries, held.after), (newest, entries - newest));
    }

    /// A log that somebody cut, head record and all, still hangs together; a checkpoint of what is gone
    /// tells.
    #[test]
    fn a_shortened_log_is_told_by_a_checkpoint(
        turns in 1_usize..8, cut in any::<prop::sample::Index>(), kept in any::<prop::sample::Index>()
    ) {
        let (backend, store, listed) = store_of(turns);
        let entries = verify(&store, &listed, &mut |_, _| {}).unwrap().entries;
        let left = 1 + u64::try_from(cut.index(usize::try_from(entries - 1).unwrap())).unwrap();
        let counted = 1 + u64::try_from(kept.index(usize::try_from(entries).unwrap())).unwrap();
        let note = after(&store, &listed, counted);
        let altered = Altered::new(backend, listed.conversation, Alteration::Truncate(left)).unwrap();
        let altered = Store::on(Arc::new(altered.with_its_head().unwrap()));
        prop_assert!(verify(&altered, &listed, &mut |_, _| {}).unwrap().ok, "nothing else tells");
        let told = held(&altered, &listed, &[note]);
        let expected = (counted > left).then_some(Breach::Shortened);
        prop_assert_eq!(breach(&told), expected);
        prop_assert_eq!(told.ok, expected.is_none());
    }

    /// A log rewritten from some entry on, with all later hashes and the head record, still hangs
    /// together; a checkpoint of that entry or a later one tells, an earlier one fits.
    #[test]
    fn a_rewritten_log_is_told_by_a_checkpoint(
        turns in 1_usize..8, place in any::<prop::sample::Index>(), kept in any::<prop::sample::Index>()
    ) {
        let (backend, store, listed) = store_of(turns);
        let entries = verify(&store, &listed, &mut |_, _| {}).unwrap().entries;
        let at = u64::try_from(place.index(usize::try_from(entries).unwrap())).unwrap();
        let counted = 1 + u64::try_from(kept.index(usize::try_from(entries).unwrap())).unwrap();
        let note = after(&store, &listed, counted);
        let all = Alteration::Reseal(at, entries - 1);
        let altered = Altered::new(backend, listed.conversation, all).unwrap().with_its_head().unwrap();
        let altered = Store::on(Arc::new(altered));
        prop_assert!(verify(&altered, &listed, &mut |_, _| {}).unwrap().ok, "nothing else tells");
        let told = held(&altered, &listed, std::slice::from_ref(&note));
        let expected = (counted > at).then_some(Breach::Rewritten);
        prop_assert_eq!(breach(&told), expected);
        // With one that was taken of the other history as well, the two are told apart from one.
        let other = after(&altered, &listed, entries);
        let told = held(&altered, &listed, &[note, other]);
        prop_assert_eq!(breach(&told), expected.map(|_| Breach::Split));
    }

    /// Whatever else is done to a log, a checkpoint of all of it fits no altered one.
    #[test]
    fn no_altered_log_fits_a_checkpoint_of_all_of_it(
        turns in 1_usize..6, kind in 0..Alteration::KINDS, seed in any::<u64>()
    ) {
        let (backend, store, listed) = store_of(turns);
        let entries = verify(&store, &listed, &mut |_, _| {}).unwrap().entries;
        let note = after(&store, &listed, entries);
        let draw = |what: &str, bound: usize| {
            let hash = blake3::hash(format!("{seed} {what}").as_bytes());
            let drawn = u64::from_le_bytes(hash.as_bytes()[..8].try_into().unwrap());
            usize::try_from(drawn % u64::try_from(bound.max(1)).unwrap()).unwrap()
        };
        let drawn = Alteration::drawn(kind, usize::try_from(entries).unwrap(), &draw);
        let Some(alteration) = drawn else { return Ok(()) };
        if let Alteration::FlipPayload { at, .. } = alteration
            && backend.payload(listed.conversation, Seq(at), 0).unwrap().is_none()
        {
            return Ok(());
        }
        let altered = Altered::new(backend, listed.conversation, alteration).unwrap();
        let altered = Store::on(Arc::new(altered));
        prop_assert!(!held(&altered, &listed, &[note]).ok, "{alteration:?}");
    }

    #[test]
    fn notes_are_read_back_as_they_were_written(
        ids in prop::collection::vec((any::<[u8; 16]>(), 0..u64::MAX, any::<[u8; 32]>()), 1..5)
    ) {
        let notes: Vec<String> = ids.iter().map(|(id, seq, hash)| {
            let head = Head { seq: Seq(*seq), hash: Hash(*hash) };
            Checkpoint::of(ctxlog::log::ConversationId(*id), head).unwrap().to_string()
        }).collect();
        let text = notes.join("\n");
        let read = read_notes(&text).unwrap();
        let written: Vec<String> = read.iter().map(Note::to_string).collect();
        prop_assert_eq!(written, notes);
    }

    #[test]
    fn no_text_is_too_much_for_the_reader(text in "(ctxlog/|\u{2014} |[0-9a-f]{0,40}|[A-Za-z0-9+/=]{0,50}|\n| |\r|\\PC){0,40}") {
        if let Err(error) = read_notes(&text) {
            prop_assert!(error.line >= 1 && error.line <= text.split('\n').count());
        }
    }
}

/// Every text that differs from a note in one character.
fn mutations(note: &str) -> Vec<String> {
    let letters = [
        '0', '1', '7', 'a', 'f', 'B', 'z', '+', '/', '=', ' ', '\n', '-', '\u{2014}', '\r',
    ];
    let mut all = Vec::new();
    for (at, old) in note.char_indices() {
        let (before, rest) = note.split_at(at);
        let rest = &rest[old.len_utf8()..];
        let others = letters.iter().filter(|new| **new != old);
        all.extend(others.map(|new| format!("{before}{new}{rest}")));
        if !rest.is_empty() {
            all.push(format!("{before}{rest}"));
        }
    }
    all
}

#[test]
fn a_note_changed_in_any_character_of_any_field_is_refused() {
    let (_, store, listed) = store_of(4);
    for entries in [1, 7, 10, 12] {
        let note = after(&store, &listed, entries).to_string();
        for changed in mutations(&note) {
            let Ok(notes) = read_notes(&changed) else {
                continue;
            };
            // It reads, so that it speaks of another log, or of another history of this one.
            let spoken = notes
                .iter()
                .all(|n| n.checkpoint.conversation() == listed.conversation);
            assert!(!spoken || !held(&store, &listed, &notes).ok, "{changed:?}");
        }
    }
}

#[test]
fn what_stands_in_no_note_is_refused_with_its_line() {
    let (_, store, listed) = store_of(1);
    let note = after(&store, &listed, 3).to_string();
    let lines: Vec<&str> = note.lines().collect();
    let [origin, count, hash] = lines[..] else {
        panic!("{note}");
    };
    let long = "x".repeat(2_000);
    let signed = format!("{note}\n\u{2014} key AAAAAAAA\n");
    for (text, line) in [
        (String::new(), 1),
        ("\n\n".to_owned(), 1),
        (format!("ctxlog.dev/{origin}\n{count}\n{hash}\n"), 1),
        (format!("{}\n{count}\n{hash}\n", origin.to_uppercase()), 1),
        (format!("{origin}\n0\n{hash}\n"), 2),
        (format!("{origin}\n03\n{hash}\n"), 2),
        (format!("{origin}\n+3\n{hash}\n"), 2),
        (format!("{origin}\n18446744073709551616\n{hash}\n"), 2),
        (format!("{origin}\n3\n"), 3),
        (format!("{origin}\n3\n{hash}=\n"), 3),
        (format!("{origin}\n3\n{}\n", &hash[4..]), 3),
        (format!("{note}an extension\n"), 4),
        (note.replace('\n', "\r\n"), 1),
        (format!("{note}\n{long}\n"), 5),
        (format!("{note}\u{2014} key AAAAAAAA\n"), 4),
        ("\u{2014} key AAAAAAAA\n".to_owned(), 1),
        (format!("{note}\n\u{2014} k+y AAAAAAAA\n"), 5),
        (format!("{note}\n\u{2014} key AAAA\n"), 5),
        (format!("{signed}\n\u{2014} key AAAAAAAA\n"), 7),
        (format!("{signed}{note}"), 6),
        (
            format!("{note}\n{}", "\u{2014} key AAAAAAAA\n".repeat(17)),
            21,
        ),
    ] {
        let error = read_notes(&text).expect_err(&text);
        assert_eq!(error.line, line, "{text:?}: {error}");
    }
    assert_eq!(
        read_notes(note.trim_end()).unwrap().len(),
        1,
        "a lost last line end"
    );
    assert_eq!(read_notes(&format!("{signed}\n\n{note}")).unwrap().len(), 2);
}

#[cfg(feature = "sign")]
mod signed {
    use super::*;
    use ctxlog::audit::{KeyError, PublicKey, SecretKey};

    #[test]
    fn a_signed_note_changed_in_any_character_is_refused() {
        let (_, store, listed) = store_of(2);
        let key = SecretKey::generate("somebody").unwrap();
        let mut note = after(&store, &listed, 5);
        note.signatures.push(key.sign(&note.checkpoint));
        let text = note.to_string();
        let read = read_notes(&text).unwrap();
        assert_eq!(key.public().check(&read[0]), Ok(()));
        for changed in mutations(&text) {
            let Ok(notes) = read_notes(&changed) else {
                continue;
            };
            let public = key.public();
            let vouched = notes.iter().all(|n| public.check(n).is_ok());
            assert!(
                !vouched
                    || notes[0].checkpoint == note.checkpoint
                        && notes.len() == 1
                        && notes[0].signatures == note.signatures,
                "{changed:?}"
            );
        }
    }

    #[test]
    fn a_signature_counts_only_for_the_key_that_made_it() {
        let (_, store, listed) = store_of(2);
        let (key, other) = (
            SecretKey::generate("k").unwrap(),
            SecretKey::generate("k").unwrap(),
        );
        let mut note = after(&store, &listed, 5);
        assert!(matches!(
            key.public().check(&note),
            Err(KeyError::Unsigned { .. })
        ));
        note.signatures.push(other.sign(&note.checkpoint));
        assert!(matches!(
            key.public().check(&note),
            Err(KeyError::Unsigned { .. })
        ));
        // A signature of another checkpoint, under this one.
        let elsewhere = after(&store, &listed, 4);
        note.signatures.push(key.sign(&elsewhere.checkpoint));
        assert!(matches!(
            key.public().check(&note),
            Err(KeyError::Forged { .. })
        ));
        note.signatures.pop();
        note.signatures.push(key.sign(&note.checkpoint));
        assert_eq!(key.public().check(&note), Ok(()));
    }

    #[test]
    fn keys_are_read_back_and_nothing_else_is() {
        let key = SecretKey::generate("a.b/c").unwrap();
        let (secret, public) = (key.text(), key.public().to_string());
        assert_eq!(SecretKey::read(&secret).unwrap().public(), key.public());
        assert_eq!(
            PublicKey::read(&format!("{public}\n")).unwrap(),
            key.public()
        );
        assert!(!format!("{key:?}").contains(&secret[secret.len() - 20..]));
        for name in ["", "a b", "a+b", "a\nb"] {
            assert!(SecretKey::generate(name).is_err(), "{name:?}");
        }
        for changed in mutations(&public) {
            assert!(
                PublicKey::read(&changed).is_err() || changed.trim_end() == public,
                "{changed}"
            );
        }
        assert!(SecretKey::read(&public).is_err());
        assert!(PublicKey::read(&secret).is_err());
    }

    /// The example key of the signed-note specification, so that others' tools read ours.
    #[test]
    fn keys_are_those_that_other_tools_write() {
        let known = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW";
        assert_eq!(PublicKey::read(known).unwrap().to_string(), known);
    }
}
