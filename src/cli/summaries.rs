//! Who writes summaries: the command that a `--strategy` on this command line names. What a log says
//! of commands is never run: somebody else may have written it.

use std::sync::Arc;

use ctxlog::Strategy;
use ctxlog::engine::{Call, CommandSummarizer};

use super::errors::Failure;
use super::{human, output};

/// The command of a chain, where it names one.
pub fn command(chain: &[Arc<dyn Strategy>]) -> Result<Option<CommandSummarizer>, Failure> {
    let specs: Vec<String> = chain.iter().map(|s| s.spec()).collect();
    let named = |spec: &&String| ctxlog::strategy::option(spec, "command").is_some();
    let mut found: Option<&String> = None;
    for spec in specs.iter().filter(named) {
        let own = |spec| {
            let option = |name| ctxlog::strategy::option(spec, name);
            (option("command"), option("timeout"))
        };
        if found.is_some_and(|other| own(other) != own(spec)) {
            return Err(Failure::usage(
                "invalid-option",
                "one chain has one summariser".to_owned(),
                "give the same command= and timeout= to each strategy",
            ));
        }
        found = Some(spec);
    }
    Ok(found.and_then(|spec| CommandSummarizer::of_spec(spec)))
}

/// Says on stderr what became of summaries that were wanted.
pub fn tell(call: &Call) {
    for failure in &call.failures {
        output::note(&format!("no summary: {}", human::escape(failure)));
    }
    if call.due {
        output::note(
            "a summary is due and nobody was asked: name the command again, as in --strategy \
             summarize-oldest:limit=8000,command=./summarise.sh",
        );
    }
}
