//! Cutting text down to a number of bytes, so that what remains is what was there, byte for byte,
//! and every cut says what it took. JSON stays JSON: long strings are cut, long lists lose their
//! end, numbers and names are never touched.

use crate::log::{Block, BlockBody, Fields};

/// What a cut says takes at most so many bytes.
const MARK: usize = 64;
/// JSON that is nested more deeply is cut as plain text.
const DEPTH: usize = 128;
/// Strings are cut to no less than this before lists are.
const STRING: usize = 64;

/// A beginning of a content, of at most `max` bytes; `max` is at least twice what a mark takes.
pub(super) fn clamp_blocks(content: &[Block], max: usize) -> Vec<Block> {
    if let [
        Block {
            body: BlockBody::Text(text),
            extra,
        },
    ] = content
    {
        return vec![text_block(clamp(text, max), extra)];
    }
    if bytes_of(content) <= max {
        return content.to_vec();
    }
    let (mut kept, mut left) = (Vec::new(), max.saturating_sub(MARK));
    let mut rest = content;
    while let Some((block, behind)) = rest.split_first() {
        let bytes = block.body.bytes();
        if bytes <= left {
            kept.push(block.clone());
        } else if let (BlockBody::Text(text), true) = (&block.body, left >= MARK) {
            kept.push(text_block(clamp(text, left), &block.extra));
        } else {
            break;
        }
        left = left.saturating_sub(bytes);
        rest = behind;
    }
    if !rest.is_empty() {
        let mark = format!("…[{} blocks, {} bytes cut]", rest.len(), bytes_of(rest));
        kept.push(text_block(mark, &Fields::new()));
    }
    kept
}

fn bytes_of(content: &[Block]) -> usize {
    let bytes = content.iter().map(|b| b.body.bytes());
    bytes.fold(0, usize::saturating_add)
}

fn text_block(text: String, extra: &Fields) -> Block {
    Block {
        body: BlockBody::Text(text),
        extra: extra.clone(),
    }
}

/// A text of at most `max` bytes: as it is where it fits.
pub(super) fn clamp(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let json = Reader::read(text).and_then(|value| clamp_json(text, &value, max));
    json.unwrap_or_else(|| {
        let most = max.saturating_sub(MARK);
        let starts = text
            .char_indices()
            .map(|(at, c)| at.saturating_add(c.len_utf8()));
        let end = starts.take_while(|end| *end <= most).last().unwrap_or(0);
        let kept = text.get(..end).unwrap_or_default();
        let cut = text.len().saturating_sub(kept.len());
        format!("{kept}…[{cut} bytes cut]")
    })
}

/// How much is kept of a string and of a list.
#[derive(Clone, Copy)]
struct Caps {
    string: usize,
    items: usize,
}

/// The first of ever smaller cuts that fits: strings first, then lists.
fn clamp_json(text: &str, value: &Value, max: usize) -> Option<String> {
    let halves = |from: usize, to: usize| {
        std::iter::successors(Some(from), |n| Some(n / 2)).take_while(move |n| *n >= to)
    };
    let strings = halves(max, STRING).map(|string| Caps {
        string,
        items: usize::MAX,
    });
    let lists = halves(max, 1).chain([0]).map(|items| Caps {
        string: STRING,
        items,
    });
    strings.chain(lists).find_map(|caps| {
        let mut out = Writer {
            text,
            caps,
            max,
            out: String::new(),
        };
        out.copy(0, value.start)?;
        out.value(value)?;
        out.copy(value.end, text.len())?;
        Some(out.out)
    })
}

/// A piece of JSON text, by its place in it.
struct Value {
    start: usize,
    end: usize,
    kind: Kind,
}

enum Kind {
    /// A number or a word.
    Plain,
    Text,
    /// A list or an object: its items, each with the place where the item begins, its name included.
    List(Vec<(usize, Value)>),
}

/// Writes a value with less in it; `None` as soon as it is longer than it may be.
struct Writer<'a> {
    text: &'a str,
    caps: Caps,
    max: usize,
    out: String,
}

