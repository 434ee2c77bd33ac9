//! A conversation to profile: `profile WHAT MESSAGES`, where WHAT is `append`, `visit` or `call`, done
//! once a message. In memory, 1 kB a message, `sliding-window:keep=20`; every 20 messages a person
//! asks, every fourth message calls a tool, and a run ends before the next question.
//!
//! `docs/PERFORMANCE.md` says how it is run and what came of it.

use std::fmt::Write as _;
use std::time::Instant;

use ctxlog::engine::{Conversation, Error, Store};
use ctxlog::log::{Message, Part};
use ctxlog::strategy::SlidingWindow;

/// About a kilobyte of words.
fn words(n: u64) -> String {
    let mut text = format!("message {n}: ");
    let mut x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while text.len() < 1_000 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        write!(text, "{x:x} ").expect("a string takes text");
    }
    text
}

fn message(n: u64, words: &str) -> Message {
    match n % 20 {
        0 => Message::person(words),
        18 | 19 => Message::model(words),
        of if of % 4 == 2 => Message::calls(vec![Part::call(&format!("c{n}"), "look", "{}")]),
        of if of % 4 == 3 => Message::tool(&format!("c{}", n - 1), words),
        _ => Message::model(words),
    }
}

fn run(chat: &Conversation, what: &str, messages: u64) -> Result<(), Error> {
    let texts: Vec<String> = (0..1_000).map(words).collect();
    for (n, words) in (0..messages).zip(texts.iter().cycle()) {
        chat.append(message(n, words))?;
        match what {
            "visit" => drop(chat.visit()?),
            "call" => drop(chat.call()?),
            _ => {}
        }
    }
    Ok(())
}

fn profile(what: &str, messages: u64) -> Result<(), Box<dyn std::error::Error>> {
    let chat = Store::in_memory().conversation("profile")?;
    let chat = chat.with_strategy(SlidingWindow::new(20))?;
    let began = Instant::now();
    run(&chat, what, messages)?;
    println!("{what}: {messages} messages in {:?}", began.elapsed());
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // cargo adds an argument of its own.
    let args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let args: Vec<String> = args.collect();
    match args.as_slice() {
        [] => ["append", "visit", "call"]
            .iter()
            .try_for_each(|what| profile(what, 3_000)),
        [what, messages] => profile(what, messages.parse()?),
        _ => Err("usage: profile [append|visit|call MESSAGES]".into()),
    }
}
