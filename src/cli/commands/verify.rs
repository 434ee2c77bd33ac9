//! `verify`: does the log hang together?

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ctxlog::audit::{self, Breach, Exported, Held, NOTES_BYTES_MAX, Note, Verified};
use ctxlog::engine::Store;
use ctxlog::log::{Body, ConversationId, Seq};
use ctxlog::store::{Listed, Name, StoreError};

use crate::cli::copying::Copy;
use crate::cli::errors::{Failure, INTEGRITY, NO};
use crate::cli::human::{self, number};
use crate::cli::progress::Progress;
use crate::cli::reading::Source;
use crate::cli::{Context, output, stores};

const VERIFY: &str = "\
EXAMPLES
  ctxlog verify                all conversations
  ctxlog verify -c chat --json
  ctxlog verify --checkpoint elsewhere/ctxlog.note
                               also hold the logs to what `ctxlog checkpoint` said of them
  ctxlog verify --copy         leave the directory alone: read a temporary copy of it
  ctxlog verify --bundle chat.bundle.jsonl    a bundle or an export, without a store; with
                               --checkpoint or --public-key held to one, which it may carry
  ctxlog verify --salvage      read a damaged store from a copy of its files

Exit code 3 when something does not hang together. The last lines say what no check can show.";

#[derive(clap::Args, Debug)]
#[command(after_help = VERIFY)]
pub struct Args {
    /// Read a copy of the store's files; done by itself where the store cannot be opened
    #[arg(long)]
    pub salvage: bool,
    /// Hold the logs to these checkpoints, kept elsewhere ('-': stdin)
    #[arg(long, value_name = "FILE")]
    pub checkpoint: Option<PathBuf>,
    /// Demand that the checkpoints are signed by this key: a file, or the key itself
    #[cfg(feature = "sign")]
    #[arg(long, value_name = "FILE|TEXT")]
    pub public_key: Option<String>,
    /// Touch nothing in the store's directory: verify a temporary copy of it, even while another
    /// process has the store open
    #[arg(long)]
    pub copy: bool,
    /// Where the copy is made, instead of the system's temporary directory
    #[arg(long, value_name = "DIR", requires = "copy")]
    pub copy_to: Option<PathBuf>,
    /// Check a bundle or an export instead of a store
    #[arg(long, value_name = "FILE", conflicts_with_all = ["salvage", "copy"])]
    pub bundle: Option<PathBuf>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    if asks_for_key(args) && args.checkpoint.is_none() && args.bundle.is_none() {
        let message = "--public-key says who signed the checkpoints, and there are none";
        return Err(Failure::usage(
            "usage",
            message,
            "give --checkpoint FILE as well",
        ));
    }
    if let Some(file) = &args.bundle {
        return bundle(cx, args, file);
    }
    let kept = Kept::read(args)?;
    stores::check(cx)?;
    let copy = args.copy.then(|| Copy::of(cx, args.copy_to.as_deref()));
    let copy = copy.transpose()?;
    let done = verify(cx, args, &kept, copy.as_ref());
    // Removed when the store on it is closed.
    drop(copy);
    done
}

fn verify(cx: &mut Context, args: &Args, kept: &Kept, copy: Option<&Copy>) -> Result<u8, Failure> {
    let (store, mut broken) = open(cx, args, copy)?;
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
            kept.hold(&store, listed, &mut verified)?;
            let live = copy.and_then(|copy| copy.live).map(str::to_owned);
            verified.not_covered.extend(live);
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
    broken = broken.or(kept.elsewhere(&chosen, cx.conversation.as_deref()));
    if chosen.is_empty() && broken.is_none() {
        // Says that there is nothing to verify.
        stores::listed(cx, &store)?;
    }
    broken.map_or(Ok(0), Err)
}