impl Writer<'_> {
    fn push(&mut self, piece: &str) -> Option<()> {
        let length = self.out.len().saturating_add(piece.len());
        (length <= self.max).then(|| self.out.push_str(piece))
    }

    fn copy(&mut self, from: usize, to: usize) -> Option<()> {
        let piece = self.text.get(from..to)?;
        self.push(piece)
    }

    fn value(&mut self, value: &Value) -> Option<()> {
        match &value.kind {
            Kind::Plain => self.copy(value.start, value.end),
            Kind::Text => self.string(value),
            Kind::List(items) => self.list(value, items),
        }
    }

    fn string(&mut self, value: &Value) -> Option<()> {
        let inner = self
            .text
            .get(value.start.checked_add(1)?..value.end.checked_sub(1)?)?;
        if inner.len() <= self.caps.string {
            return self.copy(value.start, value.end);
        }
        let kept = inner.get(..whole_units(inner, self.caps.string))?;
        let cut = inner.len().saturating_sub(kept.len());
        self.push("\"")?;
        self.push(kept)?;
        self.push(&format!("…[{cut} bytes cut]\""))
    }

    fn list(&mut self, value: &Value, items: &[(usize, Value)]) -> Option<()> {
        let mut at = value.start;
        for (start, item) in items.iter().take(self.caps.items) {
            self.copy(at, *start)?; // the bracket or comma before it
            self.copy(*start, item.start)?; // its name
            self.value(item)?;
            at = item.end;
        }
        let cut = items.len().saturating_sub(self.caps.items);
        if cut == 0 {
            return self.copy(at, value.end);
        }
        let object = self.text.as_bytes().get(value.start) == Some(&b'{');
        if self.caps.items == 0 {
            self.push(if object { "{" } else { "[" })?;
        } else {
            self.push(",")?;
        }
        let name = if object { "\"…\":" } else { "" };
        self.push(&format!("{name}\"[{cut} items cut]\""))?;
        self.push(if object { "}" } else { "]" })
    }
}

/// How many of the first `max` bytes of a JSON string's inside hold whole characters: no escape is
/// cut, and no pair of escapes that stands for one character.
fn whole_units(inner: &str, max: usize) -> usize {
    let bytes = inner.as_bytes();
    let escape = |at: usize| match bytes.get(at..at.saturating_add(2)) {
        Some(b"\\u") => 6,
        Some([b'\\', _]) => 2,
        _ => 0,
    };
    let high = |at: usize| {
        let digits = bytes.get(at.saturating_add(2)..at.saturating_add(4));
        matches!(
            digits,
            Some([b'd' | b'D', b'8' | b'9' | b'a' | b'b' | b'A' | b'B'])
        )
    };
    let mut at = 0_usize;
    loop {
        let mut width = escape(at);
        if width == 6 && high(at) && escape(at.saturating_add(6)) == 6 {
            width = 12;
        }
        if width == 0 {
            let rest = inner.get(at..).unwrap_or_default();
            width = rest.chars().next().map_or(0, char::len_utf8);
        }
        let next = at.saturating_add(width);
        if width == 0 || next > max {
            return at;
        }
        at = next;
    }
}

