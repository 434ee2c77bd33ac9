//! A session file, as far as it is looked into to list it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ctxlog::formats::json;
use ctxlog::log::{Fields, Json};

use crate::cli::errors::Failure;

/// Lines longer than this are passed over: what is looked for stands in short ones.
const LINE_BYTES: u64 = 1 << 20;
/// So many lines are looked at for the project and a person's first words.
const FIRST_LINES: usize = 200;
/// So much of a person's first words is kept.
const WORDS: usize = 60;

/// A session.
pub struct Session {
    pub agent: &'static str,
    pub id: String,
    pub path: PathBuf,
    pub bytes: u64,
    pub modified: Option<SystemTime>,
    /// The folder that the agent worked in.
    pub project: Option<String>,
    /// How often the agent compacted it.
    pub compactions: u64,
    /// A person's first words.
    pub first: Option<String>,
}

impl Session {
    /// A session by its file; `None` where that cannot be looked at.
    pub fn of(agent: &'static str, path: &Path) -> Option<Self> {
        let metadata = path.metadata().ok()?;
        let stem = path.file_stem()?.to_string_lossy().into_owned();
        Some(Self {
            agent,
            id: id(&stem).to_owned(),
            path: path.to_owned(),
            bytes: metadata.len(),
            modified: metadata.modified().ok(),
            project: None,
            compactions: 0,
            first: None,
        })
    }

    /// The file, and those of its sub-agents.
    pub fn files(&self) -> Vec<PathBuf> {
        let agents = self.path.with_extension("").join("subagents");
        let agents = Some(agents).filter(|dir| self.agent == "claude-code" && dir.is_dir());
        std::iter::once(self.path.clone()).chain(agents).collect()
    }

    /// Reads what a list shows of it, once through the file.
    pub fn look(&mut self) -> Result<(), Failure> {
        let failed = |e: std::io::Error| Failure::file("read", &self.path, &e);
        let mut input = BufReader::with_capacity(1 << 16, File::open(&self.path).map_err(failed)?);
        let mut line = Vec::new();
        for number in 0_usize.. {
            line.clear();
            let mut part = input.by_ref().take(LINE_BYTES);
            let size = part.read_until(b'\n', &mut line);
            let size = size.map_err(|e| Failure::file("read", &self.path, &e))?;
            if size == 0 {
                break;
            }
            let early = number < FIRST_LINES && (self.first.is_none() || self.project.is_none());
            if early || holds(&line, b"compact") {
                let text = std::str::from_utf8(&line).unwrap_or_default();
                if let Some(fields) = json::object(&Json(text.trim().to_owned())) {
                    self.take(&fields);
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, line: &Fields) {
        let text = |name: &str| json::text_field(line, name);
        let kind = text("type").unwrap_or_default();
        let is_compaction = match kind.as_str() {
            "system" => text("subtype").as_deref() == Some("compact_boundary"),
            kind => kind == "compacted",
        };
        self.compactions = self.compactions.saturating_add(u64::from(is_compaction));
        let payload = json::field(line, "payload").and_then(json::object);
        let cwd = || json::text_field(payload.as_ref()?, "cwd");
        self.project = self.project.take().or_else(|| text("cwd")).or_else(cwd);
        if self.first.is_none() {
            self.first = payload.as_ref().map_or_else(|| of_claude(line), of_codex);
        }
    }
}

/// The id in a file's name: codex puts a time before it, gemini too.
fn id(stem: &str) -> &str {
    let dated = stem
        .strip_prefix("rollout-")
        .or_else(|| stem.strip_prefix("session-"));
    let Some(dated) = dated else { return stem };
    // A uuid is the last five groups of a rollout's name.
    let from = dated
        .rmatch_indices('-')
        .nth(4)
        .map_or(0, |(at, _)| at.saturating_add(1));
    let uuid = dated.get(from..).unwrap_or(dated);
    if uuid.len() == 36 { uuid } else { dated }
}

fn holds(line: &[u8], word: &[u8]) -> bool {
    line.windows(word.len()).any(|at| at == word)
}

/// A person's words on a line of Claude Code: no command, and nothing that the client added.
fn of_claude(line: &Fields) -> Option<String> {
    let flag = |name: &str| json::field(line, name).and_then(json::boolean) == Some(true);
    let user = json::text_field(line, "type").as_deref() == Some("user");
    if !user || flag("isMeta") || flag("isSidechain") || flag("isCompactSummary") {
        return None;
    }
    let message = json::object(json::field(line, "message")?)?;
    words(json::field(&message, "content")?)
}

/// A person's words in a line of Codex.
fn of_codex(payload: &Fields) -> Option<String> {
    let said = json::text_field(payload, "type").as_deref() == Some("user_message");
    said.then(|| json::text_field(payload, "message"))
        .flatten()
        .map(|text| short(&text))
}

fn words(content: &Json) -> Option<String> {
    let text = json::string(content).or_else(|| {
        let blocks = json::array(content)?;
        blocks
            .iter()
            .find_map(|block| json::text_field(&json::object(block)?, "text"))
    });
    text.filter(|text| !text.starts_with('<'))
        .map(|text| short(&text))
}

fn short(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    line.chars().take(WORDS).collect()
}
