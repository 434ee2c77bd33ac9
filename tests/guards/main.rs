//! Guards: what reviewers would otherwise have to watch for, read off the sources and the documents.
//! Each guard says how much it read, so that it cannot pass by reading nothing, and is tried on
//! something that it must refuse.

#[path = "../common/data.rs"]
mod data;
mod documents;
mod files;
mod layers;
mod reference;
mod shapes;

use std::path::{Path, PathBuf};

/// The root of the repository.
fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The files under a directory, with paths as seen from the root, sorted.
fn under(directory: &str) -> Vec<String> {
    let mut found = Vec::new();
    walk(&root().join(directory), &mut found);
    found.sort();
    found
}

fn walk(directory: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // Neither what was built or fetched nor git's own, which in a worktree is a file.
        if ["target", ".git", ".ctxlog", "node_modules"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            walk(&path, found);
        } else {
            let path = path.strip_prefix(root()).unwrap();
            found.push(path.to_string_lossy().replace('\\', "/"));
        }
    }
}

fn sources(directory: &str) -> Vec<String> {
    let mut found = under(directory);
    found.retain(|path| has_extension(path, "rs"));
    found
}

fn has_extension(path: &str, extension: &str) -> bool {
    Path::new(path).extension().is_some_and(|e| e == extension)
}

/// A source without its comments and without the tests at its end.
fn code(source: &str) -> String {
    let end = source.find("#[cfg(test)]").unwrap_or(source.len());
    let lines = source[..end].lines();
    let lines = lines.filter(|line| !line.trim_start().starts_with("//"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The words of a text that could be identifiers or paths of them.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let inside = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == ':' || c == '!';
    text.split(move |c| !inside(c)).filter(|w| !w.is_empty())
}
