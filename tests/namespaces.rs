//! Namespaces keep owners apart, whatever their names say, on both stores.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use ctxlog::engine::{Content, Conversation, Namespace, Store};
use ctxlog::log::{Message, RequestReason, Seq};
use proptest::prelude::*;

/// Texts that look like parts of a path, of a key, or like nothing.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[:\\\\/a\\x00\\x01]{0,3}",
        "\\PC{0,3}",
        Just("default".to_owned())
    ]
}

fn namespace() -> impl Strategy<Value = Namespace> {
    let tenant = text().prop_filter("a tenant has a name", |t| !t.is_empty());
    (tenant, prop::collection::vec(text(), 0..3)).prop_map(|(tenant, segments)| {
        let root = Namespace::new(tenant).unwrap();
        segments.into_iter().fold(root, Namespace::with)
    })
}

fn says(chat: &Conversation) -> String {
    let first = chat.window().unwrap().items[0].form;
    match chat.content(first, 0).unwrap() {
        Content::Message(message) => message.words(),
        Content::Redacted => panic!("redacted"),
    }
}

fn reason<T>(answer: Result<T, ctxlog::Error>) -> RequestReason {
    let error = answer.err().expect("it was done");
    error.refusal().expect("it failed").reason
}

fn reads(store: &Store, chat: &Conversation) -> Result<u64, ctxlog::Error> {
    let mut entries = 0;
    store.entries(chat.id(), Seq(0), Seq(9), &mut |_| {
        entries += 1;
        ControlFlow::Continue(())
    })?;
    Ok(entries)
}

/// Each namespace has conversations of these names; everyone sees what is theirs and nothing else.
fn all_are_apart(store: &Store, names: &[String], spaces: &[Namespace]) {
    let mut own: BTreeMap<(Namespace, String), Conversation> = BTreeMap::new();
    for (space, name) in spaces
        .iter()
        .flat_map(|s| names.iter().map(move |n| (s, n)))
    {
        let key = (space.clone(), name.clone());
        if own.contains_key(&key) {
            continue;
        }
        let chat = store.within(space.clone()).conversation(name).unwrap();
        chat.append(Message::person(format!("{space} {name}")))
            .unwrap();
        own.insert(key, chat);
    }
    for space in spaces {
        let mine = store.within(space.clone());
        for name in names {
            let found = mine.existing(name).unwrap();
            assert_eq!(says(&found), format!("{space} {name}"));
            assert_eq!(found.namespace().unwrap(), *space);
        }
        assert_eq!(
            reason(mine.existing("nobody's")),
            RequestReason::NothingMatches
        );
        let visible = |other: &Namespace| other.is_within(space);
        let mut expected: Vec<_> = own
            .iter()
            .filter(|((other, _), _)| visible(other))
            .map(|(_, chat)| chat.id())
            .collect();
        let mut listed: Vec<_> = mine
            .list()
            .unwrap()
            .iter()
            .map(|l| l.conversation)
            .collect();
        expected.sort_unstable();
        listed.sort_unstable();
        assert_eq!(listed, expected, "{space}");
        for other in spaces {
            let there = mine.list_within(other).unwrap();
            assert!(there.iter().all(|l| expected.contains(&l.conversation)));
            let spaces = mine.namespaces(other).unwrap();
            assert!(spaces.iter().all(|s| visible(s) && s.is_within(other)));
            assert_eq!(visible(other), spaces.contains(other));
        }
        for ((other, name), chat) in &own {
            let listed = ctxlog::store::Listed {
                name: ctxlog::store::Name {
                    namespace: std::iter::once(other.tenant().to_owned())
                        .chain(other.segments().iter().cloned())
                        .collect(),
                    name: name.clone(),
                },
                conversation: chat.id(),
            };
            if visible(other) {
                assert_eq!(reads(&mine, chat).unwrap(), 2);
                assert_eq!(mine.by_id(listed).unwrap().id(), chat.id());
            } else {
                // One answer for what is another's and what is nobody's.
                assert_eq!(reason(reads(&mine, chat)), RequestReason::NothingMatches);
                assert_eq!(reason(mine.by_id(listed)), RequestReason::NothingMatches);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_tenant_reads_or_lists_what_is_anothers_in_memory(
        names in prop::collection::vec(text(), 1..3), spaces in prop::collection::vec(namespace(), 1..6)
    ) {
        all_are_apart(&Store::in_memory(), &names, &spaces);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn no_tenant_reads_or_lists_what_is_anothers_in_a_directory(
        names in prop::collection::vec(text(), 1..3), spaces in prop::collection::vec(namespace(), 1..5)
    ) {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path().join("s")).unwrap();
        let store = store.with_level(ctxlog::store::Level::Buffered);
        all_are_apart(&store, &names, &spaces);
    }
}

#[test]
fn names_without_a_namespace_are_of_the_default_one() {
    let store = Store::in_memory();
    let chat = store.conversation("a").unwrap();
    assert_eq!(chat.namespace().unwrap(), Namespace::default());
    let same = store.within(Namespace::default()).existing("a").unwrap();
    assert_eq!(same.id(), chat.id());
    let other = store.within(Namespace::new("acme").unwrap());
    assert_ne!(other.conversation("a").unwrap().id(), chat.id());
    assert_eq!(
        store.list().unwrap().len(),
        2,
        "whoever has the whole store sees all"
    );
}

#[test]
fn a_log_that_is_taken_in_is_of_the_namespace_that_took_it() {
    let whole = Store::in_memory();
    let [one, two] = ["one", "two"].map(|t| whole.within(Namespace::new(t).unwrap()));
    let chat = one.conversation("a").unwrap();
    chat.append(Message::person("mine")).unwrap();
    let mut log = Vec::new();
    ctxlog::audit::export(&chat, &mut log).unwrap();
    let log = String::from_utf8(log).unwrap();
    let lines = || log.lines().map(|l| Ok(l.to_owned()));
    // The store holds this log already, and it is another's.
    assert!(ctxlog::audit::import_lines(&two, &mut lines(), None).is_err());
    let elsewhere = Store::in_memory();
    let two = elsewhere.within(Namespace::new("two").unwrap());
    let (chat, _) = ctxlog::audit::import_lines(&two, &mut lines(), None).unwrap();
    assert_eq!(chat.namespace().unwrap().tenant(), "two");
    assert_eq!(two.list().unwrap().len(), 1);
}
