//! `checkpoint`: a commitment to a head, to keep elsewhere.

#[cfg(feature = "sign")]
use std::path::{Path, PathBuf};

use ctxlog::audit::{Checkpoint, Note};
use ctxlog::engine::Store;
use ctxlog::store::Listed;
use serde::Serialize;

use crate::cli::errors::Failure;
use crate::cli::{Context, stores};

const CHECKPOINT: &str = "\
EXAMPLES
  ctxlog checkpoint > elsewhere/ctxlog.note          of all conversations
  ctxlog verify --checkpoint elsewhere/ctxlog.note   is each still the log it was, but for what came since?
  ctxlog checkpoint --new-key ctxlog.key             makes ctxlog.key and ctxlog.key.pub
  ctxlog checkpoint --sign ctxlog.key

Keep it where whoever can write to the store cannot: a repository, a ticket, another computer. A
checkpoint tells whether the entries it counts are the ones there were; it says nothing about those
that come after it, nor about whether what was logged is true.";

#[derive(clap::Args, Debug)]
#[command(after_help = CHECKPOINT)]
pub struct Args {
    /// Sign with this secret key
    #[cfg(feature = "sign")]
    #[arg(long, value_name = "KEYFILE")]
    pub sign: Option<PathBuf>,
    /// Make a key pair, FILE and FILE.pub, and do nothing else
    #[cfg(feature = "sign")]
    #[arg(long, value_name = "FILE", conflicts_with = "sign")]
    pub new_key: Option<PathBuf>,
    /// What the new key is called in signatures
    #[cfg(feature = "sign")]
    #[arg(
        long,
        value_name = "NAME",
        default_value = "ctxlog",
        requires = "new_key"
    )]
    pub key_name: String,
}

/// A checkpoint as `--json` gives it.
#[derive(Serialize)]
struct Line {
    schema: &'static str,
    conversation: String,
    namespace: Vec<String>,
    id: String,
    origin: String,
    entries: u64,
    head: ctxlog::log::Head,
    signed_by: Vec<String>,
    note: String,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    #[cfg(feature = "sign")]
    if let Some(path) = &args.new_key {
        return new_key(cx, path, &args.key_name);
    }
    let signer = Signer::of(args)?;
    let store = stores::existing(cx)?;
    let all = match &cx.conversation {
        Some(_) => vec![stores::listed(cx, &store)?],
        None => store.list()?,
    };
    if all.is_empty() {
        // Says that there is nothing.
        stores::listed(cx, &store)?;
    }
    for (n, listed) in all.iter().enumerate() {
        let note = note(&store, listed, &signer)?;
        if cx.json {
            cx.out.json(&line(listed, &note))?;
            continue;
        }
        if n > 0 {
            cx.out.line("")?;
        }
        cx.out.line(note.to_string().trim_end_matches('\n'))?;
    }
    Ok(0)
}

fn note(store: &Store, listed: &Listed, signer: &Signer) -> Result<Note, Failure> {
    let head = store.backend().head(listed.conversation)?;
    let checkpoint = head.and_then(|head| Checkpoint::of(listed.conversation, head));
    let Some(checkpoint) = checkpoint else {
        let message = format!("'{}' has no entries", listed.name.name);
        return Err(Failure::integrity(message));
    };
    Ok(signer.note(checkpoint))
}

fn line(listed: &Listed, note: &Note) -> Line {
    let checkpoint = note.checkpoint;
    Line {
        schema: "ctxlog.checkpoint/1",
        conversation: listed.name.name.clone(),
        namespace: listed.name.namespace.clone(),
        id: listed.conversation.to_string(),
        origin: checkpoint.origin(),
        entries: checkpoint.entries(),
        head: checkpoint.head(),
        signed_by: note.signatures.iter().map(|s| s.key.clone()).collect(),
        note: note.to_string(),
    }
}

/// Who signs, if anybody.
struct Signer {
    #[cfg(feature = "sign")]
    key: Option<ctxlog::audit::SecretKey>,
}

impl Signer {
    #[cfg(feature = "sign")]
    fn of(args: &Args) -> Result<Self, Failure> {
        let Some(path) = &args.sign else {
            return Ok(Self { key: None });
        };
        let text = super::verify::small_file(path)?;
        let key = ctxlog::audit::SecretKey::read(&text).map_err(|error| {
            let message = format!("{}: {error}", path.display());
            Failure::usage("invalid-key", message, "make one with --new-key FILE")
        })?;
        Ok(Self { key: Some(key) })
    }

    #[cfg(not(feature = "sign"))]
    #[allow(clippy::unnecessary_wraps, reason = "it fails where keys are known")]
    fn of(_: &Args) -> Result<Self, Failure> {
        Ok(Self {})
    }

    #[cfg_attr(not(feature = "sign"), allow(clippy::unused_self))]
    fn note(&self, checkpoint: Checkpoint) -> Note {
        #[cfg(feature = "sign")]
        let signatures = self.key.iter().map(|key| key.sign(&checkpoint)).collect();
        #[cfg(not(feature = "sign"))]
        let signatures = Vec::new();
        Note {
            checkpoint,
            signatures,
            line: 0,
        }
    }
}

#[cfg(feature = "sign")]
fn new_key(cx: &mut Context, path: &Path, name: &str) -> Result<u8, Failure> {
    let key = ctxlog::audit::SecretKey::generate(name)
        .map_err(|error| Failure::usage("invalid-key", error.to_string(), "try another name"))?;
    let mut public_path = path.as_os_str().to_owned();
    public_path.push(".pub");
    let public_path = PathBuf::from(public_path);
    if public_path.exists() {
        let taken = std::io::Error::from(std::io::ErrorKind::AlreadyExists);
        return Err(Failure::file("create", &public_path, &taken));
    }
    let public = key.public();
    create(path, &key.text(), true)?;
    create(&public_path, &public.to_string(), false)?;
    if cx.json {
        let made = serde_json::json!({
            "schema": "ctxlog.key/1",
            "name": public.name(),
            "public_key": public.to_string(),
            "files": [path.display().to_string(), public_path.display().to_string()],
        });
        cx.out.json(&made)?;
    } else {
        cx.out.line(&public.to_string())?;
        let (path, public) = (path.display(), public_path.display());
        crate::cli::output::note(&format!(
            "{path} signs: keep it from others. {public} checks: give it to whoever verifies"
        ));
    }
    Ok(0)
}

/// Writes a file that must not be there yet.
#[cfg(feature = "sign")]
fn create(path: &Path, text: &str, secret: bool) -> Result<(), Failure> {
    use std::io::Write as _;
    let mut options = std::fs::File::options();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if secret {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = secret;
    let write = || {
        let mut file = options.open(path)?;
        writeln!(file, "{text}")?;
        file.sync_all()
    };
    write().map_err(|error| Failure::file("create", path, &error))
}
