//! Summaries of summaries over every recorded transcript: with restores, recalls and undone summaries
//! between them nothing is lost.

use std::collections::BTreeMap;

use ctxlog::engine::{Content, Conversation, Store, SummarizeError, Summarizer, Summary};
use ctxlog::formats::Transcript;
use ctxlog::log::{Message, MessageId, Seq};
use ctxlog::strategy::Prompt;
use ctxlog::testkit::model::check_case;
use ctxlog::testkit::{Case, Law, Script, laws};
use ctxlog::window::{Conservation, Projection};

use crate::files::{OF_REPLAYS, chain, every, hangs_together};

const SPEC: &str = "summarize-oldest:limit=200,keep=2,measure=estimate";
/// How often it is summarised, gone back, and gone on.
const ROUNDS: usize = 4;

/// Tells how many bytes it was shown.
#[derive(Debug)]
struct Brief;

impl Summarizer for Brief {
    fn name(&self) -> String {
        "brief".into()
    }

    fn summarize(&self, prompt: &Prompt) -> Result<Summary, SummarizeError> {
        Ok(Summary::new(format!("- {} bytes.", prompt.text.len())))
    }
}

/// Every message that stands for none, with the entry that logged it.
fn said(chat: &Conversation) -> Vec<(MessageId, Seq)> {
    let said = |p: &Projection| {
        let said = p.messages().iter().filter(|m| m.stands_for.is_none());
        said.map(|m| (m.id, m.logged.seq)).collect()
    };
    chat.with_projection(said).unwrap()
}

/// Word for word, as it was logged.
fn originals(chat: &Conversation) -> BTreeMap<MessageId, Message> {
    let read = |(id, at)| match chat.message_at(id, at).unwrap() {
        Content::Message(message) => (id, *message),
        Content::Redacted => panic!("{id} is redacted"),
    };
    said(chat).into_iter().map(read).collect()
}

/// What stands for others in the window.
fn live(chat: &Conversation) -> Vec<MessageId> {
    let claims = |p: &Projection| {
        let claims = p.messages().iter().filter(|m| m.stands_for.is_some());
        claims.filter(|m| m.visible()).map(|m| m.id).collect()
    };
    chat.with_projection(claims).unwrap()
}

/// Each message is one of the three; what was said is in the window or something there stands for it,
/// unless it was `gone` before.
fn conserved(chat: &Conversation, gone: &[MessageId], place: &str) {
    let fates = |p: &Projection| -> Vec<_> {
        let window = p.window();
        let fate = |(id, _): &(MessageId, Seq)| (*id, p.conservation(*id), window.contains(*id));
        let all = p.messages().iter().map(|m| (m.id, m.logged.seq));
        all.map(|m| fate(&m)).collect()
    };
    let said: Vec<MessageId> = said(chat).into_iter().map(|(id, _)| id).collect();
    for (id, fate, shown) in chat.with_projection(fates).unwrap() {
        let fate = fate.unwrap_or_else(|| panic!("{place}: {id} is lost"));
        assert_eq!(fate == Conservation::Visible, shown, "{place}: {id}");
        let lost = fate == Conservation::Gone && said.contains(&id) && !gone.contains(&id);
        assert!(!lost, "{place}: {id} is gone and nothing stands for it");
    }
}

/// Messages that left without a stand-in: those of the source alone.
fn gone(chat: &Conversation) -> Vec<MessageId> {
    let gone = |p: &Projection| {
        let gone = |m: &MessageId| p.conservation(*m) == Some(Conservation::Gone);
        p.messages().iter().map(|m| m.id).filter(gone).collect()
    };
    chat.with_projection(gone).unwrap()
}

