//! `lint`: which provider rules a window breaks as it is.

use serde::Serialize;

use crate::engine::{Conversation, Error};
use crate::formats::{Profile, lint::lint as lint_body};
use crate::log::Seq;

use super::select::Place;

/// A broken rule.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Broken {
    /// The rule (`C3`, `A4`, … of `docs/PROVIDERS.md`).
    pub rule: &'static str,
    /// What is wrong, in one sentence.
    pub message: String,
    /// The message it is about.
    pub seq: Option<Seq>,
}

/// The answer.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Linted {
    /// `ctxlog.lint/1`.
    pub schema: &'static str,
    /// The provider profile's name.
    pub provider: &'static str,
    /// Whether the provider takes it: nothing listed is a hard rule.
    pub ok: bool,
    /// The broken rules, in the order of the body's messages. Rules that only some models or
    /// endpoints demand say so in their message.
    pub problems: Vec<Broken>,
}

/// Lints the request body of the window at a place, rendered as it is.
///
/// # Errors
/// When the log or its words are damaged.
pub fn lint(chat: &Conversation, place: Place, profile: Profile) -> Result<Linted, Error> {
    let rendered = chat.load_after(place.seq)?.render(profile, true);
    let body = serde_json::from_str(&rendered.body).unwrap_or_default();
    let found = lint_body(profile, &body);
    let ok = !found.iter().any(|p| p.hard);
    let problems = found.into_iter().map(|p| Broken {
        rule: p.rule,
        message: if p.hard {
            p.message
        } else {
            format!("{} (not every model or endpoint minds)", p.message)
        },
        seq: p.index.and_then(|i| rendered.places.get(i).copied()),
    });
    let problems = problems.collect();
    Ok(Linted {
        schema: "ctxlog.lint/1",
        provider: profile.name(),
        ok,
        problems,
    })
}