/// Reads JSON text as places in it, without making anything of numbers and strings.
struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    /// The object or list that a whole text is; `None` where it is anything else.
    fn read(text: &str) -> Option<Value> {
        let mut reader = Reader {
            bytes: text.as_bytes(),
            at: 0,
        };
        reader.blank();
        let value = reader.value(0)?;
        reader.blank();
        let whole = reader.at == text.len();
        (whole && matches!(value.kind, Kind::List(_))).then_some(value)
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    fn step(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn blank(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.step();
        }
    }

    fn value(&mut self, depth: usize) -> Option<Value> {
        let start = self.at;
        let kind = match self.peek()? {
            b'{' if depth < DEPTH => self.list(b'}', true, depth)?,
            b'[' if depth < DEPTH => self.list(b']', false, depth)?,
            b'"' => {
                self.string()?;
                Kind::Text
            }
            b'-' | b'0'..=b'9' | b't' | b'f' | b'n' => {
                let plain = |b: u8| b.is_ascii_alphanumeric() || b"+-.".contains(&b);
                while self.peek().is_some_and(plain) {
                    self.step();
                }
                Kind::Plain
            }
            _ => return None,
        };
        Some(Value {
            start,
            end: self.at,
            kind,
        })
    }

    fn list(&mut self, close: u8, named: bool, depth: usize) -> Option<Kind> {
        self.step();
        self.blank();
        let mut items = Vec::new();
        if self.peek()? == close {
            self.step();
            return Some(Kind::List(items));
        }
        loop {
            self.blank();
            let start = self.at;
            if named {
                self.string()?;
                self.blank();
                (self.peek()? == b':').then(|| self.step())?;
                self.blank();
            }
            items.push((start, self.value(depth.saturating_add(1))?));
            self.blank();
            let behind = self.peek()?;
            self.step();
            match behind {
                b',' => {}
                b if b == close => return Some(Kind::List(items)),
                _ => return None,
            }
        }
    }

    fn string(&mut self) -> Option<()> {
        (self.peek()? == b'"').then(|| self.step())?;
        loop {
            match self.peek()? {
                b'"' => {
                    self.step();
                    return Some(());
                }
                b'\\' => self.at = self.at.saturating_add(2),
                0..=0x1f => return None,
                _ => self.step(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{clamp, clamp_blocks};
    use crate::log::{Block, BlockBody, Fields, Json, Media};
    use proptest::prelude::*;

    fn json(text: &str) -> serde_json::Value {
        serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
    }

    #[test]
    fn what_fits_is_not_touched() {
        let text = "{\"id\": 9007199254740993,  \"html\": \"<b>\", \"a\": [1.0, 1e2]}";
        assert_eq!(clamp(text, text.len()), text);
    }

    #[test]
    fn json_stays_json_and_numbers_stay_as_they_were() {
        let long = "x".repeat(9_000);
        let text = format!("{{\"id\": 9007199254740993, \"s\": [\"{long}\"], \"n\": 1.50}}");
        let cut = clamp(&text, 400);
        assert!(cut.len() <= 400, "{}", cut.len());
        assert!(
            cut.starts_with("{\"id\": 9007199254740993, \"s\": [\"xxx"),
            "{cut}"
        );
        assert!(cut.ends_with("bytes cut]\"], \"n\": 1.50}"), "{cut}");
        json(&cut);
        let list = format!("[{}]", vec!["{\"a\":1}"; 900].join(","));
        let cut = clamp(&list, 300);
        assert!(
            cut.starts_with("[{\"a\":1},{\"a\":1}") && cut.contains("items cut"),
            "{cut}"
        );
        assert!(json(&cut).as_array().is_some_and(|a| a.len() > 10));
    }

    #[test]
    fn a_string_at_the_top_is_no_less_cut_than_one_in_a_list() {
        // The cases that a reference cut differently.
        for text in [
            format!("[\"{}\"]", "a".repeat(9_000)),
            format!("{{\"s\":[\"{}\"]}}", "a".repeat(9_000)),
            format!("{{\"s\":\"{}\"}}", "a".repeat(9_000)),
            "a".repeat(9_000),
        ] {
            assert!(clamp(&text, 8_000).len() <= 8_000);
        }
    }

    #[test]
    fn nothing_is_cut_within_a_character() {
        let pair = "\\ud83d\\ude80".repeat(200);
        let cut = clamp(&format!("{{\"s\":\"{pair}\"}}"), 333);
        json(&cut);
        let cut = clamp(&"\u{1f680}".repeat(200), 333);
        assert!(cut.contains('\u{1f680}') && cut.len() <= 333);
    }

    #[test]
    fn blocks_that_do_not_fit_are_named() {
        let text = |t: String| Block {
            body: BlockBody::Text(t),
            extra: Fields::new(),
        };
        let picture = Block {
            body: BlockBody::Media(Media::Image, Json("p".repeat(4_000))),
            extra: Fields::new(),
        };
        let content = vec![text("a".repeat(100)), picture, text("b".repeat(50))];
        let cut = clamp_blocks(&content, 300);
        assert_eq!(cut.len(), 2);
        assert!(
            matches!(&cut[1].body, BlockBody::Text(t) if t == "…[2 blocks, 4050 bytes cut]"),
            "{cut:?}"
        );
    }

    fn value() -> impl Strategy<Value = serde_json::Value> {
        let text = "[a-z\\\\\"\u{e9}\u{1f680}\n]{0,90}";
        let leaf = prop_oneof![
            any::<i64>().prop_map(serde_json::Value::from),
            any::<bool>().prop_map(serde_json::Value::from),
            text.prop_map(serde_json::Value::from),
        ];
        leaf.prop_recursive(4, 80, 12, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..12).prop_map(serde_json::Value::from),
                proptest::collection::vec(("[a-z]{1,8}", inner), 0..12)
                    .prop_map(|v| serde_json::Value::Object(v.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_cut_fits_and_json_is_json_again(value in value(), max in 256_usize..2_000) {
            let text = format!("[{value},{value}]");
            let cut = clamp(&text, max);
            prop_assert!(cut.len() <= max);
            json(&cut);
        }

        #[test]
        fn every_cut_of_a_text_begins_as_it_did(text in ".{0,900}", max in 256_usize..900) {
            let cut = clamp(&text, max);
            prop_assert!(cut.len() <= max);
            if let Some((kept, _)) = cut.rsplit_once("…[") {
                prop_assert!(text.len() <= max || text.starts_with(kept));
            }
        }
    }
}
