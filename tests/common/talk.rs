//! Conversations in words of one letter, and what became of their messages.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::sync::Arc;

use ctxlog::audit::why;
use ctxlog::engine::{Call, Conversation, Error, Store};
use ctxlog::log::{
    Author, Body, GroupReason, Message, MessageId, Part, PartBody, RequestReason, Role, Seq,
    Visited,
};
use ctxlog::strategy::{Strategy, parse};

/// The strategies of a list of specs, parted by `;`.
pub fn chain(specs: &str) -> Vec<Arc<dyn Strategy>> {
    let specs = specs.split(';').filter(|s| !s.is_empty());
    specs.map(|s| parse(s).unwrap()).collect()
}

/// A conversation in memory with these strategies.
pub fn chat(specs: &str) -> Conversation {
    let chat = Store::in_memory().conversation("a").unwrap();
    chat.with_strategies(chain(specs)).unwrap()
}

/// One message a word: `S` system, `U` person, `A` model, `Aa,b` model that calls a and b, `Ra`
/// result of a, `Ia` interim result of a, `X` application.
pub fn message(word: &str) -> Message {
    let (kind, rest) = word.split_at(1);
    match kind {
        "S" => Message::system("instructions"),
        "U" => Message::person("ask"),
        "A" if rest.is_empty() => Message::model("say"),
        "A" => {
            let calls = rest.split(',').map(|id| Part::call(id, "tool", "{}"));
            Message::calls(calls.collect())
        }
        "R" => Message::tool(rest, "out"),
        "I" => interim(rest),
        _ => {
            let injected = vec![Part::text("injected")];
            Message::new(Role::User, Author::Application, injected)
        }
    }
}

/// A result that says that the result is still to come.
fn interim(call: &str) -> Message {
    let mut part = Part::result(call, "pending");
    if let PartBody::Result { interim, .. } = &mut part.body {
        *interim = true;
    }
    Message::new(Role::Tool, Author::Tool, vec![part])
}

/// Appends a message a word; gives their ids.
pub fn talk(chat: &Conversation, words: &str) -> Vec<MessageId> {
    let words = words.split_whitespace();
    words
        .map(|w| chat.append(message(w)).unwrap().message())
        .collect()
}

/// Which of these messages are in the window.
pub fn there(chat: &Conversation, ids: &[MessageId]) -> Vec<usize> {
    let window = chat.window().unwrap();
    let visible = |i: &usize| window.contains(ids[*i]);
    (0..ids.len()).filter(visible).collect()
}

/// The visits filed with a call.
pub fn visits(chat: &Conversation, call: &Call) -> Vec<Visited> {
    let body = |v: &Seq| match chat.entry(*v).unwrap().body {
        Body::Visited(v) => *v,
        other => panic!("{other:?}"),
    };
    call.visits.iter().map(body).collect()
}

/// The reason why a message may not leave, by its newest refusal.
pub fn refuses(chat: &Conversation, id: MessageId) -> Option<GroupReason> {
    let head = chat.head().unwrap().unwrap().seq;
    let answer = why(chat, id, head).unwrap();
    answer.refusals.last().map(|r| r.reason)
}

/// Why a request was not accepted.
pub fn reason(result: Result<impl std::fmt::Debug, Error>) -> RequestReason {
    result.unwrap_err().refusal().unwrap().reason
}
