//! Laws on what a window holds.

use std::collections::BTreeMap;

use super::snapshots::with_and_without_snapshots;
use super::visits::{blind, of_envelope_or_request, protection, refusals};
use super::{Found, demand};
use crate::formats::lint::lint;
use crate::formats::{Profile, render};
use crate::log::{Author, Body, LeftReason, MessageId, RequestReason, Seq, Visited};
use crate::testkit::case::{Case, Run, Step};
use crate::testkit::model::{Moment, Out};
use crate::testkit::script::Script;
use crate::testkit::world::{Failure, World};
use crate::window::{Conservation, ESTIMATE, Projection, Window};

pub(super) fn ids(window: &Window) -> Vec<u64> {
    window.items.iter().map(|item| item.id.seq().0).collect()
}

/// Place, message and content of every item.
pub(super) fn items(window: &Window) -> Vec<(u64, u64, u64)> {
    let item = |i: &crate::window::Item| (i.place.0, i.id.seq().0, i.form.0);
    window.items.iter().map(item).collect()
}

/// No window holds a part of a group; results that real ones superseded aside.
pub(super) fn closure(case: &Case<'_>) -> Found {
    let run = case.run()?;
    for (entry, moment) in run.entries.iter().zip(&run.moments) {
        let window = ids(&run.world.chat.window_after(entry.seq)?);
        let torn = torn(moment, &window);
        demand!(
            torn.is_none(),
            "after {}: of one group {:?} is in the window and away",
            entry.seq,
            torn.unwrap_or_default()
        );
    }
    Ok(())
}

/// A message of a window, and one of its group that is away, if there are such.
fn torn(moment: &Moment, window: &[u64]) -> Option<(u64, u64)> {
    let superseded = |out: &Out| out.reason == LeftReason::Superseded;
    let away = |member: &u64| {
        let message = moment.get(*member);
        let replaced = message.and_then(|m| m.out.as_ref()).is_some_and(superseded);
        message.is_some() && !replaced && !window.contains(member)
    };
    let torn = |id: &u64| Some((*id, moment.group(*id).into_iter().find(away)?));
    window.iter().find_map(torn)
}

