//! `verify`: does the log hang together?

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;

use ctxlog::audit::{self, Verified};
use ctxlog::engine::Store;
use ctxlog::log::{Body, ConversationId, Seq};
use ctxlog::store::{Listed, Name, StoreError};

use crate::cli::errors::{Failure, INTEGRITY};
use crate::cli::human::{self, number};
use crate::cli::progress::Progress;
use crate::cli::{Context, output, stores};

const VERIFY: &str = "\
EXAMPLES
  ctxlog verify                all conversations
  ctxlog verify -c chat --json
  ctxlog verify --salvage      read a damaged store from a copy of its files

Exit code 3 when something does not hang together. The last lines say what no check can show.";

#[derive(clap::Args, Debug)]
#[command(after_help = VERIFY)]
pub struct Args {
    /// Read a copy of the store's files; done by itself where the store cannot be opened
    #[arg(long)]
    pub salvage: bool,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let (store, mut broken) = open(cx, args)?;
    let chosen = match &cx.conversation {
        Some(_) => vec![stores::listed(cx, &store)?],
        None => match store.list() {
            Ok(all) => all,
            Err(error) => {
                broken = broken.or(Some(error.into()));
                unlisted(&store)?
            }
        },
    };
    let unopened = broken.as_ref().map(|failure| failure.message.clone());
    let mut damaged = BTreeSet::new();
    let mut told = Ok(());
    let progress = RefCell::new(Progress::new(cx.progress, "verifying"));
    let mut at = |done, total| progress.borrow_mut().at(done, total);
    audit::verify_each(&store, &chosen, &mut at, &mut |listed, verified| {
        let verified = verified.map_err(Failure::from).and_then(|mut verified| {
            if let Some(why) = &unopened {
                unvouched(&mut verified, why);
            }
            if !verified.ok {
                damaged.insert(listed.conversation);
                broken = broken.take().or_else(|| Some(failure(&verified)));
            }
            progress.borrow().aside(|| tell(cx, &verified))
        });
        told = verified;
        if told.is_ok() {
            ControlFlow::Continue(())
        } else {
            ControlFlow::Break(())
        }
    })?;
    drop(progress);
    told?;
    if cx.conversation.is_none() {
        broken = broken.or(beside(&store, &damaged)?);
    }
    if chosen.is_empty() && broken.is_none() {
        // Says that there is nothing to verify.
        stores::listed(cx, &store)?;
    }
    broken.map_or(Ok(0), Err)
}

/// The store does not open as it is: what vouches for its heads is damaged, so that even a log
/// that hangs together may have had a newer entry.
fn unvouched(verified: &mut Verified, why: &str) {
    if verified.ok {
        verified.ok = false;
        verified.first_bad = verified.head.map(|h| h.seq);
        verified
            .problems
            .push(format!("nothing vouches for the head: {why}"));
    }
}

/// The damaged logs of a store whose names cannot be listed, under their names at birth.
fn unlisted(store: &Store) -> Result<Vec<Listed>, Failure> {
    let mut found: Vec<Listed> = Vec::new();
    for error in store.backend().check(None)? {
        let StoreError::Damaged {
            conversation: Some(id),
            ..
        } = error
        else {
            continue;
        };
        if found.iter().all(|l| l.conversation != id) {
            found.push(Listed {
                name: birth_name(store, id),
                conversation: id,
            });
        }
    }
    Ok(found)
}

/// The name in a log's first own entry; its id where that cannot be read.
fn birth_name(store: &Store, id: ConversationId) -> Name {
    let mut name = Name {
        namespace: Vec::new(),
        name: id.to_string(),
    };
    // What is wrong with the entry is told when the log is verified.
    let first = store.backend().first(id).ok().flatten().unwrap_or(Seq(0));
    let _ = store.entries(id, first, first, &mut |sealed| {
        if let Body::Opened(opened) = sealed.entry.body {
            name = Name {
                namespace: opened.namespace,
                name: opened.name,
            };
        }
        ControlFlow::Break(())
    });
    name
}

/// Opens the store; where that fails for damage, a copy of what can be read of it.
fn open(cx: &Context, args: &Args) -> Result<(Store, Option<Failure>), Failure> {
    if args.salvage {
        return Ok((stores::salvaged(cx)?, None));
    }
    match stores::existing_for_one_pass(cx) {
        Ok(store) => Ok((store, None)),
        Err(failure) if failure.exit == INTEGRITY => match stores::salvaged(cx) {
            Ok(store) => {
                if !cx.json {
                    output::note("the store does not open as it is; reading a copy of its files");
                }
                Ok((store, Some(failure)))
            }
            Err(_) => Err(failure),
        },
        Err(failure) => Err(failure),
    }
}

