//! What conversations are made of: the words of real transcripts in a made-up traffic, or words
//! that hardly compress.

use std::path::{Path, PathBuf};

use ctxlog::formats::input::{Piece, RECORD_LIMIT, pieces};
use ctxlog::formats::{Format, Step, Transcript, detect, openai_chat};
use ctxlog::log::{Author, Message, Part, PartBody};

use super::stats::Draw;

/// The folders whose files hold agents at work, in a form that is read here.
const FOLDERS: [&str; 5] = [
    "claude-code",
    "openai-chat",
    "anthropic-messages",
    "mini-swe-traj",
    "sweagent-traj",
];
const DEMO: &str = include_str!("../../src/cli/demo.json");

/// The words of a random message, in bytes. Words are text, so that not every byte may stand in
/// them: 93 equally likely characters carry 6.54 bits each, and nothing compresses them below 0.82.
const RANDOM_BYTES: usize = 1_024;

/// Which words messages have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Text,
    Random,
}

impl Kind {
    pub const ALL: [Self; 2] = [Self::Text, Self::Random];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Random => "random",
        }
    }
}

/// A message, and what the peers store of it: its JSON as chat completions have it. The bytes of
/// that are the content bytes of every figure.
#[derive(Clone, Debug)]
pub struct Said {
    pub message: Message,
    pub json: String,
}

impl Said {
    pub fn bytes(&self) -> u64 {
        u64::try_from(self.json.len()).expect("a length")
    }
}

/// The words of transcripts, by who said them, in their order.
#[derive(Debug, Default)]
pub struct Source {
    persons: Vec<String>,
    models: Vec<String>,
    calls: Vec<(String, String)>,
    results: Vec<String>,
    from: &'static str,
}

impl Source {
    /// The recorded transcripts, or the shipped demo.
    pub fn read() -> Self {
        let mut source = Self::default();
        for file in FOLDERS.iter().flat_map(|folder| recorded(folder)) {
            let bytes = std::fs::read(&file).expect("a transcript can be read");
            transcripts(&bytes).iter().for_each(|t| source.add(t));
        }
        source.from = "recorded transcripts";
        if source.is_poor() {
            source = Self::default();
            transcripts(DEMO.as_bytes())
                .iter()
                .for_each(|t| source.add(t));
            source.from = "the shipped demo transcript, over and over";
        }
        assert!(!source.is_poor(), "no transcript was understood");
        source
    }

    fn is_poor(&self) -> bool {
        self.persons.is_empty()
            || self.models.is_empty()
            || self.calls.is_empty()
            || self.results.is_empty()
    }

    fn add(&mut self, transcript: &Transcript) {
        for step in &transcript.steps {
            let Step::Message { message, .. } = step else {
                continue;
            };
            for part in &message.parts {
                self.add_part(message, part);
            }
        }
    }

    fn add_part(&mut self, message: &Message, part: &Part) {
        if let PartBody::Call {
            name, arguments, ..
        } = &part.body
        {
            self.calls.push((name.clone(), arguments.clone()));
            return;
        }
        let words = Message {
            parts: vec![part.clone()],
            ..message.clone()
        }
        .words();
        let pool = match (&part.body, message.author) {
            _ if words.is_empty() => return,
            (PartBody::Result { .. }, _) => &mut self.results,
            (_, Author::Person) => &mut self.persons,
            (_, Author::Model) => &mut self.models,
            _ => return,
        };
        pool.push(words);
    }

    pub fn caption(&self) -> String {
        format!(
            "words of {} ({} texts of persons, {} of models, {} calls, {} results)",
            self.from,
            self.persons.len(),
            self.models.len(),
            self.calls.len(),
            self.results.len()
        )
    }

    /// Message `n` of conversation `chat`: a person every 20, a call and its result two in four.
    pub fn said(&self, kind: Kind, chat: u64, n: u64) -> Said {
        let mut draw = Draw::new(chat << 40 | n);
        let at = n / 4 + chat * 101;
        let mut text = |pool: &[String], at: u64| match kind {
            Kind::Text => nth(pool, at).clone(),
            Kind::Random => random(&mut draw),
        };
        let message = if n.is_multiple_of(20) {
            Message::person(text(&self.persons, n / 20 + chat * 101))
        } else if n % 4 == 1 {
            let (name, arguments) = nth(&self.calls, at);
            let arguments = match kind {
                Kind::Text => arguments.clone(),
                Kind::Random => format!("\"{}\"", text(&[], 0)),
            };
            Message::calls(vec![Part::call(&format!("call_{n}"), name, &arguments)])
        } else if n % 4 == 2 {
            Message::tool(&format!("call_{}", n - 1), &text(&self.results, at))
        } else {
            Message::model(text(&self.models, n / 2 + chat * 101))
        };
        let json = openai_chat::write_message(&message).0;
        Said { message, json }
    }

    /// Messages `from..from + count` of a conversation. A stretch begins where no call is open.
    pub fn stretch(&self, kind: Kind, chat: u64, from: u64, count: u64) -> Vec<Said> {
        assert_ne!(from % 4, 2, "a stretch would begin with a result");
        (from..from + count)
            .map(|n| self.said(kind, chat, n))
            .collect()
    }
}

fn nth<T>(pool: &[T], n: u64) -> &T {
    let len = u64::try_from(pool.len()).expect("a length");
    &pool[usize::try_from(n % len).expect("a place in a slice")]
}

fn random(draw: &mut Draw) -> String {
    let printable = || (b' '..=b'~').filter(|c| !b"\"\\".contains(c));
    let letters: Vec<u8> = printable().collect();
    (0..RANDOM_BYTES)
        .map(|_| char::from(*draw.pick(&letters)))
        .collect()
}

/// The recorded files of a folder; none where they are not there.
pub fn recorded(folder: &str) -> Vec<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data");
    let root = std::env::var_os("CTXLOG_DATA").map_or_else(beside, PathBuf::from);
    files(&root.join(folder))
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let mut files: Vec<PathBuf> = entries.map(|e| e.expect("a file").path()).collect();
    files.sort();
    files
}

fn transcripts(bytes: &[u8]) -> Vec<Transcript> {
    let found: Vec<Piece> = pieces(bytes, "file", RECORD_LIMIT)
        .map(|piece| piece.expect("bytes in memory can be read"))
        .collect();
    let read = |format: Format| format.read(&mut &*bytes, "file", RECORD_LIMIT);
    let read = detect(&found).map(read).transpose();
    read.expect("bytes in memory can be read")
        .unwrap_or_default()
}