/// No visit takes the envelope or the request, and every call is sent both.
pub(super) fn envelope_and_request(case: &Case<'_>) -> Found {
    let run = case.run()?;
    for Step {
        before,
        entry,
        after,
    } in run.steps()
    {
        match &entry.body {
            Body::Visited(visited) => {
                for id in before
                    .window
                    .iter()
                    .filter(|id| before.in_envelope(**id) || before.in_request(**id))
                {
                    demand!(after.window.contains(id), "{} took m{id}", entry.seq);
                }
                told_by_name(before, after, visited).map_err(|e| format!("{}: {e}", entry.seq))?;
            }
            Body::Called(_) => {
                for m in &after.messages {
                    let held = after.in_envelope(m.id) || after.in_request(m.id);
                    // What a source did binds no law on strategies.
                    let by_source = m.out.as_ref().is_some_and(|out| run.inferred(out.by));
                    let there = after.window.contains(&m.id) || by_source;
                    demand!(!held || there, "m{} is not in the call {}", m.id, entry.seq);
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// What refuses and is of the envelope or the request is told so.
fn told_by_name(before: &Moment, after: &Moment, visited: &Visited) -> Result<(), String> {
    if blind(visited) {
        return Ok(());
    }
    for (id, said) in refusals(after, &visited.strategy) {
        let held = protection(before, id).filter(|held| of_envelope_or_request(*held));
        if let Some(held) = held.filter(|held| *held != said) {
            return Err(format!("m{id} refuses as {said}, not as {held}"));
        }
    }
    Ok(())
}

/// What every call is sent, rendered for every provider, breaks no hard rule.
pub(super) fn legality(case: &Case<'_>) -> Found {
    let chat = &case.run()?.world.chat;
    for sent in chat.with_projection(|p| p.sent().to_vec())? {
        for profile in Profile::ALL.iter().copied() {
            let body = rendered(chat, sent.fact.seq, profile)?;
            let value: serde_json::Value = serde_json::from_str(&body)?;
            let hard: Vec<_> = lint(profile, &value)
                .into_iter()
                .filter(|p| p.hard)
                .collect();
            demand!(
                hard.is_empty(),
                "{profile:?} at {}: {hard:?}\n{body}",
                sent.fact.seq
            );
        }
    }
    Ok(())
}

fn rendered(
    chat: &crate::engine::Conversation,
    at: Seq,
    profile: Profile,
) -> Result<String, Failure> {
    let loaded = chat.load(chat.window_after(at)?)?;
    let items = loaded.rendered_items();
    let (settings, format) = (&loaded.settings, &loaded.settings_format);
    Ok(render(profile, &items, settings, format, Some("m"), false).body)
}

/// Every message is exactly one of visible, gone and covered, and is what the naive fold says.
pub(super) fn conservation(case: &Case<'_>) -> Found {
    let run = case.run()?;
    let mut fold = Projection::default();
    for (entry, moment) in run.entries.iter().zip(&run.moments) {
        fold.apply(entry);
        for message in &moment.messages {
            let state = match fold.conservation(MessageId(Seq(message.id))) {
                Some(Conservation::Visible) => Some("visible"),
                Some(Conservation::Gone) => Some("evicted"),
                Some(Conservation::Covered) => Some("covered"),
                None => None,
            };
            let fate = moment.fate(message.id);
            demand!(
                state == fate,
                "after {}: m{} is {}, not {}",
                entry.seq,
                message.id,
                state.unwrap_or("lost"),
                fate.unwrap_or("lost")
            );
        }
        let said: Vec<u64> = fold.said().map(|m| m.id.seq().0).collect();
        let expected = said_in(moment);
        demand!(
            said == expected && fold.to_consolidate().0 == u64::try_from(said.len())?,
            "after {}: {said:?} are there to be consolidated, not {expected:?}",
            entry.seq
        );
    }
    Ok(())
}

/// What the window holds beside instructions at its beginning, notices and what stands for others.
fn said_in(moment: &Moment) -> Vec<u64> {
    let first_person = (moment.messages.iter()).find(|m| m.author == Author::Person);
    let before = |id| first_person.is_none_or(|p| id < p.id);
    let shown = moment.window.iter().filter_map(|id| moment.get(*id));
    let said = shown.filter(|m| {
        let envelope = m.instruction && before(m.id);
        !m.notice && m.sources.is_none() && !envelope
    });
    said.map(|m| m.id).collect()
}

/// The same things done at other times make the same entries and windows.
pub(super) fn order(case: &Case<'_>) -> Found {
    let mut times: Vec<i64> = case.script.times.iter().rev().copied().collect();
    let other = case.script.pick("order", 1_000);
    times.push(i64::try_from(other).unwrap_or(0).saturating_sub(500));
    let script = Script {
        times,
        ..case.script.clone()
    };
    let (one, two) = (case.run_of(case.script)?, case.run_of(&script)?);
    let (a, b) = (one.entries()?, two.entries()?);
    demand!(a.len() == b.len(), "{} entries became {}", a.len(), b.len());
    for (a, b) in a.iter().zip(&b) {
        demand!(
            a.body == b.body,
            "{} differs: {:?} became {:?}",
            a.seq,
            a.body,
            b.body
        );
        let same = one.chat.window_after(a.seq)? == two.chat.window_after(a.seq)?;
        demand!(same, "the window after {} differs", a.seq);
    }
    Ok(())
}

/// What was shown as it happened is what the log gives back: folded from the start, looked up in
/// the table of lives, and after opening the store anew, with and without snapshots. Recorded digests are those of these windows,
/// and of the windows that calls handed out.
pub(super) fn replay(case: &Case<'_>) -> Found {
    let run = case.run()?;
    let chat = &run.world.chat;
    let mut fold = Projection::default();
    let mut recorded = BTreeMap::new();
    for (entry, moment) in run.entries.iter().zip(&run.moments) {
        fold.apply(entry);
        let looked_up = chat.window_after(entry.seq)?;
        demand!(
            looked_up == fold.window(),
            "after {}: the fold and the table of lives differ",
            entry.seq
        );
        demand!(
            looked_up.digest.0 == moment.digest,
            "after {}: the digest is not that of what the log says",
            entry.seq
        );
        if let Body::Called(called) = &entry.body {
            let same = called.window == fold.digest() && called.messages == fold.window_len();
            demand!(
                same,
                "the call {} was sent another window than its log gives",
                entry.seq
            );
            recorded.insert(entry.seq, called.window);
        }
    }
    for (call, handed_out) in &run.world.sent {
        demand!(
            recorded.get(call) == Some(handed_out),
            "the call {call} handed out another window than it recorded"
        );
    }
    with_and_without_snapshots(&run.world, chat.name())?;
    reopened(case.fresh()?)
}

fn reopened(mut world: World) -> Found {
    let shown = std::mem::take(&mut world.shown);
    world.reopen()?;
    for window in &shown {
        let again = world.chat.window_after(window.at.unwrap_or_default())?;
        demand!(
            again == *window,
            "the window at {:?} is another one after reopening",
            window.at
        );
    }
    Ok(())
}

/// Undoing gives the view before, is itself one entry, and can be undone. What undoes to the exact
/// view before is what nothing but the engine's own came after.
pub(super) fn undo(case: &Case<'_>) -> Found {
    let mut world = case.fresh()?;
    let entries = world.entries()?;
    let quiet = |body: &Body| match body {
        Body::Called(_) | Body::Returned(_) | Body::Noted(_) | Body::Configured(_) => true,
        Body::Visited(v) => v.change == crate::log::Change::default(),
        _ => false,
    };
    let Some(last) = entries.iter().rfind(|e| !quiet(&e.body)) else {
        return Ok(());
    };
    // What comes back comes in whole groups: a window that held parts of some cannot.
    let run = case.run()?;
    let moments = run.entries.iter().zip(&run.moments);
    let before = moments.rev().find(|(entry, _)| entry.seq < last.seq);
    if before.is_some_and(|(_, m)| torn(m, &m.window).is_some()) {
        return Ok(());
    }
    if case.script.pick("undo", 2) == 0 {
        world.reopen()?;
    }
    let changes = |c: &crate::log::Change| {
        !c.left.is_empty() || !c.entered.is_empty() || !c.stand_ins.is_empty()
    };
    if last.body.change().is_some_and(changes) {
        undoes(&world, last.seq)?;
    }
    Ok(())
}

fn undoes(world: &World, entry: Seq) -> Found {
    let chat = &world.chat;
    let earlier = Seq(entry.0.saturating_sub(1));
    let (before, view) = (items(&chat.window_after(earlier)?), items(&chat.window()?));
    let head = world.head()?;
    let undone = chat.undo(entry)?;
    demand!(
        undone.last == head.next(),
        "undoing {entry} took more than one entry"
    );
    demand!(
        items(&chat.window()?) == before,
        "undoing {entry} does not give the window before it"
    );
    let again = chat.undo(undone.last)?;
    demand!(
        items(&chat.window()?) == view,
        "undoing the undoing of {entry} does not give the window after it"
    );
    chat.undo(again.last)?;
    demand!(
        items(&chat.window()?) == before,
        "undoing {entry} once more gives another window"
    );
    match chat.undo(again.last) {
        Err(error)
            if error
                .refusal()
                .is_some_and(|r| r.reason == RequestReason::NothingMatches) =>
        {
            Ok(())
        }
        other => Err(format!("what is undone was undone again: {other:?}").into()),
    }
}

/// Between changes a window only grows at its end, and so does what is sent; each visit names the
/// first place that changed, and what that costs of what the newest call was sent.
pub(super) fn stable_prefix(case: &Case<'_>) -> Found {
    let run = case.run()?;
    let mut before = Vec::new();
    // What the newest call was sent, as far as the window still begins so.
    let mut sent: Vec<(u64, u64, u64)> = Vec::new();
    for entry in &run.entries {
        let after = items(&run.world.chat.window_after(entry.seq)?);
        let common = before
            .iter()
            .zip(&after)
            .take_while(|(a, b)| a == b)
            .count();
        match &entry.body {
            Body::Visited(visited) => {
                let first = before.get(common).map(|(place, _, _)| Seq(*place));
                let said = visited.first_changed;
                demand!(
                    said == first,
                    "{} says {said:?} was the first change, it was {first:?}",
                    entry.seq
                );
                let lost = sent.get(common..).unwrap_or_default();
                costs(run, entry.seq, visited, lost)?;
            }
            Body::Edited(_) => {}
            body => {
                let supersedes = supersedes(run, entry.seq);
                let grew = common == before.len() || supersedes;
                demand!(
                    grew,
                    "{} is no change and yet changes the window: {body:?}",
                    entry.seq
                );
            }
        }
        sent.truncate(common);
        if matches!(entry.body, Body::Called(_)) {
            sent.clone_from(&after);
        }
        before = after;
    }
    sent_grows(run)
}

/// Whether a visit says what its change costs: the tokens of these items, by the method it names.
fn costs(run: &Run, at: Seq, visit: &Visited, lost: &[(u64, u64, u64)]) -> Found {
    let said = visit.invalidated.as_ref();
    demand!(
        said.is_some() == visit.first_changed.is_some(),
        "{at} changes {:?} and says it costs {said:?}",
        visit.first_changed
    );
    let Some(said) = said else { return Ok(()) };
    let sizes = run.world.chat.with_projection(|p| {
        let sizes = lost.iter().map(|(_, id, _)| {
            let message = p.message(MessageId(Seq(*id)))?;
            let skeleton = &message.form_at(Seq(at.0.checked_sub(1)?))?.skeleton;
            let count = skeleton.tokens.as_ref();
            match count.filter(|c| c.method == said.method) {
                Some(count) => Some(count.amount),
                None if said.method == ESTIMATE => Some(skeleton.utf16.div_ceil(4)),
                None => None,
            }
        });
        sizes.collect::<Option<Vec<u64>>>()
    })?;
    // Counts that were supplied may be gone with the fold that had them.
    let Some(sizes) = sizes else { return Ok(()) };
    let sum = sizes.into_iter().fold(0, u64::saturating_add);
    demand!(
        said.amount == sum,
        "{at} says its change costs {said:?}; of what the call was sent it is {sum}"
    );
    Ok(())
}

/// Whether a message supersedes an earlier result.
fn supersedes(run: &Run, seq: Seq) -> bool {
    let end = run.moments.last();
    let out_by = |m: &crate::testkit::model::Message| {
        m.out
            .as_ref()
            .is_some_and(|out| out.by == seq.0 && out.reason == LeftReason::Superseded)
    };
    end.is_some_and(|end| end.messages.iter().any(out_by))
}

/// What one call is sent begins with what the call before was sent, its last message aside (a later
/// block may join it), where nothing in between changed the window.
fn sent_grows(run: &Run) -> Found {
    let chat = &run.world.chat;
    let sent = chat.with_projection(|p| p.sent().to_vec())?;
    for pair in sent.windows(2) {
        let [one, two] = pair else { continue };
        let between = run
            .entries
            .iter()
            .filter(|e| one.fact.seq < e.seq && e.seq <= two.fact.seq);
        if between.into_iter().any(|e| rewrites(run, e)) {
            continue;
        }
        let messages = |at| -> Result<Vec<serde_json::Value>, Failure> {
            let body: serde_json::Value =
                serde_json::from_str(&rendered(chat, at, Profile::OpenAiChat)?)?;
            Ok(body
                .get("messages")
                .and_then(|m| m.as_array())
                .cloned()
                .unwrap_or_default())
        };
        let (a, b) = (messages(one.fact.seq)?, messages(two.fact.seq)?);
        let kept = a.len().saturating_sub(1);
        let same = a.iter().zip(&b).take(kept).all(|(a, b)| a == b) && b.len() >= kept;
        demand!(
            same,
            "what {} was sent is not how what {} was sent begins",
            one.fact.seq,
            two.fact.seq
        );
    }
    Ok(())
}

/// Whether an entry may change what was sent before: visits and edits that change something,
/// results, which are sent right after their call wherever they were logged, and later blocks of a
/// message, which are sent as a part of it.
fn rewrites(run: &Run, entry: &crate::log::Entry) -> bool {
    match &entry.body {
        Body::Visited(v) => v.first_changed.is_some(),
        Body::Edited(_) | Body::Configured(_) => true,
        Body::Appended(a) => {
            let answers = a.skeleton.parts.iter().any(|p| p.answers.is_some());
            answers || a.continues.is_some() || supersedes(run, entry.seq)
        }
        _ => false,
    }
}
