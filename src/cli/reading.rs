//! Reading what is to be imported: files and stdin, of a format that may have to be found out.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use ctxlog::audit::{ExportError, Exported};
use ctxlog::formats::archive::{Archive, MAGIC};
use ctxlog::formats::input::{Piece, pieces};
use ctxlog::formats::{Format, PackedTranscript, Step, detect, json};

use super::errors::{Failure, INTEGRITY, REFUSED};

/// How much of a file is looked at to find its format out.
const LOOK_PIECES: usize = 200;
const LOOK_BYTES: usize = 16 << 20;

/// The name of ctxlog's own export among the formats.
pub const OWN: &str = "ctxlog";

/// What a file to import is.
pub enum Kind {
    /// A transcript.
    Transcript(Format),
    /// An own export.
    Log,
}

/// A file to import.
pub struct Source {
    /// What notes call it.
    pub shown: String,
    /// What conversations without a name of their own are called after it.
    pub stem: String,
    path: PathBuf,
    /// Stdin is copied to a file, since it may have to be read twice.
    _copy: Option<Copy>,
}

/// A file that is removed when it is done with.
struct Copy(PathBuf);

impl Drop for Copy {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Source {
    /// A file, or stdin for `-`.
    pub fn new(given: &Path) -> Result<Self, Failure> {
        if given == Path::new("-") {
            let copy = copy_stdin().map_err(|e| Failure::file("read", Path::new("stdin"), &e))?;
            let (shown, path) = ("stdin".to_owned(), copy.0.clone());
            return Ok(Self {
                stem: shown.clone(),
                shown,
                path,
                _copy: Some(copy),
            });
        }
        let stem = given.file_stem().unwrap_or(given.as_os_str());
        Ok(Self {
            shown: given.display().to_string(),
            stem: stem.to_string_lossy().into_owned(),
            path: given.to_owned(),
            _copy: None,
        })
    }

    /// A file of a folder, whose conversations are called after where it stands in there.
    pub fn in_folder(path: &Path, stem: &str) -> Self {
        Self {
            shown: path.display().to_string(),
            stem: stem.to_owned(),
            path: path.to_owned(),
            _copy: None,
        }
    }

    /// The file itself, whatever it was called.
    pub fn identity(&self) -> PathBuf {
        self.path
            .canonicalize()
            .unwrap_or_else(|_| self.path.clone())
    }

    /// The text of the file; of an archive that of the log in it.
    fn open(&self, limit: usize) -> Result<Box<dyn BufRead>, Failure> {
        let failed = |e: io::Error| self.failed(&e);
        let file = File::open(&self.path).map_err(failed)?;
        let mut file = BufReader::with_capacity(1 << 16, file);
        if !file.fill_buf().map_err(failed)?.starts_with(MAGIC) {
            return Ok(Box::new(file));
        }
        match Archive::open(file, limit).map_err(failed)? {
            Some(archive) => Ok(Box::new(archive)),
            None => {
                let message = format!("{} is an archive that holds no log of Inspect", self.shown);
                let help = "unpack it, and import the files in it";
                Err(Failure::usage("unknown-format", message, help))
            }
        }
    }

    fn failed(&self, error: &io::Error) -> Failure {
        Failure::file("read", Path::new(&self.shown), error)
    }

    /// The format by the file's first pieces.
    pub fn detect(&self, limit: usize) -> Result<Kind, Failure> {
        let mut seen: Vec<Piece> = Vec::new();
        let mut bytes: usize = 0;
        for piece in pieces(self.open(limit)?, &self.shown, limit) {
            let piece = piece.map_err(|e| self.failed(&e))?;
            let text = piece.value.as_ref().map_or(0, |json| json.0.len());
            bytes = bytes.saturating_add(text);
            seen.push(piece);
            if seen.len() >= LOOK_PIECES || bytes >= LOOK_BYTES {
                break;
            }
        }
        if seen.iter().any(is_own) {
            return Ok(Kind::Log);
        }
        let found = detect(&seen).map(Kind::Transcript);
        found.ok_or_else(|| self.unknown(&seen, limit))
    }