/// Whether each log of a file hangs together and is all that the file says; nothing is written.
fn bundle(cx: &mut Context, args: &Args, file: &Path) -> Result<u8, Failure> {
    let kept = Kept::read(args)?;
    let source = Source::new(file)?;
    let mut progress = Progress::new(cx.progress, "reading");
    let logs = source.logs(usize::MAX, &mut |done, total| progress.at(done, total))?;
    drop(progress);
    let mut broken = None;
    let mut chosen: Vec<Listed> = Vec::new();
    for log in logs {
        let mut gaps = Vec::new();
        let misread = misread(&log, &mut gaps)?;
        let carried = Kept::carried(args, &log)?;
        let own = log.conversation();
        let store = Store::on(Arc::new(log));
        for listed in store.list()? {
            let wanted = cx.conversation.as_ref();
            if wanted.is_some_and(|name| *name != listed.name.name) {
                continue;
            }
            let mut progress = Progress::new(cx.progress, "verifying");
            let mut verified =
                audit::verify(&store, &listed, &mut |done, total| progress.at(done, total))?;
            drop(progress);
            let notes = if kept.notes.is_empty() {
                &carried
            } else {
                &kept
            };
            if Some(listed.conversation) == own {
                notes.hold(&store, &listed, &mut verified)?;
            } else {
                notes.hold_shared(&store, &listed, &mut verified)?;
            }
            if let Some(what) = &misread {
                verified.ok = false;
                verified.problems.push(what.clone());
            }
            verified.not_covered.extend(gaps.iter().cloned());
            tell(cx, &verified)?;
            if !verified.ok {
                let mut damaged = failure(&verified);
                "nothing was changed; get the file again from where it was exported"
                    .clone_into(&mut damaged.help);
                broken = broken.or(Some(damaged));
            }
            chosen.push(listed);
        }
    }
    if let (Some(name), true) = (&cx.conversation, chosen.is_empty()) {
        let message = format!("{} holds no conversation '{name}'", source.shown);
        let help = "without -c all of its logs are verified";
        return Err(Failure::new(NO, "nothing-matches", message, help));
    }
    // A bundle is of one conversation, and a file of checkpoints may speak of others.
    let spoken = chosen
        .iter()
        .any(|l| kept.notes.contains_key(&l.conversation));
    if !kept.notes.is_empty() && !spoken {
        let message = format!("no checkpoint speaks of what {} holds", source.shown);
        let help = "give the checkpoint of this conversation";
        let none = Failure::new(INTEGRITY, "unknown-conversation", message, help);
        broken = broken.or(Some(none));
    }
    broken.map_or(Ok(0), Err)
}

