//! Requests that no script makes, because they need a transcript that changed, a directory, or a
//! content too large to be made often: each refused by its name, so many times.

use std::path::{Path, PathBuf};

use super::reached::Reached;
use super::world::Failure;
use crate::engine::{Error, Namespace, Store};
use crate::formats::{Link, Step, Transcript};
use crate::log::{Message, Part, RequestReason};
use crate::store::NAME_BYTES_MAX;

/// A directory that is removed in the end.
pub(super) struct Scratch(pub PathBuf);

impl Scratch {
    /// A new directory inside another, named after what it is for, its process and a number.
    pub fn new(inside: &Path, what: &str) -> std::io::Result<Self> {
        for n in 0..10_000_u32 {
            let path = inside.join(format!("ctxlog-{what}-{}-{n}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(std::io::Error::other("too many directories of this name"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What cannot be removed stays; there is nobody to tell.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn transcript(words: &[&str]) -> Transcript {
    let step = |words: &&str| Step::Message {
        message: Message::person(*words),
        at: None,
        link: Link::None,
    };
    Transcript {
        format: "openai-chat",
        id: None,
        steps: words.iter().map(step).collect(),
        ..Transcript::default()
    }
}

fn expect<T>(
    reason: RequestReason,
    answer: Result<T, Error>,
    reached: &mut Reached,
) -> Result<(), Failure> {
    match answer {
        Err(error) if error.refusal().is_some_and(|r| r.reason == reason) => {
            reached.refused(reason);
            Ok(())
        }
        Err(error) => Err(format!("{reason} was expected, {error} came").into()),
        Ok(_) => Err(format!("{reason} was expected, and it was done").into()),
    }
}

/// Makes each of these requests so many times, and counts that it was refused by its name.
///
/// # Errors
/// When one is accepted, or refused by another name.
pub(super) fn reach(reached: &mut Reached, times: u64) -> Result<(), Failure> {
    let scratch = Scratch::new(&std::env::temp_dir(), "requests")?;
    let directory = scratch.0.join("store");
    let held = Store::open(&directory)?;
    for n in 0..times {
        let store = Store::in_memory();
        let name = format!("source {n}");
        store.import(&name, &transcript(&["one", "two"]), Vec::new(), &mut |_| {})?;
        let changed = transcript(&["another", "two", "three"]);
        let again = store.import(&name, &changed, Vec::new(), &mut |_| {});
        expect(RequestReason::SourceDiverged, again, reached)?;
        let long = "n".repeat(usize::try_from(NAME_BYTES_MAX)?);
        expect(RequestReason::TooLarge, store.conversation(&long), reached)?;
        expect(RequestReason::StoreBusy, Store::open(&directory), reached)?;
        let asked = store.conversation("asked")?;
        asked.append(Message::person("look it up"))?;
        let call = asked.append(Message::calls(vec![Part::call("t", "look", "{}")]))?;
        asked.append(Message::tool("t", "found"))?;
        let split = asked.fork(call.last, "forked");
        expect(RequestReason::ForkSplitsPair, split, reached)?;
        let nobody = format!(":{name}").parse::<Namespace>();
        expect(RequestReason::InvalidNamespace, nobody, reached)?;
    }
    drop(held);
    Ok(())
}