    fn unknown(&self, seen: &[Piece], limit: usize) -> Failure {
        let shown = &self.shown;
        let Some(first) = seen.first() else {
            let help = "give the file that holds the transcript";
            return Failure::usage("empty-file", format!("{shown} holds nothing"), help);
        };
        if seen
            .iter()
            .any(|p| p.value.as_ref().is_err_and(|d| d.text.is_none()))
        {
            return self.too_large(limit);
        }
        match &first.value {
            Err(damage) => {
                let why = format!("{}: {}", first.place, damage.reason);
                let message = format!("{shown} holds no conversation that can be read; {why}");
                Failure::usage(
                    "no-conversation",
                    message,
                    "give a JSON or JSON Lines transcript",
                )
            }
            Ok(_) => {
                let message = format!("{shown} is of no format that is known here");
                let formats = Format::all().map(Format::name);
                let names: Vec<&str> = formats.chain([OWN]).collect();
                let help = format!(
                    "name it with --format, if it is one of {}",
                    names.join(", ")
                );
                Failure::usage("unknown-format", message, &help)
            }
        }
    }

    /// Nothing could be read, because what there is exceeds the limit.
    fn too_large(&self, limit: usize) -> Failure {
        let message = format!(
            "{} holds a record larger than the limit of {limit} bytes and no other conversation",
            self.shown
        );
        let help = "raise the limit with --max-record, as in --max-record 1GiB";
        Failure::new(REFUSED, "too-large", message, help)
    }

    /// Reads the conversations of a file. Those without a message or call are none; what was noted
    /// there is given beside.
    pub fn read(&self, format: Format, limit: usize) -> Result<Found, Failure> {
        let read = format.packed(&mut self.open(limit)?, &self.shown, limit);
        let all = read.map_err(|e| self.failed(&e))?;
        let (conversations, others): (Vec<_>, Vec<_>) = all.into_iter().partition(converses);
        let notes: Vec<(String, String)> = others.iter().flat_map(notes).collect();
        if conversations.is_empty() {
            return Err(self.none(&notes, limit));
        }
        Ok(Found {
            conversations,
            notes,
        })
    }

    fn none(&self, notes: &[(String, String)], limit: usize) -> Failure {
        if notes
            .iter()
            .any(|(_, what)| what.contains("exceeds the limit"))
        {
            return self.too_large(limit);
        }
        let why = notes
            .first()
            .map_or_else(String::new, |(place, what)| format!("; {place}: {what}"));
        let message = format!("{} holds no conversation{why}", self.shown);
        Failure::usage(
            "no-conversation",
            message,
            "give a file that holds messages, or name its --format",
        )
    }

    /// The logs of an own export, read through and found to be whole.
    pub fn logs(
        &self,
        limit: usize,
        progress: &mut dyn FnMut(u64, u64),
    ) -> Result<Vec<Exported>, Failure> {
        Exported::all(&self.path, limit, progress).map_err(|error| match error {
            ExportError::TooLarge { .. } => self.too_large(limit),
            ExportError::Io(error) => self.failed(&error),
            ExportError::Foreign => {
                let message = format!("{} is no export of ctxlog", self.shown);
                let help = "give a file that `ctxlog export` wrote, as a log or as a bundle";
                Failure::usage("unknown-format", message, help)
            }
            ExportError::Line { line, what } => {
                let message = format!("{}:{line}: {what}", self.shown);
                let help = "nothing was written; export the log again from its store";
                Failure::new(INTEGRITY, "damaged-export", message, help)
            }
            error => error.into(),
        })
    }
}

fn is_own(piece: &Piece) -> bool {
    let fields = piece.value.as_ref().ok().and_then(json::object);
    let schema = fields.and_then(|fields| json::text_field(&fields, "schema"));
    schema.is_some_and(|schema| schema.starts_with("ctxlog."))
}

/// What a file holds.
pub struct Found {
    pub conversations: Vec<PackedTranscript>,
    /// Notes of stretches that belong to no conversation: place and words.
    pub notes: Vec<(String, String)>,
}

fn converses(transcript: &PackedTranscript) -> bool {
    let says = |s: Step| {
        matches!(
            s,
            Step::Message { .. } | Step::Called { .. } | Step::Compacted { .. }
        )
    };
    transcript.steps.iter().any(says)
}

fn notes(transcript: &PackedTranscript) -> Vec<(String, String)> {
    let note = |s: Step| match s {
        Step::Noted { what, place, .. } => Some((place, what)),
        _ => None,
    };
    transcript.steps.iter().filter_map(note).collect()
}

/// Copies stdin to a new file that only this user may read.
fn copy_stdin() -> io::Result<Copy> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    for attempt in 0_u32.. {
        let name = format!("ctxlog-stdin-{}-{attempt}", std::process::id());
        let path = std::env::temp_dir().join(name);
        match options.open(&path) {
            Ok(mut file) => {
                let copy = Copy(path);
                io::copy(&mut io::stdin().lock(), &mut file)?;
                return Ok(copy);
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}
