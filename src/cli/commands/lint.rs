//! `lint`: which provider rules a window breaks.

use ctxlog::audit::{self, Selector};

use crate::cli::args::Provider;
use crate::cli::errors::{Failure, NO};
use crate::cli::{Context, human, stores};

#[derive(clap::Args, Debug)]
#[command(
    after_help = "EXAMPLES\n  ctxlog lint --provider anthropic\n  ctxlog lint --provider openai-chat it:27"
)]
pub struct Args {
    /// Whose rules
    #[arg(long, value_enum)]
    pub provider: Provider,
    /// The moment
    #[arg(value_name = "SEL", default_value = "@")]
    pub at: String,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let at: Selector = args.at.parse()?;
    let store = stores::existing(cx)?;
    let chat = stores::conversation(cx, &store)?;
    let linted = audit::lint(&chat, at.resolve(&chat)?, args.provider.0)?;
    let code = if linted.ok { 0 } else { NO };
    if cx.json {
        cx.out.json(&linted)?;
        return Ok(code);
    }
    for problem in &linted.problems {
        let place = problem
            .seq
            .map_or_else(String::new, |s| format!("m{}", s.0));
        let rule = cx.look.bold(&format!("{:<4}", problem.rule));
        let message = human::escape(&problem.message);
        cx.text(&format!("{rule} {place:<6} {message}"), 12)?;
    }
    let verdict = match (linted.ok, linted.problems.is_empty()) {
        (true, true) => cx.look.good("ok: no rule is broken"),
        (true, false) => cx.look.good("ok: no hard rule is broken"),
        (false, _) => cx
            .look
            .bad("the provider would refuse this window as it is"),
    };
    cx.text(&format!("{}: {verdict}", linted.provider), 12)?;
    Ok(code)
}
