//! `bisect`: the first call whose window fails a test.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::{Command, Stdio};

use ctxlog::audit::{self, Bisection, Diff, Place, Selector, Verdict};
use ctxlog::engine::Conversation;
use ctxlog::log::Iteration;
use serde::Serialize;

use crate::cli::args::Body;
use crate::cli::errors::{Failure, NO, USAGE};
use crate::cli::human::{Look, things};
use crate::cli::{Context, PLAIN, stores};

const BISECT: &str = "\
EXAMPLES
  ctxlog bisect -- grep -q 'order 4411'              the first call that could not see it
  ctxlog bisect --good it:6 --bad it:42 -- ./check   between calls that are known
  ctxlog bisect --format openai-chat -- ./check.py   the test is given a request body

The command gets the window of a call on stdin and its number in CTXLOG_ITERATION. It exits with 0
where the window is good, 125 where it cannot be tested, any other code to 127 where it is bad; more
ends the search. What it writes goes to stderr. No model is called.";

/// The test cannot be made on this window.
const SKIP: i32 = 125;
/// A test that ends so was ended by something else.
const ABORTS: i32 = 128;

#[derive(clap::Args, Debug)]
#[command(after_help = BISECT)]
pub struct Args {
    /// A call that passes; the search begins before the first call otherwise
    #[arg(long, value_name = "SEL")]
    pub good: Option<String>,
    /// A call that fails; otherwise the newest call is tested first
    #[arg(long, value_name = "SEL")]
    pub bad: Option<String>,
    /// What the command gets on stdin
    #[arg(long, value_enum, default_value_t = Body::Text)]
    pub format: Body,
    /// The command and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// A test that was run.
#[derive(Serialize)]
struct Ran {
    iteration: Iteration,
    verdict: Verdict,
    exit: i32,
}

#[derive(Serialize)]
struct Bisected {
    schema: &'static str,
    conversation: String,
    /// The last call that is known to be good; 0 where none is.
    good: Iteration,
    /// The first call that is known to be bad; absent where none failed.
    bad: Option<Iteration>,
    /// The first bad call, where it is known.
    first_bad: Option<Iteration>,
    /// The calls that may be the first bad one, where some could not be tested.
    candidates: Vec<Iteration>,
    runs: Vec<Ran>,
    /// What changed from the last good window to the first bad one.
    changes: Option<Diff>,
}

/// What is tested, and how.
struct Test<'a> {
    chat: &'a Conversation,
    args: &'a Args,
    runs: Vec<Ran>,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let calls = chat.calls()?;
    let good = known(&chat, args.good.as_deref())?.unwrap_or(Iteration(0));
    let bad = known(&chat, args.bad.as_deref())?;
    if calls == 0 {
        let help = "windows of calls are tested; `ctxlog call` files one";
        return Err(Failure::new(
            NO,
            "nothing-matches",
            "the log has no call yet",
            help,
        ));
    }
    if bad.is_some_and(|bad| bad <= good) || good.0 >= calls {
        let message = "the good call has to come before the bad one";
        let help = "a search goes from a call that passes to a later one that fails";
        return Err(Failure::usage("range-inverted", message, help));
    }
    let mut test = Test {
        chat: &chat,
        args,
        runs: Vec::new(),
    };
    let bad = match bad {
        Some(bad) => bad,
        None => match test.run(cx, Iteration(calls), None)? {
            Verdict::Bad => Iteration(calls),
            _ => return unknown(cx, test, good),
        },
    };
    let mut search = Bisection::new(good, bad);
    while let Some(call) = search.next() {
        let verdict = test.run(cx, call, Some(search.steps()))?;
        search.tell(call, verdict);
    }
    answer(cx, test, &search)
}

/// The newest call at the moment that a selector names.
fn known(chat: &Conversation, text: Option<&str>) -> Result<Option<Iteration>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let selector: Selector = text.parse()?;
    let place = selector.resolve(chat)?;
    let calls = match place.call {
        Some(call) => call.0,
        None => chat.outline_after(place.seq)?.calls,
    };
    if calls == 0 {
        let message = format!("there was no call by {text}");
        let help = "name a call (it:3), or a moment after one";
        return Err(Failure::new(NO, "range-out-of-bounds", message, help));
    }
    Ok(Some(Iteration(calls)))
}

/// The newest call does not fail, so that there is nothing to look for.
fn unknown(cx: &mut Context, test: Test<'_>, good: Iteration) -> Result<u8, Failure> {
    let skipped = test.runs.iter().any(|r| r.verdict == Verdict::Skip);
    let told = if skipped {
        "the newest call cannot be tested: name one that fails with --bad"
    } else {
        "the newest call passes: there is no failure to look for"
    };
    if cx.json {
        cx.out.json(&Bisected {
            schema: "ctxlog.bisect/1",
            conversation: test.chat.name().to_owned(),
            good,
            bad: None,
            first_bad: None,
            candidates: Vec::new(),
            runs: test.runs,
            changes: None,
        })?;
    } else {
        cx.text(told, 2)?;
    }
    Ok(NO)
}

