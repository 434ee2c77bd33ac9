//! The rules of Gemini's generateContent. They bind turns: consecutive contents of one side count as
//! one, and `function` is the user's side.

use serde_json::Value;

use super::{hard, list, named, soft, text};
use crate::formats::Problem;

/// What a part may hold; both spellings are taken.
const DATA: [[&str; 2]; 9] = [
    ["text", "text"],
    ["functionCall", "function_call"],
    ["functionResponse", "function_response"],
    ["inlineData", "inline_data"],
    ["fileData", "file_data"],
    ["executableCode", "executable_code"],
    ["codeExecutionResult", "code_execution_result"],
    ["toolCall", "tool_call"],
    ["toolResponse", "tool_response"],
];
const CALL: [&str; 2] = ["functionCall", "function_call"];
const SIGNATURE: [&str; 2] = ["thoughtSignature", "thought_signature"];
const RESPONSE: [&str; 2] = ["functionResponse", "function_response"];

struct Turn<'a> {
    model: bool,
    parts: Vec<&'a Value>,
    /// The place of its first content.
    index: usize,
}

impl<'a> Turn<'a> {
    fn all(&self, names: [&str; 2]) -> Vec<&'a Value> {
        self.parts
            .iter()
            .filter_map(|part| named(part, names))
            .collect()
    }
}

pub(super) fn lint(body: &Value) -> Vec<Problem> {
    let contents = list(body, "contents");
    if contents.is_empty() {
        return vec![hard("G1", None, "'contents' must be a non-empty array")];
    }
    let mut problems = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        shape(index, content, &mut problems);
    }
    let turns = turns(contents);
    for (at, turn) in turns.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|b| turns.get(b));
        if turn.model {
            let next = turns.get(at.saturating_add(1));
            calls(turn, before, next, &mut problems);
        } else {
            responses(turn, before, &mut problems);
        }
    }
    if turns.last().is_some_and(|turn| turn.model) {
        let last = contents.len().checked_sub(1);
        problems.push(soft("G8", last, "the last content is the model's"));
    }
    problems
}

fn shape(index: usize, content: &Value, problems: &mut Vec<Problem>) {
    let parts = list(content, "parts");
    if parts.is_empty() {
        problems.push(hard("G2", Some(index), "a content without parts"));
    }
    let held = |part: &Value| DATA.iter().any(|names| named(part, *names).is_some());
    // A part of video metadata alone is taken.
    let metadata = |part: &Value| named(part, ["videoMetadata", "video_metadata"]).is_some();
    if parts.iter().any(|part| !held(part) && !metadata(part)) {
        problems.push(hard("G2", Some(index), "a part that holds no data"));
    }
    let role = text(content, "role");
    if !["", "user", "model", "function"].contains(&role) {
        problems.push(soft("G9", Some(index), format!("'{role}' is no role")));
    }
    if role == "model" && parts.iter().any(|part| named(part, RESPONSE).is_some()) {
        problems.push(soft(
            "G9",
            Some(index),
            "the model answers a function itself",
        ));
    }
}

fn turns(contents: &[Value]) -> Vec<Turn<'_>> {
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (index, content) in contents.iter().enumerate() {
        let model = text(content, "role") == "model";
        if turns.last().is_none_or(|turn| turn.model != model) {
            turns.push(Turn {
                model,
                parts: Vec::new(),
                index,
            });
        }
        if let Some(turn) = turns.last_mut() {
            turn.parts.extend(list(content, "parts"));
        }
    }
    turns
}

/// G3, G4, G6, G7: a model's turn with calls and what follows it.
fn calls(
    turn: &Turn<'_>,
    before: Option<&Turn<'_>>,
    next: Option<&Turn<'_>>,
    problems: &mut Vec<Problem>,
) {
    let calls = turn.all(CALL);
    if calls.is_empty() {
        return;
    }
    if before.is_none() {
        let what = "a call stands before any turn of the user";
        problems.push(hard("G3", Some(turn.index), what));
    }
    let mut parts = turn.parts.iter();
    let signed = parts.any(|part| named(part, SIGNATURE).is_some());
    if !signed && next.is_none_or(|next| !next.all(RESPONSE).is_empty()) {
        let what = "newer models want the thought signature beside a call";
        problems.push(soft("G7", Some(turn.index), what));
    }
    let Some(next) = next else { return };
    let answers = next.all(RESPONSE);
    if answers.len() != calls.len() {
        let what = format!("{} calls and {} responses", calls.len(), answers.len());
        problems.push(hard("G4", Some(turn.index), what));
        return;
    }
    let mut left = calls;
    for answer in answers {
        let fits = |call: &&Value| {
            let (asked, given) = (text(call, "id"), text(answer, "id"));
            text(call, "name") == text(answer, "name")
                && (asked.is_empty() || given.is_empty() || asked == given)
        };
        match left.iter().position(fits) {
            Some(at) => drop(left.remove(at)),
            None => {
                let what = format!("the response of '{}' answers no call", text(answer, "name"));
                problems.push(hard("G6", Some(next.index), what));
            }
        }
    }
}

/// G5: responses follow calls.
fn responses(turn: &Turn<'_>, before: Option<&Turn<'_>>, problems: &mut Vec<Problem>) {
    let called = before.is_some_and(|before| !before.all(CALL).is_empty());
    if !called && !turn.all(RESPONSE).is_empty() {
        let what = "a response follows no turn with calls";
        problems.push(hard("G5", Some(turn.index), what));
    }
}
