//! A window with its words and sizes, as `ctxlog window` and others show it.

use std::ops::ControlFlow;

use serde::Serialize;
use serde_json::{Value, json};

use crate::engine::{Content, Conversation, Error};
use crate::log::{Author, Count, Hash, MessageId, Role, Seq};
use crate::window::{Fold, Item, Measure, MessageState, Projection, Tokens};

use super::export::neutral_json;
use super::select::Place;
use super::why::Moment;

/// How large a window is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Size {
    /// Messages.
    pub messages: u64,
    /// Groups.
    pub groups: u64,
    /// Tokens with the method that counted them; known request settings included.
    pub tokens: Count,
}

/// One message of a shown window.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ShownMessage {
    /// Its id.
    pub id: String,
    /// The entry that introduced it.
    pub seq: Seq,
    /// Who it speaks as.
    pub role: Role,
    /// Who wrote it.
    pub author: Author,
    /// Its content in neutral form; `[{"type": "redacted"}]` where its words were destroyed.
    pub parts: Value,
    /// The entry that put it here: the beginning of its present stay.
    pub entered: Moment,
    /// Whether someone pinned it.
    pub pinned: bool,
    /// The entry that gave its present content.
    pub form: Seq,
    /// Of a claim: the exact messages it stands for.
    pub stands_for: Vec<Seq>,
    /// All its words joined; not part of the JSON, where they stand in `parts`.
    #[serde(skip)]
    pub words: String,
    /// Its tokens by the window's method; not part of the JSON.
    #[serde(skip)]
    pub tokens: u64,
}

/// A window with its words.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ShownWindow {
    /// `ctxlog.window/1`.
    pub schema: &'static str,
    /// The conversation's name.
    pub conversation: String,
    /// The entry after which it stood so.
    pub at: Moment,
    /// Its digest, computed now from the log.
    pub digest: Hash,
    /// The digest the call recorded, where the window of a call was asked for.
    pub recorded_digest: Option<Hash>,
    /// How large it is.
    pub size: Size,
    /// Its messages, in order.
    pub messages: Vec<ShownMessage>,
}

impl ShownWindow {
    /// Whether the log gives another window than the call recorded.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.recorded_digest
            .is_some_and(|recorded| recorded != self.digest)
    }
}

/// The window at a place, folded from the log up to there.
///
/// # Errors
/// When the log or its words are damaged; `unsupported-entry` behind an unknown kind that changes
/// windows.
pub fn window(chat: &Conversation, place: Place) -> Result<ShownWindow, Error> {
    let mut p = fold(chat, place.seq)?;
    let recorded = place.call.and_then(|n| p.call(n).map(|s| s.window));
    let loaded = load(chat, &mut p)?;
    let (window, tokens) = (p.window(), tokens(&p));
    let sizes = tokens.items.iter().copied().chain(std::iter::repeat(0));
    let messages: Vec<ShownMessage> = window
        .items
        .iter()
        .zip(loaded)
        .zip(sizes)
        .filter_map(|((item, content), tokens)| show(&p, item, content, tokens))
        .collect();
    let size = Size {
        messages: p.window_len(),
        groups: count(p.groups_of(&window).len()),
        tokens: Count {
            method: tokens.method,
            amount: tokens.total,
        },
    };
    Ok(ShownWindow {
        schema: "ctxlog.window/1",
        conversation: chat.name().to_owned(),
        at: Moment {
            seq: place.seq,
            iteration: p.iteration_of(place.seq),
        },
        digest: window.digest,
        recorded_digest: recorded,
        size,
        messages,
    })
}

/// The fold of a log up to an entry.
fn fold(chat: &Conversation, n: Seq) -> Result<Projection, Error> {
    let mut fold = Fold::default();
    chat.store().entries(chat.id(), Seq(0), n, &mut |sealed| {
        fold.apply(&sealed.entry);
        ControlFlow::Continue(())
    })?;
    let p = fold.finish();
    match p.unsupported() {
        Some(seq) => Err(Error::UnsupportedEntry { seq }),
        None => Ok(p),
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn tokens(p: &Projection) -> Tokens {
    let none = |_| Tokens {
        method: String::new(),
        total: 0,
        items: Vec::new(),
    };
    p.tokens(Measure::Tiktoken).unwrap_or_else(none)
}

/// Reads the words of the window, and counts them where the log has no count.
fn load(chat: &Conversation, p: &mut Projection) -> Result<Vec<Content>, Error> {
    let wanted: Vec<(MessageId, Seq, u32, bool)> = p
        .window()
        .items
        .iter()
        .filter_map(|item| {
            let form = p.message(item.id)?.form()?;
            let counted = form.skeleton.tokens.is_some();
            Some((item.id, form.given, form.payload, counted))
        })
        .collect();
    let mut loaded = Vec::new();
    for (id, given, payload, counted) in wanted {
        let content = chat.content(given, payload)?;
        if let (Content::Message(message), false) = (&content, counted)
            && let Some(count) = crate::tokens::count(&message.words())
        {
            p.supply_count(id, count);
        }
        loaded.push(content);
    }
    Ok(loaded)
}

fn show(p: &Projection, item: &Item, content: Content, tokens: u64) -> Option<ShownMessage> {
    let state: &MessageState = p.message(item.id)?;
    let skeleton = state.skeleton()?;
    let (parts, words) = match &content {
        Content::Redacted => (json!([{ "type": "redacted" }]), "[redacted]".to_owned()),
        Content::Message(m) => {
            let parts = neutral_json(m).get_mut("parts").map(Value::take);
            (parts.unwrap_or_default(), m.words())
        }
    };
    let stands_for = p.ids_in(&state.sources).into_iter().map(MessageId::seq);
    Some(ShownMessage {
        id: item.id.to_string(),
        seq: item.id.seq(),
        role: match content {
            Content::Message(m) => m.role,
            Content::Redacted => skeleton.role.clone(),
        },
        author: skeleton.author,
        parts,
        entered: state.lives.last()?.entered.into(),
        pinned: state.pinned,
        form: item.form,
        stands_for: stands_for.collect(),
        words,
        tokens,
    })
}