/// What a line of a bundle has to be read that its entry does not say; and what of that cannot be told.
fn misread(log: &Exported, gaps: &mut Vec<String>) -> Result<Option<String>, Failure> {
    if !log.is_bundle() {
        gaps.push("the file does not say how many entries it should hold".to_owned());
    }
    let misread = log.misread()?;
    if misread.is_none() {
        let gap = "the fields of its lines that are there to be read: it does not say that this \
                   ctxlog wrote them";
        gaps.push(gap.to_owned());
    }
    Ok(misread.flatten())
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

/// Opens the store, or the copy of it; where that fails for damage, a copy of what can be read of it.
fn open(
    cx: &Context,
    args: &Args,
    copy: Option<&Copy>,
) -> Result<(Store, Option<Failure>), Failure> {
    let path = copy.map_or(cx.store.as_path(), Copy::path);
    if args.salvage {
        return Ok((stores::salvaged_at(cx, path)?, None));
    }
    match stores::existing_at(cx, path) {
        Ok(store) => Ok((store, None)),
        Err(failure) if failure.exit == INTEGRITY => match stores::salvaged_at(cx, path) {
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

/// The checkpoints that were kept elsewhere.
#[derive(Default)]
struct Kept {
    notes: BTreeMap<ConversationId, Vec<Note>>,
    /// The key that signed all of them, where one was asked for.
    signed_by: Option<String>,
    /// They came with what they speak of, and nobody signed them.
    came_along: bool,
}

impl Kept {
    fn read(args: &Args) -> Result<Self, Failure> {
        match &args.checkpoint {
            Some(path) => Self::of(args, &small_file(path)?, &path.display().to_string()),
            None => Ok(Self::default()),
        }
    }

    /// Those that a bundle carries.
    fn carried(args: &Args, log: &Exported) -> Result<Self, Failure> {
        match log.carried() {
            Some(text) => {
                let mut kept = Self::of(args, text, "the bundle's first line")?;
                kept.came_along = kept.signed_by.is_none();
                Ok(kept)
            }
            None if args.checkpoint.is_none() && asks_for_key(args) => {
                let message = "the bundle carries no checkpoint that could be signed";
                let help = "give one with --checkpoint";
                Err(Failure::new(INTEGRITY, "bad-signature", message, help))
            }
            None => Ok(Self::default()),
        }
    }

    fn of(args: &Args, text: &str, place: &str) -> Result<Self, Failure> {
        let notes = audit::read_notes(text).map_err(|error| {
            let message = format!("{place} holds no checkpoints: {error}");
            Failure::new(INTEGRITY, "invalid-checkpoint", message, WRONG_NOTE)
        })?;
        let signed_by = signed_by(args, &notes)?;
        let mut kept = Self {
            signed_by,
            ..Self::default()
        };
        for note in notes {
            let id = note.checkpoint.conversation();
            kept.notes.entry(id).or_default().push(note);
        }
        Ok(kept)
    }

    fn hold(&self, store: &Store, listed: &Listed, to: &mut Verified) -> Result<(), Failure> {
        let id = listed.conversation;
        let notes = self.notes.get(&id).map_or(&[][..], Vec::as_slice);
        audit::hold(to, store, id, notes, self.signed_by.as_deref())?;
        if self.came_along && !notes.is_empty() {
            let gap = "whoever wrote this file may have written the checkpoint in it: compare it \
                       with one kept elsewhere, or give the --public-key that signed it";
            to.not_covered.push(gap.to_owned());
        }
        Ok(())
    }

    /// The same for a log of which a fork's bundle holds what they share: a checkpoint of what came behind
    /// cannot be held against that.
    fn hold_shared(
        &self,
        store: &Store,
        listed: &Listed,
        to: &mut Verified,
    ) -> Result<(), Failure> {
        let mut kept = Self {
            notes: self.notes.clone(),
            signed_by: self.signed_by.clone(),
            came_along: self.came_along,
        };
        let notes = kept.notes.entry(listed.conversation).or_default();
        let all = notes.len();
        notes.retain(|note| note.checkpoint.entries() <= to.entries);
        if notes.len() < all {
            let last = to
                .head
                .map_or_else(|| "nothing".to_owned(), |h| h.seq.to_string());
            let gap = format!(
                "checkpoints of what came behind {last}: a fork's bundle holds its parent up to there"
            );
            to.not_covered.push(gap);
        }
        kept.hold(store, listed, to)
    }

    /// Checkpoints of logs that are not here; of one conversation, that none speaks of it.
    fn elsewhere(&self, chosen: &[Listed], asked: Option<&str>) -> Option<Failure> {
        let here: BTreeSet<ConversationId> = chosen.iter().map(|l| l.conversation).collect();
        let (message, help) = if let Some(name) = asked {
            let spoken = here.iter().any(|id| self.notes.contains_key(id));
            if self.notes.is_empty() || spoken {
                return None;
            }
            (
                format!("no checkpoint speaks of '{name}'"),
                "give the checkpoint of this conversation",
            )
        } else {
            let mut notes = self.notes.iter().filter(|(id, _)| !here.contains(id));
            let (id, notes) = notes.next()?;
            let line = notes.first().map_or(0, |note| note.line);
            (
                format!("the checkpoint in line {line} speaks of {id}, and no such log is here"),
                "a log was removed whole, or the checkpoint is of another store",
            )
        };
        Some(Failure::new(
            INTEGRITY,
            "unknown-conversation",
            message,
            help,
        ))
    }
}

/// The notes of a file that speak of a conversation, as they stand there, once the log is held to them.
pub(super) fn spoken_of(
    store: &Store,
    listed: &Listed,
    path: &Path,
    to: &mut Verified,
) -> Result<Option<String>, Failure> {
    let text = small_file(path)?;
    let notes = audit::read_notes(&text).map_err(|error| {
        let message = format!("{} holds no checkpoints: {error}", path.display());
        Failure::new(INTEGRITY, "invalid-checkpoint", message, WRONG_NOTE)
    })?;
    audit::hold(to, store, listed.conversation, &notes, None)?;
    let of = |n: &&Note| n.checkpoint.conversation() == listed.conversation;
    let own: Vec<String> = notes.iter().filter(of).map(ToString::to_string).collect();
    if !own.is_empty() {
        return Ok(Some(own.join("\n")));
    }
    let message = format!("no checkpoint speaks of '{}'", listed.name.name);
    let help = "give the checkpoint of this conversation";
    Err(Failure::new(
        INTEGRITY,
        "unknown-conversation",
        message,
        help,
    ))
}

const WRONG_NOTE: &str =
    "give the file as `ctxlog checkpoint` wrote it; three lines, signatures after an empty one";

#[cfg(feature = "sign")]
const fn asks_for_key(args: &Args) -> bool {
    args.public_key.is_some()
}

#[cfg(not(feature = "sign"))]
const fn asks_for_key(_: &Args) -> bool {
    false
}

/// Demands the signatures that are asked for.
#[cfg(feature = "sign")]
fn signed_by(args: &Args, notes: &[Note]) -> Result<Option<String>, Failure> {
    let Some(given) = &args.public_key else {
        return Ok(None);
    };
    let path = Path::new(given);
    let text = if path.is_file() {
        small_file(path)?
    } else {
        given.clone()
    };
    let key = audit::PublicKey::read(&text).map_err(|error| {
        let help = "give the .pub file that `ctxlog checkpoint --new-key` wrote, or its text";
        Failure::usage("invalid-key", format!("{given}: {error}"), help)
    })?;
    for note in notes {
        key.check(note).map_err(|error| {
            let help = "the checkpoint was changed, or somebody else wrote it";
            Failure::new(INTEGRITY, "bad-signature", error.to_string(), help)
        })?;
    }
    Ok(Some(key.name().to_owned()))
}

#[cfg(not(feature = "sign"))]
#[allow(clippy::unnecessary_wraps, reason = "it fails where keys are known")]
fn signed_by(_: &Args, _: &[Note]) -> Result<Option<String>, Failure> {
    Ok(None)
}

/// A file of text that is not large, or stdin.
pub fn small_file(path: &Path) -> Result<String, Failure> {
    let failed = |error: std::io::Error| Failure::file("read", path, &error);
    let mut text = String::new();
    let limit = NOTES_BYTES_MAX.saturating_add(1);
    let read = if path.as_os_str() == "-" {
        std::io::stdin()
            .lock()
            .take(limit)
            .read_to_string(&mut text)
    } else {
        let file = std::fs::File::open(path).map_err(failed)?;
        file.take(limit).read_to_string(&mut text)
    };
    read.map_err(failed)?;
    Ok(text)
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

/// What is told of a log that does not hang together.
pub(super) fn failure(verified: &Verified) -> Failure {
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
    if let Some(held) = &v.checkpoint {
        row(cx, "checkpoint", &checkpoint(held))?;
    }
    for problem in &v.problems {
        row(cx, "problem", problem)?;
    }
    for gap in &v.not_covered {
        row(cx, "not covered", &format!(" {gap}"))?;
    }
    Ok(())
}

fn checkpoint(held: &Held) -> String {
    let verdict = match held.broken {
        None => format!("size {} consistent", number(held.entries)),
        Some(Breach::Shortened) => "the log is shorter than it was".to_owned(),
        Some(Breach::Rewritten) => "the log is not the one it was".to_owned(),
        Some(Breach::Split) => "two histories of the log were vouched for".to_owned(),
    };
    let signed = held.signed_by.as_ref();
    let signed = signed.map_or_else(String::new, |key| format!("   signed by {key}"));
    format!("{verdict}   {} newer{signed}", number(held.after))
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
