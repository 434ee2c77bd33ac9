//! The rules of Bedrock's Converse.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{hard, list, messages, soft, text};
use crate::formats::Problem;

pub(super) fn lint(body: &Value) -> Vec<Problem> {
    let messages = match messages("B1", body) {
        Ok(messages) => messages,
        Err(problems) => return problems,
    };
    let mut problems = Vec::new();
    for (index, message) in messages.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|b| messages.get(b));
        let role = text(message, "role");
        if before.is_none() && role != "user" {
            problems.push(hard(
                "B1",
                Some(index),
                "the first message is not the user's",
            ));
        }
        if before.is_some_and(|before| text(before, "role") == role) {
            let what = format!("two messages of role {role} in a row");
            problems.push(hard("B2", Some(index), what));
        }
        if role == "user" {
            answers(index, message, before, &mut problems);
        }
    }
    problems
}

/// The blocks under a key, without those of tools that the provider runs itself.
fn blocks<'a>(message: &'a Value, key: &str) -> Vec<&'a Value> {
    let blocks = list(message, "content").iter();
    let found = blocks.filter_map(|block| block.get(key));
    found
        .filter(|block| text(block, "type").is_empty())
        .collect()
}

/// B3, B4, B5: a user's message against the calls before it.
fn answers(index: usize, message: &Value, before: Option<&Value>, problems: &mut Vec<Problem>) {
    let calls = before
        .map(|before| blocks(before, "toolUse"))
        .unwrap_or_default();
    let results = blocks(message, "toolResult");
    let ids = |blocks: &[&Value]| -> BTreeSet<String> {
        let ids = blocks
            .iter()
            .map(|block| text(block, "toolUseId").to_owned());
        ids.collect()
    };
    let (asked, given) = (ids(&calls), ids(&results));
    if results.len() > calls.len() || given.difference(&asked).next().is_some() {
        let what = "results that the message before holds no call for";
        problems.push(hard("B3", Some(index), what));
    }
    for id in asked.difference(&given) {
        let what = format!("no result of call '{id}'");
        problems.push(hard("B4", Some(index), what));
    }
    let others = list(message, "content").len().saturating_sub(results.len());
    if !results.is_empty() && others > 0 {
        let what = "some models take no words beside results";
        problems.push(soft("B5", Some(index), what));
    }
}
