//! `call`: takes the window to send, and files the call.

use ctxlog::audit::{self, Place};
use ctxlog::engine::Options;
use ctxlog::strategy;

use super::window;
use crate::cli::errors::Failure;
use crate::cli::{Context, args, output, stores};

pub fn run(cx: &mut Context, args: &args::Call) -> Result<u8, Failure> {
    let chain = args.strategy.iter().map(|spec| strategy::parse(spec));
    let chain = chain.collect::<Result<Vec<_>, _>>()?;
    let options = Options {
        expected: stores::expected(args.expect.as_deref())?,
        key: args.key.clone(),
        ..Options::default()
    };
    let store = stores::existing(cx)?;
    let mut chat = stores::conversation(cx, &store)?;
    if !chain.is_empty() {
        chat = chat.with_strategies(chain)?;
    }
    let call = chat.call_with(&options, args.model.as_deref())?;
    if let Some(profile) = args.format.and_then(args::Body::profile) {
        let mut loaded = chat.loaded(&call)?;
        loaded.model = args.model.clone().or(loaded.model);
        return window::body(cx, &loaded.render(profile, false));
    }
    let place = Place {
        seq: call.id,
        call: Some(call.iteration),
    };
    let shown = audit::window(&chat, place)?;
    if !cx.json {
        let visits = if call.visits.is_empty() {
            "no strategy was due"
        } else {
            "strategies visited"
        };
        output::note(&format!(
            "filed {} as {}; {visits}",
            call.iteration, call.id
        ));
    }
    window::show(cx, &chat, &shown, args.format.is_some(), false)
}
