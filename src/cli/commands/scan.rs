//! `scan`: the sessions of known agents on this computer.

mod session;

use std::path::{Path, PathBuf};

use chrono::{DateTime, Utc};
use serde::Serialize;

use self::session::Session;
use super::import;
use crate::cli::args::strategies;
use crate::cli::errors::{Failure, NO};
use crate::cli::finding;
use crate::cli::human::{self, Look, number};
use crate::cli::progress::Progress;
use crate::cli::{Context, stores};

const SCAN: &str = concat!(
    "\
EXAMPLES
  ctxlog scan
  ctxlog scan --import 3f2a            the session whose id begins so
  ctxlog scan --agent codex --all --json
  ctxlog scan --home /mnt/laptop/ada

It looks where Claude Code, Codex and Gemini CLI keep their sessions, under their own settings
(CLAUDE_CONFIG_DIR, CODEX_HOME) or in the home folder. It reads, and writes nothing but what --import
adds to the store.",
    strategies!()
);

#[derive(clap::Args, Debug)]
#[command(after_help = SCAN)]
pub struct Args {
    /// Only the sessions of this agent: claude-code, codex or gemini-cli
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
    /// List all sessions, not only the newest 20
    #[arg(long)]
    pub all: bool,
    /// Look in this home folder
    #[arg(long, value_name = "DIR")]
    pub home: Option<PathBuf>,
    /// Import the session whose id begins so
    #[arg(long, value_name = "ID")]
    pub import: Option<String>,
    /// Replay what is imported through this strategy; may be given several times
    #[arg(long, value_name = "SPEC", requires = "import")]
    pub strategy: Vec<String>,
}

/// How many sessions are listed where not all are wanted.
const NEWEST: usize = 20;

/// An agent, and where it keeps its sessions.
struct Agent {
    name: &'static str,
    /// The variable that moves its folder.
    variable: Option<&'static str>,
    /// Its folder in the home folder.
    folder: &'static str,
    /// Where the sessions are in there.
    within: &'static str,
    /// How the stem of a session's file begins, and how none does.
    begins: &'static str,
    begins_not: &'static str,
    extensions: &'static [&'static str],
}

const AGENTS: [Agent; 3] = [
    Agent {
        name: "claude-code",
        variable: Some("CLAUDE_CONFIG_DIR"),
        folder: ".claude",
        within: "projects",
        begins: "",
        begins_not: "agent-",
        extensions: &["jsonl"],
    },
    Agent {
        name: "codex",
        variable: Some("CODEX_HOME"),
        folder: ".codex",
        within: "sessions",
        begins: "rollout-",
        begins_not: "-",
        extensions: &["jsonl"],
    },
    Agent {
        name: "gemini-cli",
        variable: None,
        folder: ".gemini",
        within: "tmp",
        begins: "session-",
        begins_not: "-",
        extensions: &["json", "jsonl"],
    },
];

impl Agent {
    fn is_session(&self, file: &Path) -> bool {
        let text =
            |part: Option<&std::ffi::OsStr>| part.and_then(|p| p.to_str().map(str::to_owned));
        let (stem, extension) = (text(file.file_stem()), text(file.extension()));
        let named =
            |stem: &String| stem.starts_with(self.begins) && !stem.starts_with(self.begins_not);
        let known = |extension: String| self.extensions.contains(&extension.as_str());
        stem.as_ref().is_some_and(named) && extension.is_some_and(known)
    }

    /// Its folder: what it is told itself counts, unless another home is looked at.
    fn folder(&self, home: Option<&Path>) -> Option<PathBuf> {
        let own = self.variable.filter(|_| home.is_none());
        let own = own.and_then(std::env::var_os).filter(|dir| !dir.is_empty());
        let base = match (own, home) {
            (Some(dir), _) => PathBuf::from(dir),
            (None, Some(home)) => home.join(self.folder),
            (None, None) => std::env::home_dir()?.join(self.folder),
        };
        Some(base.join(self.within))
    }
}

/// A folder that was looked at.
struct Looked {
    folder: PathBuf,
    sessions: usize,
    bytes: u64,
}

#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    agent: &'static str,
    session: &'a str,
    path: &'a Path,
    project: &'a Option<String>,
    bytes: u64,
    modified: Option<String>,
    compactions: u64,
    first: &'a Option<String>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let (mut sessions, looked) = found(args)?;
    sessions.sort_by(|a, b| {
        b.modified
            .cmp(&a.modified)
            .then_with(|| a.path.cmp(&b.path))
    });
    if let Some(wanted) = &args.import {
        return taken(cx, args, &sessions, wanted);
    }
    let all = sessions.len();
    let listed = if args.all || cx.json {
        all
    } else {
        NEWEST.min(all)
    };
    let shown = sessions.get_mut(..listed).unwrap_or_default();
    let mut progress = Progress::new(cx.progress, "reading sessions");
    let total = u64::try_from(shown.len()).unwrap_or(u64::MAX);
    for (session, done) in shown.iter_mut().zip(1_u64..) {
        session.look()?;
        progress.at(done, total);
    }
    drop(progress);
    if cx.json {
        for session in shown.iter() {
            cx.out.json(&line(session))?;
        }
    } else {
        table(cx, shown)?;
        told(cx, &looked, all.saturating_sub(listed))?;
    }
    if all == 0 {
        let message = "no session of a known agent is here";
        let help = "name the file with `ctxlog import FILE`, or another home folder with --home";
        return Err(Failure::new(NO, "nothing-matches", message, help));
    }
    Ok(0)
}

