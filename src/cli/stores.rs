//! Finding the store and the conversation that a command is about.

use std::path::Path;
use std::sync::Arc;

use ctxlog::engine::{Conversation, Namespace, Store};
use ctxlog::log::{ConversationId, Door, Seq};
use ctxlog::store::{Listed, SledOptions, SledStore};

use super::errors::{Failure, NO};
use super::{Context, human};

/// Whether a store could be created at the path.
pub fn is_vacant(path: &Path) -> bool {
    match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn on(cx: &Context, backend: SledStore) -> Store {
    let store = Store::on(Arc::new(backend))
        .with_memory(cx.memory.held_bytes())
        .with_door(Door::CommandLine, "");
    match &cx.namespace {
        Some(namespace) => store.within(namespace.clone()),
        None => store,
    }
}

fn options(cx: &Context) -> SledOptions {
    SledOptions::default().with_cache_bytes(cx.memory.cache_bytes())
}

/// How many bytes the files below a path have. Those that cannot be read are not counted.
pub fn size(path: &Path) -> u64 {
    let mut sum = 0_u64;
    let mut due = vec![path.to_owned()];
    while let Some(dir) = due.pop() {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(of) if of.is_dir() => due.push(entry.path()),
                Ok(of) => sum = sum.saturating_add(of.len()),
                Err(_) => {}
            }
        }
    }
    sum
}