fn tell(cx: &mut Context, verified: &Verified) -> Result<(), Failure> {
    if cx.json {
        cx.out.json(verified)
    } else {
        show(cx, verified)
    }
}

/// Damage of the store that no verdict told of.
fn beside(store: &Store, told: &BTreeSet<ConversationId>) -> Result<Option<Failure>, Failure> {
    let known = |e: &StoreError| match e {
        StoreError::Damaged {
            conversation: Some(id),
            ..
        } => told.contains(id),
        _ => false,
    };
    let found = store.backend().check(None)?;
    Ok(found
        .into_iter()
        .find(|e| !known(e))
        .map(|e| Failure::integrity(e.to_string())))
}

fn failure(verified: &Verified) -> Failure {
    let first = verified
        .problems
        .first()
        .map_or("it does not hang together", String::as_str);
    let at = verified
        .first_bad
        .map_or_else(String::new, |seq| format!(" at {seq}"));
    let mut failure = Failure::integrity(format!(
        "'{}' is damaged{at}: {first}",
        verified.conversation
    ));
    let name = super::status::shell(&verified.conversation);
    failure.help = format!(
        "nothing was changed; `ctxlog export --salvage -c {name} -o FILE` saves the trusted prefix, \
         `ctxlog --store NEW import FILE` makes a whole store of it"
    );
    failure
}

fn row(cx: &mut Context, name: &str, text: &str) -> Result<(), Failure> {
    let name = cx.look.dim(&format!("  {name:<11}"));
    cx.text(&format!("{name}{}", human::escape(text)), 13)
}

fn show(cx: &mut Context, v: &Verified) -> Result<(), Failure> {
    let verdict = if v.ok {
        cx.look.good("ok")
    } else {
        cx.look.bad("damaged")
    };
    let name = cx.look.bold(&human::escape(&v.conversation));
    cx.text(&format!("{name}  {verdict}"), 13)?;
    let head = v.head.map_or_else(
        || "none".to_owned(),
        |h| format!("{} {}", h.seq, h.hash.short()),
    );
    row(
        cx,
        "chain",
        &format!("{}   {} entries   head {head}", v.chain, number(v.entries)),
    )?;
    if let Some(bad) = v.first_bad {
        let trusted = match bad.0.checked_sub(1) {
            Some(last) => format!("s:0..s:{last}"),
            None => "nothing".to_owned(),
        };
        row(cx, "trusted", &trusted)?;
        row(cx, "suspect", &format!("{bad} and all after it"))?;
    }
    let p = v.payloads;
    let payloads = format!(
        "{} intact   {} redacted   {} lost",
        number(p.intact),
        number(p.redacted),
        number(p.lost)
    );
    row(cx, "payloads", &payloads)?;
    let w = v.windows;
    let all = w
        .recorded
        .saturating_add(w.inferred)
        .saturating_add(w.simulated);
    let windows = format!(
        "{} of {} equal replay   ({} recorded, {} inferred, {} simulated)",
        number(w.equal),
        number(all),
        number(w.recorded),
        number(w.inferred),
        number(w.simulated)
    );
    row(cx, "windows", &windows)?;
    laws(cx, v)?;
    for problem in &v.problems {
        row(cx, "problem", problem)?;
    }
    for gap in &v.not_covered {
        row(cx, "not covered", &format!(" {gap}"))?;
    }
    Ok(())
}

fn laws(cx: &mut Context, v: &Verified) -> Result<(), Failure> {
    let broken: Vec<String> = v
        .laws
        .iter()
        .filter(|(_, verdict)| *verdict != "ok")
        .map(|(law, verdict)| format!("{law} {verdict}"))
        .collect();
    let said = if broken.is_empty() {
        let names: Vec<&str> = v.laws.keys().copied().collect();
        format!("{} hold", names.join(", "))
    } else {
        broken.join(", ")
    };
    row(cx, "laws", &said)?;
    if v.inferred_exceptions > 0 {
        let entries = human::things(v.inferred_exceptions, "time");
        row(
            cx,
            "source",
            &format!("took envelope or request away {entries}; laws do not bind it"),
        )?;
    }
    Ok(())
}
