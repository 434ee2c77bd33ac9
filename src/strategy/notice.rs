//! Notices: fixed text by the engine that says that messages left. It claims only what the log can
//! show, quotes nothing that anybody said, and is never longer than what it tells of.

use crate::log::{Author, LeftReason, Message, Part, Role};
use crate::planted::{Bug, planted};
use crate::window::{Decision, Projection};

/// At most so many tools are named.
const TOOLS: usize = 4;
/// A longer name is not named: providers take none.
const NAME_MAX: usize = 64;

/// What a notice tells of.
struct Gone {
    messages: usize,
    /// Their length in UTF-16, that of a notice it absorbs included.
    utf16: u64,
    /// The tools whose results left, each once, in the order of the window.
    tools: Vec<String>,
}

impl Gone {
    fn of(state: &Projection, decision: &Decision) -> Self {
        let mut gone = Self {
            messages: 0,
            utf16: 0,
            tools: Vec::new(),
        };
        for (_, message) in decision.leaving(state) {
            let utf16 = message.skeleton().map_or(0, |s| s.utf16);
            gone.utf16 = gone.utf16.saturating_add(utf16);
            if message.notice {
                continue;
            }
            gone.messages = gone.messages.saturating_add(1);
            for tool in state.tools_of(message) {
                if !gone.tools.iter().any(|t| t == tool) {
                    gone.tools.push(tool.to_owned());
                }
            }
        }
        gone
    }
}

/// The notice for what leaves, with the tools' names if it is shorter than what left, else without,
/// else none.
pub(super) fn write(state: &Projection, decision: &Decision, strategy: &str) -> Option<Message> {
    let real = |(reason, _): (LeftReason, _)| reason != LeftReason::NoticeAbsorbed;
    if !decision.leaving(state).any(real) {
        return None;
    }
    let gone = Gone::of(state, decision);
    let iteration = state.next_iteration().0;
    let plain = format!(
        "[dropped history — {} earlier message(s) were dropped from this window at iteration \
         {iteration} by the '{strategy}' window strategy. Nothing was summarized: those turns are \
         simply not being re-sent. They are retained verbatim in this run's commit log.]",
        gone.messages
    );
    let rich = named(&gone.tools).map(|tools| format!("{plain} {tools}"));
    let shorter = |text: &String| {
        let length = u64::try_from(text.encode_utf16().count()).unwrap_or(u64::MAX);
        length < gone.utf16 || planted(Bug::NoticesAreAlwaysWritten)
    };
    let text = rich.filter(shorter).or(Some(plain).filter(shorter))?;
    let parts = vec![Part::text(text)];
    Some(Message::new(Role::User, Author::Engine, parts))
}

/// What to do about results that left; `None` where no tool has a name that may be shown.
fn named(tools: &[String]) -> Option<String> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_.:-".contains(c);
    let shown = |t: &&String| !t.is_empty() && t.len() <= NAME_MAX && t.chars().all(plain);
    let names: Vec<&str> = tools.iter().filter(shown).map(String::as_str).collect();
    let first = names.iter().take(TOOLS).copied().collect::<Vec<_>>();
    let more = if names.len() > TOOLS { ", …" } else { "" };
    (!first.is_empty()).then(|| {
        format!(
            "[results of {}{more} were among them: call the tool again where one is needed, and do \
             not rebuild ids from memory.]",
            first.join(", ")
        )
    })
}
