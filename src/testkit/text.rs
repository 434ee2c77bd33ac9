//! Scripts as text: one thing a line, so that a person can read a failure, send it on, and replay
//! it.

use std::fmt::{self, Display, Write};
use std::str::FromStr;

use crate::engine::Replacement;
use crate::log::{PartKind, Role};

use super::script::{Ids, OPEN_CALLS, Op, Script, Speaker, Words};
use super::summaries::Answers;

/// A line that is no part of a script.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line} of the script, '{text}': {problem}")]
pub struct ScriptError {
    /// Which line, from 1.
    pub line: usize,
    /// The line.
    pub text: String,
    /// What is wrong with it.
    pub problem: String,
}

fn name_of<T: PartialEq>(names: &'static [(T, &'static str)], value: &T) -> &'static str {
    names
        .iter()
        .find(|(v, _)| v == value)
        .map_or("?", |(_, name)| name)
}

fn named<T: Copy>(names: &'static [(T, &'static str)], name: &str) -> Result<T, String> {
    let found = names.iter().find(|(_, n)| *n == name);
    found.map(|(value, _)| *value).ok_or_else(|| {
        let known: Vec<&str> = names.iter().map(|(_, n)| *n).collect();
        format!("'{name}' is none of {}", known.join(", "))
    })
}

/// A text in quotes, as JSON, on one line. What is not plain is spelled out, so that whatever shows
/// the line to a person has nothing left to escape, and it still reads back.
fn quoted(text: &str) -> Result<String, fmt::Error> {
    let json = serde_json::to_string(text).map_err(|_| fmt::Error)?;
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if c.is_alphanumeric() || c == ' ' || c.is_ascii_graphic() {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            write!(out, "\\u{unit:04x}")?;
        }
    }
    Ok(out)
}

/// Whether a spec can stand on its line as it is.
fn is_plain(spec: &str) -> bool {
    spec.trim() == spec
        && !spec.starts_with('"')
        && quoted(spec).is_ok_and(|q| q.get(1..q.len().saturating_sub(1)) == Some(spec))
}

impl Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = quoted(&self.text)?;
        match self.times {
            1 => write!(f, "{quoted}"),
            times => write!(f, "{quoted} x {times}"),
        }
    }
}

/// Numbers, as one word.
fn listed(numbers: &[usize]) -> String {
    let numbers: Vec<String> = numbers.iter().map(ToString::to_string).collect();
    numbers.join(",")
}

/// A range and what limits it.
struct Range<'a>(&'a Replacement);

impl Display for Range<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = &self.0.of;
        write!(f, "{} ", of.start)?;
        match of.end {
            None => f.write_str("-")?,
            Some(end) => write!(f, "{end}")?,
        }
        for role in &of.roles {
            match role.name() {
                name if is_plain(name) && !name.is_empty() && !name.contains(' ') => {
                    write!(f, " role {name}")?;
                }
                name => write!(f, " role {}", quoted(name)?)?,
            }
        }
        for tag in &of.tags {
            write!(f, " tag {tag}")?;
        }
        f.write_str(if of.gaps { " gaps" } else { "" })?;
        f.write_str(if self.0.in_place { " in-place" } else { "" })
    }
}

