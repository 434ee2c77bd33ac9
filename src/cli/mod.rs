//! The command line: reads arguments, asks the library, shows answers.

mod args;
mod commands;
mod copying;
mod demo;
mod entry;
mod errors;
mod finding;
mod human;
mod naming;
mod notes;
mod output;
mod progress;
mod reading;
mod stores;
mod summaries;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use clap::Parser as _;
use ctxlog::engine::{Budget, Namespace};

use self::args::{Cli, Color, Command};
use self::errors::{Failure, USAGE};
use self::human::Look;
use self::output::Output;

/// What every command may use.
pub struct Context {
    pub store: PathBuf,
    pub memory: Budget,
    pub namespace: Option<Namespace>,
    pub conversation: Option<String>,
    pub json: bool,
    pub progress: bool,
    pub look: Look,
    pub out: Output,
}

impl Context {
    /// A line of text for people, wrapped to their terminal.
    pub fn text(&mut self, line: &str, indent: usize) -> Result<(), Failure> {
        if !self.look.wraps {
            return self.out.line(line);
        }
        self.out.line(&human::wrap(line, self.look.width, indent))
    }
}

/// Where nothing is known about the terminal.
const PLAIN: Look = Look {
    color: false,
    ascii: true,
    width: 80,
    wraps: false,
};

/// Runs the command that the process was started with.
pub fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().collect();
    // Also where the arguments cannot be read, an error has the form that was asked for.
    let json = arguments.iter().any(|a| a == "--json");
    ExitCode::from(guarded(json, || run(arguments, json)))
}

/// Runs the work; a panic is our bug and says so.
fn guarded(json: bool, work: impl FnOnce() -> u8 + std::panic::UnwindSafe) -> u8 {
    static WORDS: Mutex<String> = Mutex::new(String::new());
    // Panics of the store's engine are caught where they arise and become errors: nothing of them
    // may appear on stderr. One that arrives here is told below.
    std::panic::set_hook(Box::new(|info| {
        *WORDS.lock().unwrap_or_else(PoisonError::into_inner) = info.to_string();
    }));
    let done = std::panic::catch_unwind(work);
    let _ = std::panic::take_hook();
    done.unwrap_or_else(|_| {
        let words = WORDS.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let failure = Failure::bug(words);
        failure.say(json, PLAIN);
        failure.exit
    })
}

fn run(arguments: Vec<OsString>, json: bool) -> u8 {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return unparsed(&error, json),
    };
    match cli.common.color {
        Color::Auto => anstream::ColorChoice::Auto,
        Color::Always => anstream::ColorChoice::Always,
        Color::Never => anstream::ColorChoice::Never,
    }
    .write_global();
    let mut cx = Context {
        store: cli.common.store,
        memory: cli.common.memory,
        namespace: cli.common.namespace,
        conversation: cli.common.conversation,
        json: cli.common.json,
        progress: !cli.common.no_progress,
        look: Look::of_stdout(),
        out: Output::stdout(),
    };
    let command = cli
        .command
        .unwrap_or(Command::Status(commands::status::Args::default()));
    let done = dispatch(&mut cx, &command);
    // What was found out before a failure is data, and comes before the failure's words.
    let flushed = cx.out.flush();
    match done.and_then(|code| flushed.map(|()| code)) {
        Ok(code) => code,
        Err(failure) => {
            failure.say(cx.json, errors_look(cx.look));
            failure.exit
        }
    }
}

/// Errors go to stderr, which may be a terminal where stdout is none.
fn errors_look(look: Look) -> Look {
    let choice = anstream::AutoStream::choice(&std::io::stderr());
    Look {
        color: !matches!(choice, anstream::ColorChoice::Never),
        ..look
    }
}

fn dispatch(cx: &mut Context, command: &Command) -> Result<u8, Failure> {
    match command {
        Command::Demo => demo::run(cx),
        Command::Import(args) => commands::import::run(cx, args),
        Command::Append(args) => commands::append::run(cx, args),
        Command::Call(args) => commands::call::run(cx, args),
        Command::Report(args) => commands::report::run(cx, args),
        Command::Ls => commands::ls::run(cx),
        Command::Status(args) => commands::status::run(cx, args),
        Command::Log(args) => commands::log::run(cx, args),
        Command::Show(args) => commands::show::run(cx, args),
        Command::Window(args) => commands::window::run(cx, args),
        Command::Why(args) => commands::why::run(cx, args),
        Command::Fork(args) => commands::fork::run(cx, args),
        Command::Context(args) => commands::context::run(cx, args),
        Command::Grep(args) => commands::grep::run(cx, args),
        Command::Diff(args) => commands::diff::run(cx, args),
        Command::Bisect(args) => commands::bisect::run(cx, args),
        Command::Scan(args) => commands::scan::run(cx, args),
        Command::Simulate(args) => commands::simulate::run(cx, args),
        Command::Restore(args) => commands::restore::run(cx, args),
        Command::Replace(args) => commands::replace::run(cx, args),
        Command::Clear(args) => commands::replace::clear(cx, args),
        Command::Recall(args) => commands::recall::run(cx, args),
        Command::Pin(args) => commands::pin::run(cx, args, true),
        Command::Unpin(args) => commands::pin::run(cx, args, false),
        Command::Redact(args) => commands::redact::run(cx, args),
        Command::Lint(args) => commands::lint::run(cx, args),
        Command::Verify(args) => commands::verify::run(cx, args),
        Command::Checkpoint(args) => commands::checkpoint::run(cx, args),
        Command::Compact(args) => commands::compact::run(cx, args),
        Command::Export(args) => commands::export::run(cx, args),
        Command::Completions(args) => commands::completions::completions(cx, args),
        Command::Man(args) => commands::completions::man(cx, args),
        Command::SelfTest(args) => commands::self_test::run(cx, args),
    }
}

/// Help and version are answers; the rest is wrong usage.
fn unparsed(error: &clap::Error, json: bool) -> u8 {
    if !error.use_stderr() {
        let _ = error.print();
        return 0;
    }
    let text = error.render().to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    let (message, help) = text.split_once("\n\n").unwrap_or((text, ""));
    let failure = Failure::new(USAGE, "usage", message.trim(), help.trim());
    failure.say(json, errors_look(PLAIN));
    failure.exit
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_our_bug_and_exits_with_255() {
        assert_eq!(guarded(true, || panic!("a planted bug")), errors::BUG);
        assert_eq!(guarded(true, || 3), 3);
    }
}
