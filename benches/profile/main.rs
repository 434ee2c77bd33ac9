//! A conversation to profile: `profile WHAT MESSAGES`, where WHAT is `append`, `visit` or `call`, done
//! once a message. Without arguments it says what each takes in processor time. On a store that keeps nothing, 1.3 kB a message, `sliding-window:keep=20`; every 20
//! messages a person asks, every fourth message calls a tool, and a run ends before the next question.
//!
//! `docs/PERFORMANCE.md` says how it is run and what came of it.

mod sink;

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use ctxlog::engine::{Conversation, Error, Store};
use ctxlog::log::{Message, Part};
use ctxlog::strategy::SlidingWindow;

use self::sink::Sink;

/// Words of a message, in bytes.
const WORDS: usize = 1_300;
/// As many messages are made before the time is taken for them.
const CHUNK: u64 = 50;
/// Different words.
const TEXTS: u64 = 1_000;

fn words(n: u64) -> String {
    let mut text = format!("message {n}: ");
    let mut x = n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    while text.len() < WORDS {
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

/// The processor time of this thread so far: other programs do not count.
fn processor() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::try_from(now).expect("time goes on")
}

/// What it takes on a clock, making messages aside.
fn run(
    chat: &Conversation,
    what: &str,
    messages: u64,
    clock: &dyn Fn() -> Duration,
) -> Result<Duration, Error> {
    let texts: Vec<String> = (0..TEXTS).map(words).collect();
    let mut texts = texts.iter().cycle();
    let mut taken = Duration::ZERO;
    for from in (0..messages).step_by(usize::try_from(CHUNK).expect("it is small")) {
        let numbers = (from..messages.min(from + CHUNK)).zip(&mut texts);
        let made: Vec<Message> = numbers.map(|(n, words)| message(n, words)).collect();
        let began = clock();
        for message in made {
            chat.append(message)?;
            match what {
                "visit" => drop(chat.visit()?),
                "call" => drop(chat.call()?),
                _ => {}
            }
        }
        taken += clock().saturating_sub(began);
    }
    Ok(taken)
}

fn profile(what: &str, messages: u64, clock: &dyn Fn() -> Duration) -> Result<Duration, Error> {
    let chat = Store::on(Arc::new(Sink::default())).conversation("profile")?;
    let chat = chat.with_strategy(SlidingWindow::new(20))?;
    run(&chat, what, messages, clock)
}

/// The least of some runs: what another program on the same core adds is no part of it.
fn time(what: &str) -> Result<(), Error> {
    let messages: u32 = 20_000;
    let runs = (0..15).map(|_| profile(what, messages.into(), &processor));
    let runs = runs.collect::<Result<Vec<_>, _>>()?;
    let least = runs.into_iter().min().unwrap_or_default();
    let each = least.as_secs_f64() * 1e6 / f64::from(messages);
    println!("{what}: {each:.2} us of processor time a message");
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // cargo adds an argument of its own.
    let args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let args: Vec<String> = args.collect();
    match args.as_slice() {
        [] => ["append", "visit", "call"].into_iter().try_for_each(time)?,
        // What is run under valgrind reads no clock: it has its own.
        [what, messages] => drop(profile(what, messages.parse()?, &|| Duration::ZERO)?),
        _ => return Err("usage: profile [append|visit|call MESSAGES]".into()),
    }
    Ok(())
}
