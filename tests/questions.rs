//! `diff`, `context` and `grep` against plain folds, over generated conversations: asked of a log that
//! is held, that was just opened, and with snapshots among its entries.

use std::collections::{BTreeMap, BTreeSet};

use ctxlog::audit::{
    Came, Cause, Diff, Gone, Mark, Place, Sought, compare, context, diff, grep, ranges,
};
use ctxlog::engine::{Content, Conversation};
use ctxlog::log::{Body, Iteration, LeftReason, MessageId, Seq};
use ctxlog::testkit::generate::{script, source};
use ctxlog::testkit::model::Moment;
use ctxlog::testkit::{Case, Run};
use ctxlog::window::Window;
use proptest::prelude::*;

fn config(cases: u32) -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 2_000,
        ..ProptestConfig::default()
    };
    if asked {
        config
    } else {
        ProptestConfig { cases, ..config }
    }
}

/// Pairs of moments to compare: entries of the log, counted round.
fn moments() -> impl Strategy<Value = Vec<(usize, usize)>> {
    proptest::collection::vec((0..400_usize, 0..400_usize), 1..6)
}

fn at(run: &Run, which: usize) -> Seq {
    run.entries[which % run.entries.len()].seq
}

fn place(seq: Seq) -> Place {
    Place { seq, call: None }
}

fn moment(run: &Run, seq: Seq) -> &Moment {
    &run.moments[usize::try_from(seq.0).unwrap()]
}

/// A window as which message stands where in which form.
fn rows(window: &Window) -> Vec<(u64, u64)> {
    let items = window.items.iter();
    items.map(|i| (i.id.seq().0, i.form.0)).collect()
}

/// A difference applied to the first window gives the second.
fn applied(d: &Diff, first: &Window, second: &Window) {
    let gone: BTreeSet<Seq> = d.left.iter().flat_map(|g| g.messages.clone()).collect();
    let mut rows_now: BTreeMap<Seq, Seq> =
        first.items.iter().map(|i| (i.id.seq(), i.form)).collect();
    for seq in &gone {
        assert!(rows_now.remove(seq).is_some(), "{seq} was not there");
    }
    for came in d.entered.iter().flat_map(|c| &c.messages) {
        let form = second
            .items
            .iter()
            .find(|i| i.id.seq() == *came)
            .unwrap()
            .form;
        assert!(rows_now.insert(*came, form).is_none(), "{came} was there");
    }
    for formed in &d.formed {
        let before = rows_now.insert(formed.message, formed.form.1);
        assert_eq!(before, Some(formed.form.0));
    }
    let wanted: BTreeMap<Seq, Seq> = second.items.iter().map(|i| (i.id.seq(), i.form)).collect();
    assert_eq!(rows_now, wanted);
    let stayed: Vec<u64> = d.stayed.iter().map(|s| s.0).collect();
    let both = rows(second);
    let both: Vec<u64> = both
        .into_iter()
        .filter(|r| rows(first).contains(r))
        .map(|r| r.0)
        .collect();
    assert_eq!(stayed, both);
    let prefix = rows(first)
        .iter()
        .zip(rows(second).iter())
        .take_while(|(a, b)| a == b)
        .count();
    assert_eq!(d.cache.prefix.messages, prefix as u64);
    assert_eq!(
        d.cache.prefix.messages + d.cache.read.messages,
        second.items.len() as u64
    );
}

fn gone(of: &[Gone]) -> BTreeMap<Seq, Cause> {
    let each = |g: &Gone| {
        g.messages
            .iter()
            .map(|m| (*m, g.by.clone()))
            .collect::<Vec<_>>()
    };
    of.iter().flat_map(each).collect()
}

fn came(of: &[Came]) -> BTreeMap<Seq, Cause> {
    let each = |g: &Came| {
        g.messages
            .iter()
            .map(|m| (*m, g.by.clone()))
            .collect::<Vec<_>>()
    };
    of.iter().flat_map(each).collect()
}