impl Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let speaker = |s| name_of(Speaker::NAMES, s);
        match self {
            Self::Say(who, words) => write!(f, "say {} {words}", speaker(who)),
            Self::Nothing(who) => write!(f, "nothing {}", speaker(who)),
            Self::Reason { signed } => {
                write!(f, "reason {}", if *signed { "signed" } else { "unsigned" })
            }
            Self::Calls { count, words: None } => write!(f, "calls {count}"),
            Self::Calls {
                count,
                words: Some(words),
            } => write!(f, "calls {count} {words}"),
            Self::Continue { call } => {
                write!(f, "continue {}", if *call { "call" } else { "words" })
            }
            Self::Results {
                back,
                interim,
                words,
                out,
            } => {
                let kind = if *interim { "interim" } else { "results" };
                write!(f, "{kind} {} {out}", listed(back))?;
                words
                    .as_ref()
                    .map_or(Ok(()), |words| write!(f, " with {words}"))
            }
            Self::Media(n) => write!(f, "media {n}"),
            Self::Unknown => f.write_str("unknown"),
            Self::Native { answered } => {
                write!(f, "native {}", if *answered { "answered" } else { "open" })
            }
            Self::Call { usage, failed } => {
                f.write_str("call")?;
                usage.map_or(Ok(()), |n| write!(f, " usage {n}"))?;
                f.write_str(if *failed { " failed" } else { "" })
            }
            Self::Visit => f.write_str("visit"),
            Self::Settings(n) => write!(f, "settings {n}"),
            Self::Restore(n) => write!(f, "restore {n}"),
            Self::Undo(n) => write!(f, "undo {n}"),
            Self::Pin(n) => write!(f, "pin {n}"),
            Self::Unpin(n) => write!(f, "unpin {n}"),
            Self::Replace(what, words) => write!(f, "replace {} {words}", Range(what)),
            Self::Ask(what) => write!(f, "ask {}", Range(what)),
            Self::Asked(n, words) => write!(f, "asked {n} {words}"),
            Self::Clear(which) if which.is_empty() => f.write_str("clear"),
            Self::Clear(which) => write!(f, "clear {}", listed(which)),
            Self::Recall(n) => write!(f, "recall {n}"),
            Self::Refer(who, n) => write!(f, "refer {} {n}", speaker(who)),
            Self::Behind(n, words) => write!(f, "behind {n} {words}"),
            Self::Keyed(n, words) => write!(f, "keyed {n} {words}"),
            Self::Policy => f.write_str("policy"),
            Self::Impossible => f.write_str("impossible"),
            Self::Beyond(n) => write!(f, "beyond {n}"),
            Self::Inverted(n) => write!(f, "inverted {n}"),
            Self::Fork { back, close } => {
                write!(f, "fork {back}{}", if *close { " close" } else { "" })
            }
            Self::Redact(n) => write!(f, "redact {n}"),
            Self::RedactAll => f.write_str("redact all"),
            Self::Reopen => f.write_str("reopen"),
            Self::Note => f.write_str("note"),
            Self::Summaries(answers) => {
                write!(f, "summaries {}", name_of(Answers::NAMES, answers))
            }
            Self::Meanwhile(op) => write!(f, "meanwhile {op}"),
        }
    }
}

impl Display for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for spec in &self.chain {
            if is_plain(spec) {
                writeln!(f, "strategy {spec}")?;
            } else {
                writeln!(f, "strategy {}", quoted(spec)?)?;
            }
        }
        let mut times = String::new();
        for at in &self.times {
            write!(times, " {at}")?;
        }
        writeln!(f, "ids {}", name_of(Ids::NAMES, &self.ids))?;
        writeln!(f, "open-calls {}", name_of(OPEN_CALLS, &self.open_calls))?;
        writeln!(f, "times{times}")?;
        writeln!(f, "twist {}", self.twist)?;
        self.ops.iter().try_for_each(|op| writeln!(f, "{op}"))
    }
}

/// What is left of a line.
struct Rest<'a>(&'a str);

