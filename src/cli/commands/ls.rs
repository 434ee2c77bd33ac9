//! `ls`: what is here.

use ctxlog::engine::Store;
use ctxlog::log::{Head, MessageId, Seq};
use ctxlog::store::Listed;
use serde::Serialize;

use crate::cli::errors::{Failure, NO};
use crate::cli::human::{self, number};
use crate::cli::{Context, stores};

/// Terminals with fewer columns see fewer counts.
const NARROW: usize = 60;

#[derive(Serialize)]
struct Line {
    schema: &'static str,
    conversation: String,
    namespace: Vec<String>,
    id: String,
    messages: u64,
    window: u64,
    iterations: u64,
    entries: u64,
    strategies: Vec<String>,
    head: Option<Head>,
    /// Of a fork: the name of the conversation it left, its id where it has none any more.
    parent: Option<String>,
    /// Of a fork: the last entry that both share.
    forked_at: Option<Seq>,
    /// Of a sub-agent: the call that started it.
    started_by: Option<Started>,
}

#[derive(Serialize)]
struct Started {
    /// The name of the conversation, its id where it has none any more.
    conversation: String,
    message: String,
}

fn look(store: &Store, all: &[Listed], listed: &Listed) -> Result<Line, Failure> {
    let chat = store.by_id(listed.clone())?;
    let head = chat.head()?;
    let fork = chat.forked()?;
    let started_by = chat.started_by()?.map(|(id, seq, _)| Started {
        conversation: stores::name_of(all, id),
        message: MessageId(seq).to_string(),
    });
    let count = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
    Ok(chat.with_projection(|p| Line {
        schema: "ctxlog.ls/1",
        conversation: listed.name.name.clone(),
        namespace: listed.name.namespace.clone(),
        id: listed.conversation.to_string(),
        messages: count(p.messages().len()),
        window: p.window_len(),
        iterations: count(p.sent().len()),
        entries: head.map_or(0, |h| h.seq.0.saturating_add(1)),
        strategies: p.chain().to_vec(),
        head,
        parent: fork.map(|fork| stores::name_of(all, fork.parent)),
        forked_at: fork.map(|fork| fork.at),
        started_by,
    })?)
}

pub fn run(cx: &mut Context) -> Result<u8, Failure> {
    let store = stores::existing(cx)?;
    let all = store.list()?;
    let wanted = cx.conversation.clone();
    let chosen: Vec<&Listed> = all
        .iter()
        .filter(|l| wanted.as_ref().is_none_or(|name| l.name.name == *name))
        .collect();
    let titles = [
        "messages",
        "window",
        "calls",
        "entries",
        "head",
        "conversation",
    ];
    let right: &[usize] = if cx.look.width < NARROW {
        &[0, 1, 2]
    } else {
        &[0, 1, 2, 3]
    };
    // Two conversations of one name are told apart by their namespaces.
    let elsewhere = chosen.iter().map(|l| stores::namespace(&store, l));
    let elsewhere: Vec<Option<String>> = elsewhere.collect();
    let named = elsewhere.iter().any(Option::is_some);
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    if named {
        rows.iter_mut().for_each(|row| row.push("namespace".into()));
    }
    let mut failed = None;
    for (listed, namespace) in chosen.iter().zip(elsewhere) {
        match look(&store, &all, listed) {
            Ok(line) if cx.json => cx.out.json(&line)?,
            Ok(line) => {
                let namespace = named.then(|| namespace.unwrap_or_default());
                rows.push(row(&line).into_iter().chain(namespace).collect());
            }
            // A damaged log does not hide the others.
            Err(failure) => {
                let failure = Failure {
                    message: format!("'{}': {}", listed.name.name, failure.message),
                    ..failure
                };
                failed = failed.or(Some(failure));
            }
        }
    }
    if cx.look.width < NARROW {
        // Narrow terminals do without entries and heads.
        rows.iter_mut().for_each(|row| drop(row.drain(3..5)));
    }
    if !cx.json && rows.len() > 1 {
        for (n, row) in human::table(&rows, right).iter().enumerate() {
            let row = if n == 0 {
                cx.look.dim(row)
            } else {
                row.clone()
            };
            cx.out.line(&row)?;
        }
    }
    match failed {
        Some(failure) => Err(failure),
        None if chosen.is_empty() => {
            let message = "no conversation is here";
            let help = "bring one with `ctxlog import FILE`, or write a sample with `ctxlog demo`";
            Err(Failure::new(NO, "nothing-matches", message, help))
        }
        None => Ok(0),
    }
}

/// Its name; of a fork also what it left, and where; of a sub-agent what started it.
fn name(line: &Line) -> String {
    let name = human::escape(&line.conversation);
    match (&line.parent, line.forked_at) {
        (Some(parent), Some(at)) => {
            format!("{name} (fork of {} after {at})", human::escape(parent))
        }
        _ => match &line.started_by {
            Some(Started {
                conversation,
                message,
            }) => format!(
                "{name} (started by {message} of {})",
                human::escape(conversation)
            ),
            None => name,
        },
    }
}

fn row(line: &Line) -> [String; 6] {
    [
        number(line.messages),
        number(line.window),
        number(line.iterations),
        number(line.entries),
        line.head.map_or_else(String::new, |h| h.hash.short()),
        name(line),
    ]
}