/// The sessions of the wanted agents, and what was looked at.
fn found(args: &Args) -> Result<(Vec<Session>, Vec<Looked>), Failure> {
    let wanted = |agent: &&Agent| args.agent.as_deref().is_none_or(|name| name == agent.name);
    if !AGENTS.iter().any(|agent| wanted(&agent)) {
        let names = AGENTS.map(|agent| agent.name).join(", ");
        let message = format!(
            "no agent '{}' is known",
            args.agent.as_deref().unwrap_or_default()
        );
        return Err(Failure::usage(
            "invalid-option",
            message,
            format!("it is one of {names}"),
        ));
    }
    let (mut sessions, mut looked) = (Vec::new(), Vec::new());
    for agent in AGENTS.iter().filter(wanted) {
        let Some(folder) = agent.folder(args.home.as_deref()) else {
            continue;
        };
        let before = sessions.len();
        if folder.is_dir() {
            for given in finding::files(std::slice::from_ref(&folder))? {
                if agent.is_session(&given.path) {
                    sessions.extend(Session::of(agent.name, &given.path));
                }
            }
        }
        let own = sessions.get(before..).unwrap_or_default();
        looked.push(Looked {
            folder,
            sessions: own.len(),
            bytes: own.iter().map(|s| s.bytes).fold(0, u64::saturating_add),
        });
    }
    Ok((sessions, looked))
}

/// Imports the one session that is meant.
fn taken(cx: &mut Context, args: &Args, sessions: &[Session], wanted: &str) -> Result<u8, Failure> {
    let meant = |s: &&Session| s.id.starts_with(wanted) || s.path == Path::new(wanted);
    let found: Vec<&Session> = sessions.iter().filter(meant).collect();
    let help = "list them with `ctxlog scan --all`";
    let [session] = found.as_slice() else {
        let message = match found.len() {
            0 => format!("no session's id begins with '{wanted}'"),
            n => format!("the ids of {n} sessions begin with '{wanted}'"),
        };
        return Err(Failure::new(NO, "nothing-matches", message, help));
    };
    import::run(
        cx,
        &import::Args::of(session.files(), args.strategy.clone()),
    )
}

fn line(session: &Session) -> Line<'_> {
    Line {
        schema: "ctxlog.scan/1",
        agent: session.agent,
        session: &session.id,
        path: &session.path,
        project: &session.project,
        bytes: session.bytes,
        modified: session
            .modified
            .map(|at| DateTime::<Utc>::from(at).to_rfc3339()),
        compactions: session.compactions,
        first: &session.first,
    }
}

/// A row a session; what it began with comes last and is cut to the width.
fn table(cx: &mut Context, sessions: &[Session]) -> Result<(), Failure> {
    if sessions.is_empty() {
        return Ok(());
    }
    let Look { width, .. } = cx.look;
    let titles = [
        "session",
        "agent",
        "changed",
        "size",
        "compacted",
        "project",
    ];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    rows.extend(sessions.iter().map(|s| row(s, width)));
    if width < 80 {
        // Narrow terminals do without agents and days.
        rows.iter_mut().for_each(|row| drop(row.drain(1..3)));
    }
    let right: &[usize] = if width < 80 { &[1, 2] } else { &[3, 4] };
    for (n, row) in human::table(&rows, right).iter().enumerate() {
        let row = human::fit(row, width, "…");
        cx.out.line(&if n == 0 { cx.look.dim(&row) } else { row })?;
    }
    Ok(())
}

fn row(session: &Session, width: usize) -> Vec<String> {
    let day = session.modified.map(|at| {
        DateTime::<Utc>::from(at)
            .format("%Y-%m-%d %H:%M")
            .to_string()
    });
    let compacted = match session.compactions {
        0 => String::new(),
        1 => "once".to_owned(),
        n => format!("{} times", number(n)),
    };
    let id: String = session
        .id
        .chars()
        .take(if width < 100 { 8 } else { 36 })
        .collect();
    let project = session
        .project
        .as_deref()
        .map(last_folders)
        .unwrap_or_default();
    let first = session
        .first
        .as_ref()
        .map_or_else(String::new, |f| format!("  “{}”", human::escape(f)));
    vec![
        human::escape(&id),
        session.agent.to_owned(),
        day.unwrap_or_default(),
        stores::bytes(session.bytes),
        compacted,
        format!("{}{first}", human::escape(&project)),
    ]
}

/// The last two folders of a path: there is room for more in `--json`.
fn last_folders(path: &str) -> String {
    match path.rmatch_indices(['/', '\\']).nth(1) {
        Some((at, _)) if at > 0 => format!("…{}", path.get(at..).unwrap_or_default()),
        _ => path.to_owned(),
    }
}

/// What was read, and what to do next.
fn told(cx: &mut Context, looked: &[Looked], more: usize) -> Result<(), Failure> {
    if more > 0 {
        let more = human::things(u64::try_from(more).unwrap_or(u64::MAX), "older session");
        cx.out.line(&format!("and {more}: --all lists them"))?;
    }
    for folder in looked {
        let shown = human::escape(&folder.folder.display().to_string());
        let what = match folder.sessions {
            0 => "nothing".to_owned(),
            n => {
                let sessions = human::things(u64::try_from(n).unwrap_or(u64::MAX), "session");
                format!("{sessions}, {}", stores::bytes(folder.bytes))
            }
        };
        let line = cx.look.dim(&format!("looked in {shown}: {what}"));
        cx.out.line(&line)?;
    }
    if looked.iter().any(|folder| folder.sessions > 0) {
        let next = cx
            .look
            .dim("nothing was written; take one in with `ctxlog scan --import SESSION`");
        cx.out.line(&next)?;
    }
    Ok(())
}