impl<'a> Rest<'a> {
    fn word(&mut self) -> &'a str {
        let trimmed = self.0.trim_start();
        let (word, rest) = trimmed.split_at(trimmed.find(' ').unwrap_or(trimmed.len()));
        self.0 = rest;
        word
    }

    fn is_empty(&self) -> bool {
        self.0.trim().is_empty()
    }

    fn number<N: FromStr>(&mut self) -> Result<N, String> {
        let word = self.word();
        word.parse()
            .map_err(|_| format!("'{word}' is no number that fits here"))
    }

    fn numbers(&mut self) -> Result<Vec<usize>, String> {
        let word = self.word();
        let each = word
            .split(',')
            .map(|n| n.parse().map_err(|_| format!("'{n}' is no number")));
        each.collect()
    }

    /// Words: JSON text in quotes, perhaps ` x N`.
    fn words(&mut self) -> Result<Words, String> {
        let mut stream = serde_json::Deserializer::from_str(self.0).into_iter::<String>();
        let Some(Ok(text)) = stream.next() else {
            return Err(format!(
                "expected words in quotes, found '{}'",
                self.0.trim()
            ));
        };
        self.0 = self.0.get(stream.byte_offset()..).unwrap_or_default();
        let mut ahead = Rest(self.0);
        let mut times = 1;
        if ahead.word() == "x" {
            times = ahead.number()?;
            self.0 = ahead.0;
        }
        Ok(Words { text, times })
    }

    fn maybe_words(&mut self) -> Result<Option<Words>, String> {
        if self.is_empty() {
            Ok(None)
        } else {
            self.words().map(Some)
        }
    }

    fn one_of(&mut self, yes: &str, no: &str) -> Result<bool, String> {
        match self.word() {
            word if word == yes => Ok(true),
            word if word == no => Ok(false),
            word => Err(format!("'{word}' is neither {yes} nor {no}")),
        }
    }

    fn speaker(&mut self) -> Result<Speaker, String> {
        named(Speaker::NAMES, self.word())
    }
}

fn range(rest: &mut Rest<'_>) -> Result<Replacement, String> {
    let start = rest.number()?;
    let mut ahead = Rest(rest.0);
    let end = if ahead.word() == "-" {
        rest.0 = ahead.0;
        None
    } else {
        Some(rest.number()?)
    };
    let mut what = Replacement::range(start, end);
    loop {
        let mut ahead = Rest(rest.0);
        match ahead.word() {
            "role" if ahead.0.trim_start().starts_with('"') => {
                what.of.roles.push(Role::from_name(&ahead.words()?.whole()));
            }
            "role" => what.of.roles.push(Role::from_name(ahead.word())),
            "tag" => {
                let name = ahead.word();
                let tag = PartKind::ALL.iter().find(|kind| kind.name() == name);
                let tag = tag.ok_or_else(|| format!("'{name}' is no kind of part"))?;
                what.of.tags.push(*tag);
            }
            "gaps" => what.of.gaps = true,
            "in-place" => what.in_place = true,
            _ => return Ok(what),
        }
        rest.0 = ahead.0;
    }
}

fn results(rest: &mut Rest<'_>, interim: bool) -> Result<Op, String> {
    let back = rest.numbers()?;
    let out = rest.words()?;
    let words = match rest.word() {
        "" => None,
        "with" => Some(rest.words()?),
        other => return Err(format!("'{other}' is not expected here")),
    };
    Ok(Op::Results {
        back,
        interim,
        words,
        out,
    })
}

fn call(rest: &mut Rest<'_>) -> Result<Op, String> {
    let (mut usage, mut failed) = (None, false);
    while !rest.is_empty() {
        match rest.word() {
            "usage" => usage = Some(rest.number()?),
            "failed" => failed = true,
            other => return Err(format!("'{other}' is not expected here")),
        }
    }
    Ok(Op::Call { usage, failed })
}

fn fork(rest: &mut Rest<'_>) -> Result<Op, String> {
    let back = rest.number()?;
    let close = match rest.word() {
        "" => false,
        "close" => true,
        other => return Err(format!("'{other}' is not expected here")),
    };
    Ok(Op::Fork { back, close })
}

