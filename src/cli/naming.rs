//! What imported conversations are called.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use ctxlog::formats::PackedTranscript;

use super::commands::import;
use super::reading::Source;

/// The names given so far, with the file each was given for.
#[derive(Default)]
pub struct Names(BTreeMap<String, PathBuf>);

/// How a file's conversations are called.
pub struct Named {
    pub names: Vec<String>,
    /// What a person should know about it: place and words.
    pub notes: Vec<(String, String)>,
}

impl Names {
    /// Names the conversations of a file.
    pub fn of(
        &mut self,
        source: &Source,
        found: &[PackedTranscript],
        args: &import::Args,
        of_several: bool,
    ) -> Named {
        let (identity, several) = (source.identity(), found.len() > 1);
        let (mut names, mut notes) = (Vec::new(), Vec::new());
        for (n, transcript) in found.iter().enumerate() {
            let id = match &transcript.id {
                Some(id) => Some(id.clone()),
                None if several => Some(n.saturating_add(1).to_string()),
                None => None,
            };
            let within = |base: &str| {
                id.as_ref()
                    .map_or(base.to_owned(), |id| format!("{base}/{id}"))
            };
            let wanted = match &args.name {
                None => within(&source.stem),
                Some(name) if of_several => format!("{name}/{}", within(&source.stem)),
                Some(name) if several => within(name),
                Some(name) => name.clone(),
            };
            let free = self.free(&wanted, &names, &identity);
            if free != wanted {
                let what = format!("the name '{wanted}' is taken; this conversation is '{free}'");
                notes.push((source.shown.clone(), what));
            }
            names.push(free);
        }
        self.0
            .extend(names.iter().map(|name| (name.clone(), identity.clone())));
        Named { names, notes }
    }

    /// The name, numbered where another conversation of this file or another file has it.
    fn free(&self, wanted: &str, here: &[String], identity: &Path) -> String {
        let taken = |name: &String| {
            here.contains(name)
                || self
                    .0
                    .get(name)
                    .is_some_and(|file| file.as_path() != identity)
        };
        let numbered = (2_u64..).map(|n| format!("{wanted}/{n}"));
        let mut tried = std::iter::once(wanted.to_owned()).chain(numbered);
        tried
            .find(|name| !taken(name))
            .unwrap_or_else(|| wanted.to_owned())
    }
}
