//! The rules of Gemini's generateContent. They bind turns: consecutive contents of one side count as
//! one, and `function` is the user's side.

use std::collections::BTreeSet;

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

    /// Whether it holds more than responses.
    fn says(&self) -> bool {
        let response = |part: &&Value| named(part, RESPONSE).is_some();
        !self.parts.iter().all(response)
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
    // The model's answer to the newest words of the user is still going on behind them.
    let running = turns.iter().rposition(|turn| !turn.model && turn.says());
    for (at, turn) in turns.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|b| turns.get(b));
        if turn.model {
            let next = turns.get(at.saturating_add(1));
            calls(turn, before, next, &mut problems);
            if running.is_none_or(|running| running < at) {
                unsigned(turn, next, &mut problems);
            }
        } else {
            responses(turn, before, &mut problems);
        }
    }
    if turns.last().is_some_and(|turn| turn.model) {
        let last = contents.len().checked_sub(1);
        let what = "the last content is the model's: add the user's words, or the responses";
        problems.push(soft("G8", last, what));
    }
    problems
}

fn shape(index: usize, content: &Value, problems: &mut Vec<Problem>) {
    let parts = list(content, "parts");
    let mut broken = |rule, what: &str| problems.push(hard(rule, Some(index), what));
    if parts.is_empty() {
        broken("G2", "a content without parts");
    }
    let role = text(content, "role");
    for part in parts {
        let held = DATA.iter().filter(|names| named(part, **names).is_some());
        // A part of video metadata alone is taken.
        let metadata = named(part, ["videoMetadata", "video_metadata"]).is_some();
        match held.count() {
            0 if !metadata => broken("G2", "a part that holds no data"),
            0 | 1 => {}
            _ => broken("G2", "a part that holds data twice"),
        }
        if role != "model" && named(part, CALL).is_some() {
            broken("G3", "a call that is not the model's");
        }
        let object = |of: [&str; 2], field: &str| {
            let value = named(part, of).and_then(|data| data.get(field));
            value.is_none_or(|value| value.is_null() || value.is_object())
        };
        if !object(CALL, "args") || !object(RESPONSE, "response") {
            broken("G10", "arguments or a response that are no object");
        }
    }
    warnings(index, role, parts, problems);
}

/// What some endpoints refuse.
fn warnings(index: usize, role: &str, parts: &[Value], problems: &mut Vec<Problem>) {
    let mut warn = |rule, what: String| problems.push(soft(rule, Some(index), what));
    let empty = |part: &Value| part.get("text").and_then(Value::as_str) == Some("");
    if parts.iter().any(empty) {
        let what = "Vertex takes no empty text: leave the part out";
        warn("G2", what.to_owned());
    }
    if !["", "user", "model", "function"].contains(&role) {
        let what = format!("'{role}' is no role: use user or model, or systemInstruction");
        warn("G9", what);
    }
    if role == "model" && parts.iter().any(|part| named(part, RESPONSE).is_some()) {
        let what = "the model answers a function itself: put the response into a user's content";
        warn("G9", what.to_owned());
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

/// G7: in the turn that is going on, each step's first call goes back with its signature.
fn unsigned(turn: &Turn<'_>, next: Option<&Turn<'_>>, problems: &mut Vec<Problem>) {
    let mut parts = turn.parts.iter();
    let signed = parts.any(|part| named(part, SIGNATURE).is_some());
    let answered = next.is_none_or(|next| !next.all(RESPONSE).is_empty());
    if !turn.all(CALL).is_empty() && !signed && answered {
        let what = "newer models want the thoughtSignature beside a call: send it back, or \
            'skip_thought_signature_validator' where there was none";
        problems.push(soft("G7", Some(turn.index), what));
    }
}

/// G3, G4, G6: a model's turn with calls and what follows it.
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
    let mut seen = BTreeSet::new();
    for call in &calls {
        let id = text(call, "id");
        if text(call, "name").is_empty() {
            problems.push(hard("G6", Some(turn.index), "a call without a name"));
        }
        if !id.is_empty() && !seen.insert(id) {
            let what = format!("two calls of one turn have the id '{id}'");
            problems.push(hard("G6", Some(turn.index), what));
        }
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