/// By which entry a message that is not in a window left last, by the naive fold.
fn left_by(run: &Run, message: Seq, then: Seq, by: &Cause) {
    let out = moment(run, then)
        .get(message.0)
        .unwrap()
        .out
        .as_ref()
        .unwrap();
    let held = |n: u64| moment(run, Seq(n)).window.contains(&message.0);
    let left = (1..=then.0).rev().find(|n| held(n - 1) && !held(*n));
    assert_eq!(by.seq.0, left.unwrap_or(out.by), "m{} left", message.0);
    // A result that is away may be superseded where it is: that is no leaving.
    if left.is_none_or(|left| left == out.by) {
        assert_eq!(by.reason, Some(out.reason), "m{} left", message.0);
        assert_eq!(
            by.stand_in.map(|s| s.0),
            out.stand_in,
            "m{} left",
            message.0
        );
    }
}

/// Whose fault each change is, by the naive fold.
fn caused(d: &Diff, run: &Run, to: Seq) {
    let then = moment(run, to);
    for (seq, by) in gone(&d.left) {
        left_by(run, seq, to, &by);
    }
    for (seq, by) in came(&d.entered) {
        assert_eq!(
            by.seq.0,
            then.get(seq.0).unwrap().entered,
            "m{} came",
            seq.0
        );
    }
    for formed in &d.formed {
        let since = then.get(formed.message.0).unwrap().forms.last().unwrap().0;
        assert_eq!(formed.by.seq.0, since, "m{} changed", formed.message.0);
    }
}

fn differ(chat: &Conversation, a: Seq, b: Seq) -> Diff {
    diff((chat, place(a)), (chat, place(b)), true).unwrap()
}

/// Everything that is demanded of two moments.
fn compared(run: &Run, a: Seq, b: Seq) {
    let chat = &run.world.chat;
    let (first, second) = (chat.window_after(a).unwrap(), chat.window_after(b).unwrap());
    let d = differ(chat, a, b);
    applied(&d, &first, &second);
    assert_eq!(d.same, rows(&first) == rows(&second));
    if a <= b {
        caused(&d, run, b);
    }
    let back = differ(chat, b, a);
    assert_eq!(gone(&d.left), came(&back.entered), "there and back");
    assert_eq!(came(&d.entered), gone(&back.left), "there and back");
    assert_eq!(d.tokens.map(|n| -n), back.tokens);
    assert_eq!(differ(&run.world.anew().unwrap(), a, b), d, "just opened");
    for words in d.words.iter().flatten() {
        let of = |without: Mark| -> String {
            let words = words.words.iter().filter(|w| w.mark != without);
            words.map(|w| w.text.as_str()).collect()
        };
        if let Some(shown) = second.items.iter().find(|i| i.id.seq() == words.message) {
            let after = chat.message_at(shown.id, b).unwrap();
            let after = match after {
                Content::Message(m) => m.words(),
                Content::Redacted => "[redacted]".to_owned(),
            };
            assert_eq!(of(Mark::Gone), after);
        }
    }
}

fn run_of<T>(case: &Case<'_>, script: &impl std::fmt::Display, work: impl FnOnce(&Run) -> T) -> T {
    let run = case.run().unwrap_or_else(|e| panic!("{e}\n{script}"));
    work(run)
}

/// The calls whose windows held a text, by message, word by word.
fn brute(run: &Run, text: &str) -> BTreeMap<MessageId, BTreeSet<u64>> {
    let chat = &run.world.chat;
    let mut found: BTreeMap<MessageId, BTreeSet<u64>> = BTreeMap::new();
    let calls = run
        .entries
        .iter()
        .filter(|e| matches!(e.body, Body::Called(_)));
    for call in calls {
        for item in chat.load_after(call.seq).unwrap().items {
            let gone = chat.message_at(item.id, call.seq).unwrap() == Content::Redacted;
            if !gone && item.message.words().contains(text) {
                found.entry(item.id).or_default().insert(call.iteration.0);
            }
        }
    }
    found
}