/// Gives how many summaries there were, and how deep the deepest.
fn summarised_again_and_again(transcript: &Transcript, place: &str) -> (usize, u64) {
    let store = Store::in_memory();
    store
        .import("t", transcript, Vec::new(), &mut |_| {})
        .unwrap_or_else(|e| panic!("{place}: {e}"));
    let chat = store.existing("t").unwrap();
    let (before, away) = (originals(&chat), gone(&chat));
    let chat = chat.with_strategies(chain(SPEC)).unwrap();
    let chat = chat.with_summarizer(Brief);
    for round in 0..ROUNDS {
        chat.append(Message::person("And then? ".repeat(60)))
            .unwrap();
        chat.call().unwrap();
        chat.append(Message::model("Then this. ".repeat(60)))
            .unwrap();
        conserved(&chat, &away, place);
        if let Some(claim) = live(&chat).first().filter(|_| round % 2 == 1) {
            // The newest is undone, a call sees its messages again, then they are summarised anew.
            chat.undo(claim.seq()).unwrap();
            conserved(&chat, &away, place);
            chat.append(Message::model("Well.")).unwrap();
            chat.call().unwrap();
            conserved(&chat, &away, place);
        }
        // One that the source took away comes back, where it can; one that is covered is quoted.
        if let Some(id) = away.get(round) {
            let _ = chat.restore(*id);
        }
        let covered = before.keys().rev().nth(round * 3 + 2);
        covered.iter().for_each(|id| drop(chat.recall(**id)));
        conserved(&chat, &away, place);
    }
    chat.append(Message::person("And in the end? ".repeat(60)))
        .unwrap();
    chat.call().unwrap();
    conserved(&chat, &away, place);
    hangs_together(&chat, place);
    let after = originals(&chat);
    for (id, words) in &before {
        assert_eq!(after.get(id), Some(words), "{place}: {id}, word for word");
    }
    // Down the chain of what stands now is everything that it was made of.
    let depth = |p: &Projection| {
        let claims = p.messages().iter().filter(|m| m.stands_for.is_some());
        let deep: Vec<u64> = claims.map(|m| p.generation(m.id)).collect();
        (deep.len(), deep.into_iter().max().unwrap_or(0))
    };
    chat.with_projection(depth).unwrap()
}

/// What is done after a replay in which calls asked for summaries already.
const GOES_ON: &str = "\
strategy summarize-oldest:limit=200,keep=2,measure=estimate
say person \"and then? \" x 60
call
undo 1
say model \"then this. \" x 60
call
restore 3
recall 5
say person \"and then? \" x 60
call
undo 2
recall 9
say model \"then this. \" x 60
call
reopen
restore 8
say person \"well?\"
call
";

/// The naive fold's cost grows with the square of a log.
const STEPS: usize = 32;

fn obeys_the_laws(transcript: &Transcript, place: &str) {
    let mut transcript = transcript.clone();
    transcript.steps.truncate(STEPS);
    let script: Script = GOES_ON.parse().unwrap();
    let case = Case::new(&script).after_replay_of(&transcript);
    let more = [Law::FailureNeutrality, Law::LateArrivals, Law::Shrink];
    let checks = laws::CHECKS.iter();
    for check in checks.filter(|c| OF_REPLAYS.contains(&c.law) || more.contains(&c.law)) {
        check
            .run(&case)
            .unwrap_or_else(|broken| panic!("{place}: {broken}"));
    }
    check_case(&case, true).unwrap_or_else(|e| panic!("{place}: {e}"));
}

/// All of it summarised again and again; the laws on every third of a file, for they take long.
fn loses_nothing(folder: &str) {
    let (mut transcripts, mut summaries, mut deepest) = (0, 0, 0);
    every(folder, |transcript, file, n| {
        let place = format!("{}#{n}", file.display());
        let (made, deep) = summarised_again_and_again(transcript, &place);
        if n % 3 == 0 {
            obeys_the_laws(transcript, &place);
        }
        (transcripts, summaries, deepest) = (transcripts + 1, summaries + made, deepest.max(deep));
    });
    println!("{transcripts} transcripts, {summaries} summaries, up to {deepest} deep");
    assert!(
        transcripts == 0 || deepest >= 3,
        "a third consolidation was made"
    );
}

#[test]
fn openai_chat_files_lose_nothing_by_summaries_of_summaries_and_restores_between() {
    loses_nothing("openai-chat");
}

#[test]
fn anthropic_files_lose_nothing_by_summaries_of_summaries_and_restores_between() {
    loses_nothing("anthropic-messages");
}

#[test]
fn claude_code_files_lose_nothing_by_summaries_of_summaries_and_restores_between() {
    loses_nothing("claude-code");
}
