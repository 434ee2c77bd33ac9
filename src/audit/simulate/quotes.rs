//! Which texts that a model message holds stand in exactly one earlier message: a text match, no proof
//! that the model read it there.
//!
//! Words are runs of letters, digits, `_`, `-` and `.`; what stands between them does not count. A
//! quote is a run of at least [`RUN_WORDS`] equal words, or one word of at least
//! [`TOKEN_CHARS`] characters with a digit in it. Runs are hashed, so the cost is one look-up a word;
//! when there are more than [`HASHES_MAX`] of them, every second hash is forgotten, and so on: short
//! quotes are then missed, long ones hardly.

use std::collections::{BTreeMap, HashMap};
use std::hash::{DefaultHasher, Hasher as _};

use crate::formats::{Step, Transcript};
use crate::log::{Author, Role};

/// Words of the shortest run that counts as a quote.
const RUN_WORDS: usize = 6;
/// Characters of the shortest word with a digit that counts as a quote by itself.
const TOKEN_CHARS: usize = 6;
/// The most hashes that are held.
const HASHES_MAX: usize = 1 << 22;
/// The most characters of a quote that are told.
const SHOWN_CHARS: usize = 160;

/// A text of one model message that one earlier message holds. Numbers are those of message steps.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Quote {
    /// The model message.
    pub by: usize,
    /// The earlier message.
    pub of: usize,
    /// The first such text.
    pub text: String,
}

/// The quotes of a transcript.
#[derive(Debug)]
pub(super) struct Quotes {
    pub found: Vec<Quote>,
    /// One in so many runs was held.
    pub sampled: u64,
}

/// Where a hash was seen.
#[derive(Clone, Copy)]
enum Place {
    Once(usize),
    Often,
}

struct Index {
    seen: HashMap<u64, Place>,
    sampled: u64,
    most: usize,
}

impl Index {
    fn insert(&mut self, hash: u64, at: usize) {
        if !hash.is_multiple_of(self.sampled) {
            return;
        }
        let place = self.seen.entry(hash).or_insert(Place::Once(at));
        if matches!(place, Place::Once(other) if *other != at) {
            *place = Place::Often;
        }
        while self.seen.len() > self.most {
            self.sampled = self.sampled.saturating_mul(2);
            let sampled = self.sampled;
            self.seen.retain(|hash, _| hash.is_multiple_of(sampled));
        }
    }

    fn once(&self, hash: u64) -> Option<usize> {
        match self.seen.get(&hash)? {
            Place::Once(at) => Some(*at),
            Place::Often => None,
        }
    }
}

/// A run of words of a text, as bytes of it, with its hash.
struct Run {
    from: usize,
    to: usize,
    hash: u64,
}

/// The words of a text with where they stand.
pub(super) fn words(text: &str) -> Vec<(usize, &str)> {
    let mut out = Vec::new();
    let mut at = 0_usize;
    for piece in text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))) {
        let word = piece.trim_matches(|c| matches!(c, '.' | '-'));
        if !word.is_empty() {
            let before = piece.find(word).unwrap_or(0);
            out.push((at.saturating_add(before), word));
        }
        let after = at.saturating_add(piece.len());
        let gap = text.get(after..).and_then(|rest| rest.chars().next());
        at = after.saturating_add(gap.map_or(0, char::len_utf8));
    }
    out
}

fn hash_of<T: std::hash::Hash>(value: &T) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

fn runs(text: &str) -> Vec<Run> {
    let words = words(text);
    let hashes: Vec<u64> = words.iter().map(|(_, word)| hash_of(word)).collect();
    let end = |(at, word): &(usize, &str)| at.saturating_add(word.len());
    let mut out = Vec::with_capacity(words.len());
    for (window, hashes) in words.windows(RUN_WORDS).zip(hashes.windows(RUN_WORDS)) {
        if let (Some(first), Some(last)) = (window.first(), window.last()) {
            out.push(Run {
                from: first.0,
                to: end(last),
                hash: hash_of(&hashes),
            });
        }
    }
    for ((at, word), hash) in words.iter().zip(&hashes) {
        let digit = word.chars().any(|c| c.is_ascii_digit());
        if digit && word.chars().count() >= TOKEN_CHARS {
            out.push(Run {
                from: *at,
                to: at.saturating_add(word.len()),
                hash: hash_of(&(hash, "word")),
            });
        }
    }
    out
}

/// Finds the quotes of a transcript, in order.
pub(super) fn quotes(transcript: &Transcript) -> Quotes {
    quotes_within(transcript, HASHES_MAX)
}