fn looked_for(run: &Run, chat: &Conversation, text: &str) {
    let find = |words: &str| words.find(text).map(|at| at..at + text.len());
    let sought = Sought {
        find: &find,
        of: &|_| true,
    };
    let found = grep(chat, &sought, &mut |_, _| ()).unwrap();
    let calls = brute(run, text);
    let all: BTreeSet<u64> = calls.values().flatten().copied().collect();
    let last = found.calls;
    let mut seen = BTreeMap::new();
    for hit in &found.hits {
        let ranges = hit.seen.iter().flat_map(|s| s.first.0..=s.last.0);
        let ranges: BTreeSet<u64> = ranges.collect();
        assert_eq!(hit.calls, ranges.len() as u64);
        let without =
            (1..=last).find(|n| !ranges.contains(n) && ranges.range(..n).next().is_some());
        assert_eq!(hit.first_without, without.map(Iteration));
        if !ranges.is_empty() {
            seen.insert(MessageId(hit.entered.seq), ranges);
        }
    }
    assert_eq!(seen, calls, "{text:?}");
    let without = (1..=last).find(|n| !all.contains(n) && all.range(..n).next().is_some());
    assert_eq!(found.first_without, without.map(Iteration));
    let union: BTreeSet<u64> = found.seen.iter().flat_map(|(a, b)| a.0..=b.0).collect();
    assert_eq!(union, all);
    // Whoever was never seen is found all the same.
    let mut holds = BTreeSet::new();
    for entry in &run.entries {
        for (index, _) in (0_u32..).zip(entry.body.commitments()) {
            let message = matches!(entry.body, Body::Appended(_))
                || entry
                    .body
                    .change()
                    .is_some_and(|c| u64::from(index) < c.stand_ins.len() as u64);
            if message
                && let Content::Message(m) = chat.content(entry.seq, index).unwrap()
                && m.words().contains(text)
            {
                holds.insert(entry.seq);
            }
        }
    }
    let forms: BTreeSet<Seq> = found.hits.iter().flat_map(|h| h.forms.clone()).collect();
    assert_eq!(forms, holds, "{text:?}");
}

/// A message's context is the call's window and what had been logged and was not in it.
fn in_context(run: &Run, chat: &Conversation) {
    let ids: Vec<_> = moment(run, Seq(run.entries.len() as u64 - 1))
        .messages
        .iter()
        .map(|m| m.id)
        .collect();
    for id in ids {
        let told = context(chat, MessageId(Seq(id)), true).unwrap();
        let calls = run
            .entries
            .iter()
            .filter(|e| matches!(e.body, Body::Called(_)));
        let first = calls
            .map(|e| e.seq)
            .find(|n| moment(run, *n).window.contains(&id));
        let produced = match &run.entries[usize::try_from(id).unwrap()].body {
            Body::Appended(a) => a.produced_by,
            _ => None,
        };
        assert_eq!(told.produced_by.map(|m| m.seq), produced, "m{id}");
        assert_eq!(told.call.map(|m| m.seq), produced.or(first), "m{id}");
        let Some(call) = told.call else {
            assert!(told.window.is_none() && told.missing.is_empty());
            continue;
        };
        let window = told.window.unwrap();
        assert_eq!(window.recorded_digest, Some(window.digest));
        let then = moment(run, call.seq);
        let saw: Vec<u64> = window.messages.iter().map(|m| m.seq.0).collect();
        assert_eq!(saw, then.window);
        let missing: BTreeSet<u64> = told
            .missing
            .iter()
            .flat_map(|m| &m.messages)
            .map(|s| s.0)
            .collect();
        let away = then
            .messages
            .iter()
            .map(|m| m.id)
            .filter(|m| !saw.contains(m));
        assert_eq!(missing, away.collect::<BTreeSet<_>>(), "m{id}");
        for part in &told.missing {
            for m in &part.messages {
                left_by(run, *m, call.seq, &part.by);
            }
        }
    }
}