fn parse_op(line: &str) -> Result<Op, String> {
    let mut rest = Rest(line);
    let op = match rest.word() {
        "say" => Op::Say(rest.speaker()?, rest.words()?),
        "nothing" => Op::Nothing(rest.speaker()?),
        "reason" => Op::Reason {
            signed: rest.one_of("signed", "unsigned")?,
        },
        "calls" => Op::Calls {
            count: rest.number::<u8>()?.into(),
            words: rest.maybe_words()?,
        },
        "continue" => Op::Continue {
            call: rest.one_of("call", "words")?,
        },
        "results" => results(&mut rest, false)?,
        "interim" => results(&mut rest, true)?,
        "media" => Op::Media(rest.number()?),
        "unknown" => Op::Unknown,
        "native" => Op::Native {
            answered: rest.one_of("answered", "open")?,
        },
        "call" => call(&mut rest)?,
        "visit" => Op::Visit,
        "settings" => Op::Settings(rest.number()?),
        "restore" => Op::Restore(rest.number()?),
        "undo" => Op::Undo(rest.number()?),
        "pin" => Op::Pin(rest.number()?),
        "unpin" => Op::Unpin(rest.number()?),
        "replace" => Op::Replace(range(&mut rest)?, rest.words()?),
        "ask" => Op::Ask(range(&mut rest)?),
        "asked" => Op::Asked(rest.number()?, rest.words()?),
        "clear" if rest.is_empty() => Op::Clear(Vec::new()),
        "clear" => Op::Clear(rest.numbers()?),
        "recall" => Op::Recall(rest.number()?),
        "refer" => Op::Refer(rest.speaker()?, rest.number()?),
        "behind" => Op::Behind(rest.number()?, rest.words()?),
        "keyed" => Op::Keyed(rest.number()?, rest.words()?),
        "policy" => Op::Policy,
        "impossible" => Op::Impossible,
        "beyond" => Op::Beyond(rest.number()?),
        "inverted" => Op::Inverted(rest.number()?),
        "fork" => fork(&mut rest)?,
        "redact" if rest.0.trim() == "all" => {
            rest.0 = "";
            Op::RedactAll
        }
        "redact" => Op::Redact(rest.number()?),
        "reopen" => Op::Reopen,
        "note" => Op::Note,
        "summaries" => Op::Summaries(named(Answers::NAMES, rest.word())?),
        "meanwhile" => {
            let op = parse_op(rest.0.trim())?;
            rest.0 = "";
            Op::Meanwhile(Box::new(op))
        }
        other => return Err(format!("nothing is called '{other}'")),
    };
    if rest.is_empty() {
        Ok(op)
    } else {
        Err(format!("'{}' is not expected here", rest.0.trim()))
    }
}

impl Script {
    fn take(&mut self, line: &str) -> Result<(), String> {
        let mut rest = Rest(line);
        match rest.word() {
            "strategy" if rest.0.trim_start().starts_with('"') => {
                let spec = rest.words()?;
                self.chain.push(spec.whole());
            }
            "strategy" => self.chain.push(rest.0.trim().to_owned()),
            "ids" => self.ids = named(Ids::NAMES, rest.word())?,
            "open-calls" => self.open_calls = named(OPEN_CALLS, rest.word())?,
            "twist" => self.twist = rest.number()?,
            "times" => {
                self.times.clear();
                while !rest.is_empty() {
                    self.times.push(rest.number()?);
                }
            }
            _ => self.ops.push(parse_op(line)?),
        }
        Ok(())
    }
}

impl FromStr for Op {
    type Err = ScriptError;

    fn from_str(line: &str) -> Result<Self, ScriptError> {
        parse_op(line).map_err(|problem| ScriptError {
            line: 1,
            text: line.to_owned(),
            problem,
        })
    }
}

impl FromStr for Script {
    type Err = ScriptError;

    /// Reads what [`Display`] writes. Empty lines, and lines that begin with `#`, say nothing.
    fn from_str(text: &str) -> Result<Self, ScriptError> {
        let mut script = Self::of(&[], Vec::new());
        for (line, text) in (1..).zip(text.lines()) {
            let text = text.trim();
            if text.is_empty() || text.starts_with('#') {
                continue;
            }
            script.take(text).map_err(|problem| ScriptError {
                line,
                text: text.to_owned(),
                problem,
            })?;
        }
        Ok(script)
    }
}