fn answer(cx: &mut Context, test: Test<'_>, search: &Bisection) -> Result<u8, Failure> {
    let candidates: Vec<Iteration> = search.candidates().collect();
    let first_bad = Some(search.bad()).filter(|_| candidates.len() == 1);
    let changes = changes(test.chat, search)?;
    let runs = test.runs.len();
    let done = Bisected {
        schema: "ctxlog.bisect/1",
        conversation: test.chat.name().to_owned(),
        good: search.good(),
        bad: Some(search.bad()),
        first_bad,
        candidates: if first_bad.is_some() {
            Vec::new()
        } else {
            candidates
        },
        runs: test.runs,
        changes,
    };
    let code = if first_bad.is_some() { 0 } else { NO };
    if cx.json {
        cx.out.json(&done)?;
        return Ok(code);
    }
    let runs = things(u64::try_from(runs).unwrap_or(u64::MAX), "run");
    let text = match first_bad {
        Some(first) => format!("first bad: {first}"),
        None => format!(
            "first bad: one of it:{} to {}; those before the last could not be tested",
            search.good().0.saturating_add(1),
            search.bad()
        ),
    };
    let text = cx.look.bold(&text);
    cx.text(&format!("{text}   ({runs}, no model was called)"), 2)?;
    if let Some(changes) = &done.changes {
        super::diff::show(cx, changes, (test.chat, test.chat))?;
    }
    Ok(code)
}

/// What changed between the last good window and the first bad one.
fn changes(chat: &Conversation, search: &Bisection) -> Result<Option<Diff>, Failure> {
    let place = |call| -> Result<Option<Place>, Failure> {
        let filed = chat.call_filed(call)?;
        Ok(filed.map(|seq| Place {
            seq,
            call: Some(call),
        }))
    };
    Ok(match (place(search.good())?, place(search.bad())?) {
        (Some(good), Some(bad)) => Some(audit::diff((chat, good), (chat, bad), false)?),
        // Before the first call there was no window.
        _ => None,
    })
}

impl Test<'_> {
    /// Runs the command on the window of a call, and tells what it said.
    fn run(
        &mut self,
        cx: &mut Context,
        call: Iteration,
        steps: Option<u32>,
    ) -> Result<Verdict, Failure> {
        let exit = self.exit_of(call)?;
        let verdict = match exit {
            0 => Verdict::Good,
            SKIP => Verdict::Skip,
            _ => Verdict::Bad,
        };
        self.runs.push(Ran {
            iteration: call,
            verdict,
            exit,
        });
        if cx.json {
            return Ok(verdict);
        }
        let word = match verdict {
            Verdict::Good => cx.look.good("good"),
            Verdict::Bad => cx.look.bad("bad"),
            Verdict::Skip => cx.look.loud("skip"),
        };
        let left = steps.map_or_else(String::new, |steps| {
            let left = steps.saturating_sub(1);
            format!("   about {} left", things(left.into(), "step"))
        });
        cx.out.line(&format!("{call} {word}{left}"))?;
        cx.out.flush()?;
        Ok(verdict)
    }

    fn exit_of(&self, call: Iteration) -> Result<i32, Failure> {
        let words = self.words(call)?;
        let (name, arguments) = self.args.command.split_first().ok_or_else(|| {
            Failure::usage("usage", "no command to test with", "give it behind --")
        })?;
        let shown = name.to_string_lossy();
        let started = Command::new(name)
            .args(arguments)
            .env("CTXLOG_ITERATION", call.0.to_string())
            .stdin(Stdio::piped())
            .stdout(std::io::stderr())
            .spawn();
        let mut child = started.map_err(|error| {
            let message = format!("cannot start '{shown}': {error}");
            Failure::usage("io", message, "check its path and that it may be run")
        })?;
        // A test need not read all, or anything; and one that left a child behind must not hold us.
        if let Some(mut stdin) = child.stdin.take() {
            std::thread::spawn(move || {
                let _ = stdin.write_all(words.as_bytes());
            });
        }
        let status = child.wait().map_err(|error| {
            let message = format!("cannot wait for '{shown}': {error}");
            Failure::usage("io", message, "try again")
        })?;
        match status.code() {
            Some(code) if code < ABORTS => Ok(code),
            ended => {
                let how = ended.map_or_else(|| "a signal".to_owned(), |c| format!("exit code {c}"));
                let message = format!("'{shown}' ended by {how} on the window of {call}");
                let help = "the search stopped: a verdict is an exit code from 0 to 127";
                Err(Failure::new(USAGE, "test-aborted", message, help))
            }
        }
    }

    /// What the command is given.
    fn words(&self, call: Iteration) -> Result<String, Failure> {
        let place = Place {
            seq: self.chat.call_at(call)?,
            call: Some(call),
        };
        let shown = audit::window(self.chat, place)?;
        super::window::differs(&shown)?;
        Ok(match self.args.format.profile() {
            Some(profile) => {
                let loaded = self.chat.load_after(place.seq)?;
                loaded.render(profile, false).body
            }
            None => {
                let look = Look {
                    ascii: false,
                    ..PLAIN
                };
                super::window::text(look, &shown, None).join("\n") + "\n"
            }
        })
    }
}