proptest! {
    #![proptest_config(config(100))]

    #[test]
    fn a_difference_leads_from_one_window_to_the_other(script in script(), pairs in moments()) {
        run_of(&Case::new(&script), &script, |run| {
            for (a, b) in pairs {
                let (a, b) = (at(run, a), at(run, b));
                compared(run, a, b);
                let none = differ(&run.world.chat, a, a);
                assert!(none.same && none.left.is_empty() && none.entered.is_empty() && none.formed.is_empty());
                assert_eq!(none.cache.read.messages, 0);
            }
        });
    }

    #[test]
    fn a_difference_is_the_same_with_snapshots_and_over_what_a_source_did(source in source(), script in script(), pairs in moments()) {
        run_of(&Case::new(&script).after_import_of(&source), &script, |run| {
            for (a, b) in &pairs {
                compared(run, at(run, *a), at(run, *b));
            }
            let before: Vec<_> = pairs.iter().map(|(a, b)| differ(&run.world.chat, at(run, *a), at(run, *b))).collect();
            run.world.take_snapshots(3).unwrap();
            let chat = run.world.anew().unwrap();
            let after: Vec<_> = pairs.iter().map(|(a, b)| differ(&chat, at(run, *a), at(run, *b))).collect();
            assert_eq!(before, after);
        });
    }

    #[test]
    fn grep_tells_which_calls_could_see_a_text(script in script(), text in "[a-e]|or|he|in|sum|0") {
        run_of(&Case::new(&script), &script, |run| {
            looked_for(run, &run.world.chat, &text);
            looked_for(run, &run.world.anew().unwrap(), &text);
            run.world.take_snapshots(4).unwrap();
            looked_for(run, &run.world.anew().unwrap(), &text);
        });
    }

    #[test]
    fn grep_follows_what_a_source_did(source in source(), script in script(), text in "[a-e]|one|0") {
        run_of(&Case::new(&script).after_import_of(&source), &script, |run| {
            looked_for(run, &run.world.anew().unwrap(), &text);
        });
    }

    #[test]
    fn a_context_is_the_window_of_the_call_and_what_was_not_in_it(script in script()) {
        run_of(&Case::new(&script), &script, |run| {
            in_context(run, &run.world.chat);
            run.world.take_snapshots(5).unwrap();
            in_context(run, &run.world.anew().unwrap());
        });
    }

    #[test]
    fn ranges_name_the_messages_and_no_others(script in script(), picks in proptest::collection::vec(any::<bool>(), 1..40)) {
        run_of(&Case::new(&script), &script, |run| {
            let chat = &run.world.chat;
            let all: Vec<Seq> = run.moments.last().unwrap().messages.iter().map(|m| Seq(m.id)).collect();
            let some = all.into_iter().zip(picks.iter().cycle()).filter(|(_, pick)| **pick);
            let some: Vec<Seq> = some.map(|(seq, _)| seq).collect();
            let named = ranges(chat, &some).unwrap();
            let named = chat.with_projection(|p| p.ids_in(&named)).unwrap();
            let named: Vec<Seq> = named.into_iter().map(MessageId::seq).collect();
            assert_eq!(named, some);
        });
    }

    #[test]
    fn word_by_word_both_texts_are_there(a in "([a-c ]{0,3}\n?){0,30}", b in "([a-c ]{0,3}\n?){0,30}") {
        let words = compare(&a, &b);
        let of = |without: Mark| -> String {
            words.iter().filter(|w| w.mark != without).map(|w| w.text.as_str()).collect()
        };
        prop_assert_eq!(of(Mark::New), a);
        prop_assert_eq!(of(Mark::Gone), b);
        prop_assert!(words.windows(2).all(|w| w[0].mark != w[1].mark));
    }
}

#[test]
fn reasons_are_told_by_name() {
    // A cause sorts by its entry first, so that groups come in the order of the log.
    let cause = |seq| Cause {
        seq: Seq(seq),
        iteration: Iteration(1),
        kind: "evict",
        reason: Some(LeftReason::OverBudget),
        strategy: None,
        by: "library".to_owned(),
        stand_in: None,
        inferred: false,
        conversation: None,
    };
    assert!(cause(2) < cause(10));
}