/// A number of bytes for people.
pub fn bytes(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

/// The store, which has to exist: asking creates nothing.
pub fn existing(cx: &Context) -> Result<Store, Failure> {
    check(cx)?;
    let backend = SledStore::open_existing_with(&cx.store, options(cx))?;
    Ok(on(cx, backend))
}

/// The store, which has to exist, for a command that reads its logs through once.
pub fn existing_for_one_pass(cx: &Context) -> Result<Store, Failure> {
    existing_at(cx, &cx.store)
}

/// The same, of a store that lies elsewhere.
pub fn existing_at(cx: &Context, path: &Path) -> Result<Store, Failure> {
    check(cx)?;
    let least = SledOptions::for_one_pass().cache_bytes;
    let options = SledOptions::default().with_cache_bytes(cx.memory.cache_bytes().min(least));
    let backend = SledStore::open_existing_with(path, options)?;
    Ok(on(cx, backend))
}

/// A damaged store, read from a copy of its files.
pub fn salvaged(cx: &Context) -> Result<Store, Failure> {
    salvaged_at(cx, &cx.store)
}

/// The same, of a store that lies elsewhere.
pub fn salvaged_at(cx: &Context, path: &Path) -> Result<Store, Failure> {
    check(cx)?;
    Ok(on(cx, SledStore::salvage(path)?))
}

/// A server's address is no path: it may not become a directory that is called so.
fn is_path(cx: &Context) -> Result<(), Failure> {
    let shown = cx.store.display().to_string();
    let scheme = shown.split_once("://").map_or("", |(scheme, _)| scheme);
    if scheme.is_empty() || !scheme.chars().all(|c| c.is_ascii_alphanumeric()) {
        return Ok(());
    }
    let message = format!("'{shown}' is an address, and this ctxlog opens directories only");
    let help = "give the directory of a store with --store";
    Err(Failure::usage("invalid-option", message, help))
}

/// Whether there is something to open.
pub fn check(cx: &Context) -> Result<(), Failure> {
    is_path(cx)?;
    if !is_vacant(&cx.store) {
        return Ok(());
    }
    let message = format!("there is no store at {}", cx.store.display());
    let help = "write a sample with `ctxlog demo`, bring a transcript with `ctxlog import FILE`, \
                or name another store with --store";
    Err(Failure::usage("no-store", message, help))
}

/// The store, created where there is none.
pub fn created(cx: &Context) -> Result<Store, Failure> {
    is_path(cx)?;
    Ok(on(cx, SledStore::open_with(&cx.store, options(cx))?))
}

/// The namespace of a conversation, as text for people, where it is not the one that names are of.
pub fn namespace(store: &Store, listed: &Listed) -> Option<String> {
    let namespace = Namespace::of(&listed.name).ok()?;
    let elsewhere = namespace != store.namespace();
    elsewhere.then(|| human::escape(&namespace.to_string()))
}

/// A conversation's name for people, with what it takes to name it.
fn shown(store: &Store, listed: &Listed) -> String {
    let name = human::escape(&listed.name.name);
    match namespace(store, listed) {
        Some(namespace) => format!("{name}  in {namespace}"),
        None => name,
    }
}

/// The name of a conversation; its id where it has none.
pub fn name_of(all: &[Listed], id: ConversationId) -> String {
    let listed = all.iter().find(|listed| listed.conversation == id);
    listed.map_or_else(|| id.to_string(), |listed| listed.name.name.clone())
}

/// The conversation that is asked about.
pub fn conversation(cx: &Context, store: &Store) -> Result<Conversation, Failure> {
    Ok(store.by_id(listed(cx, store)?)?)
}

/// What the listing says of the conversation that is asked about.
pub fn listed(cx: &Context, store: &Store) -> Result<Listed, Failure> {
    let mut all = store.list()?;
    let names = || lines(store, &mut all.iter());
    if let Some(name) = &cx.conversation {
        return by_name(store, &all, name);
    }
    if all.len() > 1 {
        let message = format!("there are {} conversations:{}", all.len(), names());
        let elsewhere = all.iter().any(|l| namespace(store, l).is_some());
        let help = if elsewhere {
            "choose one with -c NAME and, where it is in one, --namespace"
        } else {
            "choose one with -c NAME"
        };
        return Err(Failure::usage("which-conversation", message, help));
    }
    all.pop().ok_or_else(|| {
        let message = format!(
            "the store at {} holds no conversation yet",
            cx.store.display()
        );
        let help = "bring one with `ctxlog import FILE` or begin one with `ctxlog append -c NAME`";
        Failure::new(NO, "nothing-matches", message, help)
    })
}

/// The conversation of a name.
pub fn called(store: &Store, name: &str) -> Result<Conversation, Failure> {
    Ok(store.by_id(by_name(store, &store.list()?, name)?)?)
}

fn lines(store: &Store, of: &mut dyn Iterator<Item = &Listed>) -> String {
    let lines: Vec<String> = of.map(|l| format!("\n  {}", shown(store, l))).collect();
    lines.concat()
}

fn by_name(store: &Store, all: &[Listed], name: &str) -> Result<Listed, Failure> {
    let named: Vec<&Listed> = all.iter().filter(|l| l.name.name == *name).collect();
    // Where no namespace is named, what is there without one goes first.
    let own = |l: &Listed| Namespace::of(&l.name).is_ok_and(|n| n == store.namespace());
    let found = match named.as_slice() {
        [only] => Some(*only),
        several => several.iter().copied().find(|l| own(l)),
    };
    if found.is_none() && !named.is_empty() {
        let message = format!(
            "'{name}' is the name of {} conversations:{}",
            named.len(),
            lines(store, &mut named.iter().copied())
        );
        let help = "choose one with --namespace";
        return Err(Failure::usage("which-conversation", message, help));
    }
    found.cloned().ok_or_else(|| {
        let message = format!("there is no conversation '{name}'");
        let there = lines(store, &mut all.iter());
        Failure::new(NO, "nothing-matches", message, format!("there are:{there}"))
    })
}

/// The entry that a request expects as head, as `s:N`.
pub fn expected(text: Option<&str>) -> Result<Option<Seq>, Failure> {
    let Some(text) = text else { return Ok(None) };
    match text.parse() {
        Ok(ctxlog::audit::Selector::Entry(seq)) => Ok(Some(seq)),
        _ => {
            let message = format!("'{text}' is no entry to expect as head");
            Err(Failure::usage(
                "invalid-selector",
                message,
                "give it as s:N",
            ))
        }
    }
}

/// Whether a path, there or not, is in a directory.
pub fn is_within(path: &Path, directory: &Path) -> bool {
    let Ok(directory) = directory.canonicalize() else {
        return false;
    };
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|part| part.canonicalize().ok());
    there.is_some_and(|there| there.starts_with(&directory))
}