fn quotes_within(transcript: &Transcript, most: usize) -> Quotes {
    let mut index = Index {
        seen: HashMap::new(),
        sampled: 1,
        most,
    };
    let mut found = Vec::new();
    let messages = transcript.steps.iter().filter_map(|step| match step {
        Step::Message { message, .. } => Some(message),
        _ => None,
    });
    for (by, message) in messages.enumerate() {
        let text = message.words();
        let runs = runs(&text);
        if message.author == Author::Model && message.role == Role::Assistant {
            found.extend(quoted(&index, by, &text, &runs));
        }
        runs.iter().for_each(|run| index.insert(run.hash, by));
    }
    Quotes {
        found,
        sampled: index.sampled,
    }
}

/// One quote for each earlier message: its first run, as far as it goes on.
fn quoted(index: &Index, by: usize, text: &str, runs: &[Run]) -> Vec<Quote> {
    let mut spans: BTreeMap<usize, (usize, usize)> = BTreeMap::new();
    for run in runs {
        let Some(of) = index.once(run.hash) else {
            continue;
        };
        let span = spans.entry(of).or_insert((run.from, run.to));
        if (span.0..=span.1).contains(&run.from) {
            span.1 = span.1.max(run.to);
        }
    }
    let quote = |(of, (from, to)): (usize, (usize, usize))| Quote {
        by,
        of,
        text: text
            .get(from..to)
            .unwrap_or_default()
            .chars()
            .take(SHOWN_CHARS)
            .collect(),
    };
    spans.into_iter().map(quote).collect()
}

/// Whether a text holds the words of another, in order and together.
pub(super) fn holds(text: &str, quote: &str) -> bool {
    let plain = |text| words(text).into_iter().map(|(_, word)| word);
    let (text, quote): (Vec<&str>, Vec<&str>) = (plain(text).collect(), plain(quote).collect());
    // A quote that was cut for showing may end within a word.
    let quote = quote
        .get(..quote.len().saturating_sub(1).max(1))
        .unwrap_or_default();
    text.windows(quote.len().max(1)).any(|w| w == quote)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::Link;
    use crate::log::Message;

    fn told(messages: Vec<Message>) -> Transcript {
        let steps = messages.into_iter().map(|message| Step::Message {
            message,
            at: None,
            link: Link::None,
        });
        Transcript {
            steps: steps.collect(),
            ..Transcript::default()
        }
    }

    fn pairs(quotes: &Quotes) -> Vec<(usize, usize, &str)> {
        let pair = |q: &'_ Quote| (q.by, q.of);
        let texts = quotes.found.iter().map(|q| q.text.as_str());
        let pairs = quotes.found.iter().map(pair).zip(texts);
        pairs.map(|((by, of), text)| (by, of, text)).collect()
    }

    #[test]
    fn a_run_of_six_words_or_a_rare_word_with_a_digit_is_a_quote() {
        let found = quotes(&told(vec![
            Message::person("the parcel left Turku on the second of May, they say"),
            Message::tool("c", "{\"order\":\"ord-4411\",\"état\":\"ok\"}"),
            Message::model("It says: the parcel left Turku, on the second of May."),
            Message::model("Order ord-4411 is late; 4411 alone is too short."),
        ]));
        let expected = [
            (2, 0, "the parcel left Turku, on the second of May"),
            (3, 1, "ord-4411"),
        ];
        assert_eq!(pairs(&found), expected);
    }

    #[test]
    fn what_stands_in_two_earlier_messages_or_comes_from_nobody_is_no_quote() {
        let found = quotes(&told(vec![
            Message::person("see ab12345 please"),
            Message::person("again ab12345"),
            Message::model("ab12345 and zz99999"),
            Message::person("zz99999"),
        ]));
        assert!(found.found.is_empty());
    }

    #[test]
    fn the_index_is_bounded_and_says_so() {
        let text = |n: usize| {
            let words: Vec<String> = (0..200).map(|w| format!("w{n}x{w:05}")).collect();
            words.join(" ")
        };
        let said: Vec<Message> = (0..40).map(|n| Message::person(text(n))).collect();
        let all = said.iter().cloned().chain([Message::model(text(3))]);
        let found = quotes_within(&told(all.collect()), 1_000);
        assert!(found.sampled > 1);
        assert!(found.found.iter().all(|q| q.of == 3));
        assert_eq!(found.found.len(), 1, "a long quote is found all the same");
    }

    #[test]
    fn words_are_found_whatever_stands_between_them() {
        assert!(holds("a (b) c-d, e", "b c-d e f"));
        assert!(!holds("a b", "c d e"));
    }
}
