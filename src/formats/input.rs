//! Finds the JSON values of a file: one array of records, one pretty-printed object, one object a
//! line, or several objects glued together. Holds one record at a time, and goes on after damage.
//!
//! A value may go over many lines, so where one was cut off shows only later. Once the file has
//! shown that its lines begin values (its first value ended on its own line, or damage had to be
//! read again from such a line), a line that begins with `{` at its very start ends whatever
//! stands open before it. So a byte is looked at twice at most, and what was read of JSON Lines
//! stays so when the file grows.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use memchr::memchr3;
use serde_json::value::RawValue;

use super::json::MAX_DEPTH;
use crate::log::Json;

/// A record's size above which it is skipped, where the caller has no other wish: 256 MiB.
pub const RECORD_LIMIT: usize = 256 << 20;

/// One JSON value of a file, or a stretch of it that is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// `file:line` of its first byte; lines count from 1.
    pub place: String,
    /// Whether it is an element of the file's one array.
    pub in_array: bool,
    /// The value, or what is wrong here.
    pub value: Result<Json, Damage>,
}

/// A stretch of a file that is no JSON value, or one that exceeds a limit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// What is wrong, where, and the way out.
    pub reason: String,
    /// The damaged text; bytes that are not UTF-8 are written `\xNN`. `None` where it exceeds the
    /// limit and was not kept.
    pub text: Option<String>,
    /// Whether the file ended within the value: its writer may still be at work, and the value may
    /// read otherwise when the file has grown.
    pub unfinished: bool,
}

/// The pieces of a file, in order. Ends after the first failure to read.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "what the file has shown so far"
)]
pub struct Pieces<R> {
    input: R,
    name: String,
    limit: usize,
    line: u64,
    /// Bytes to look at again before the input: what followed the start of a damaged value.
    again: VecDeque<u8>,
    started: bool,
    in_array: bool,
    /// A line that begins with `{` begins a value.
    by_lines: bool,
    ended: bool,
    /// Bytes that were put back to be looked at again.
    #[cfg(test)]
    reread: usize,
}

/// The pieces of a file called `name`, whose records may have up to `limit` bytes.
pub fn pieces<R: BufRead>(input: R, name: &str, limit: usize) -> Pieces<R> {
    Pieces {
        input,
        name: name.to_owned(),
        limit,
        line: 1,
        again: VecDeque::new(),
        started: false,
        in_array: false,
        by_lines: false,
        ended: false,
        #[cfg(test)]
        reread: 0,
    }
}

/// The text of bytes, with every one that is no part of it written `\xNN`.
pub(crate) fn escape(bytes: &[u8]) -> String {
    let mut out = String::new();
    for chunk in bytes.trim_ascii_end().utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|byte| format!("\\x{byte:02x}")));
    }
    out
}

/// What is wrong with bytes that [`escape`] had to write.
pub(crate) const NOT_UTF_8: &str = "not UTF-8; bad bytes are written \\xNN";

impl<R: BufRead> Iterator for Pieces<R> {
    type Item = io::Result<Piece>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let next = self.advance();
        self.ended = !matches!(next, Ok(Some(_)));
        next.transpose()
    }
}

/// How the scan of one value ended.
enum End {
    Closed,
    File,
    Broken(&'static str),
}

/// Where a scan stands within a value.
#[derive(Default)]
struct Scan {
    bytes: Vec<u8>,
    /// Bytes seen, also those beyond the limit.
    size: usize,
    /// For every open bracket whether it is an object's, down to the depth that is read.
    open: Vec<bool>,
    /// Open brackets below that.
    deeper: usize,
    deepest: usize,
    in_string: bool,
    escaped: bool,
    /// The newest byte outside strings that is no white space.
    last: u8,
    /// Where in `bytes` a line begins with `{`: the value may have been cut off before it.
    resume: Option<usize>,
    at_line_start: bool,
}

impl<R: BufRead> Pieces<R> {
    fn advance(&mut self) -> io::Result<Option<Piece>> {
        loop {
            let Some(byte) = self.peek()? else {
                return Ok(self.unclosed_array());
            };
            match byte {
                b' ' | b'\t' | b'\r' | b'\n' => self.skip(),
                // A byte order mark.
                0xEF if !self.started => self.skip_mark()?,
                b'[' if !self.started => {
                    self.skip();
                    self.started = true;
                    self.in_array = true;
                }
                b',' if self.in_array => self.skip(),
                b']' if self.in_array => {
                    self.skip();
                    self.in_array = false;
                }
                b'{' | b'[' => return self.value().map(Some),
                _ => return self.scalar().map(Some),
            }
        }
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        if let Some(byte) = self.again.front() {
            return Ok(Some(*byte));
        }
        Ok(self.input.fill_buf()?.first().copied())
    }

    /// Passes the byte that was peeked at.
    fn skip(&mut self) {
        let byte = match self.again.pop_front() {
            Some(byte) => Some(byte),
            None => {
                let byte = self.input.fill_buf().ok().and_then(|b| b.first().copied());
                self.input.consume(1);
                byte
            }
        };
        if byte == Some(b'\n') {
            self.line = self.line.saturating_add(1);
        }
    }

    fn skip_mark(&mut self) -> io::Result<()> {
        self.started = true;
        let mut mark = Vec::new();
        for expected in [0xEF, 0xBB, 0xBF] {
            if self.peek()? != Some(expected) {
                self.again.extend(mark);
                return Ok(());
            }
            mark.push(expected);
            self.skip();
        }
        self.started = false;
        Ok(())
    }

    fn unclosed_array(&mut self) -> Option<Piece> {
        if !std::mem::take(&mut self.in_array) {
            return None;
        }
        let reason = "the file ends before its array does; what was complete has been read";
        Some(self.damage(self.line, reason.to_owned(), Some(String::new()), true))
    }

    fn damage(&self, line: u64, reason: String, text: Option<String>, unfinished: bool) -> Piece {
        Piece {
            place: format!("{}:{line}", self.name),
            in_array: self.in_array,
            value: Err(Damage {
                reason,
                text,
                unfinished,
            }),
        }
    }

    /// Reads an object or array.
    fn value(&mut self) -> io::Result<Piece> {
        let first = !std::mem::replace(&mut self.started, true);
        let line = self.line;
        let mut scan = Scan::default();
        match self.scan(&mut scan)? {
            End::Closed => {
                self.by_lines |= first && line == self.line;
                Ok(self.closed(line, scan, false))
            }
            // An array's later elements are not lost with one that was cut off.
            End::File if self.in_array && scan.resume.is_some() => {
                let reason = "its line ends within this value";
                Ok(self.broken(line, scan, reason, false))
            }
            End::File => {
                scan.resume = None;
                Ok(self.broken(line, scan, "the file ends within this value", true))
            }
            End::Broken(reason) => {
                if scan.at_line_start {
                    scan.resume.get_or_insert(scan.bytes.len());
                }
                let cut = self.finish_line(&mut scan)?;
                Ok(self.broken(line, scan, reason, cut))
            }
        }
    }

    fn scan(&mut self, scan: &mut Scan) -> io::Result<End> {
        loop {
            self.words(scan)?;
            let Some(byte) = self.peek()? else {
                return Ok(End::File);
            };
            if self.by_lines && byte == b'{' && scan.at_line_start && !scan.in_string {
                return Ok(End::Broken("its line ends within this value"));
            }
            if let Some(reason) = scan.objection(byte) {
                return Ok(End::Broken(reason));
            }
            self.skip();
            scan.take(byte, self.limit);
            if scan.is_closed() {
                return Ok(End::Closed);
            }
        }
    }

    /// Takes the inside of a string at once, as far as it is at hand.
    fn words(&mut self, scan: &mut Scan) -> io::Result<()> {
        if !scan.in_string || scan.escaped || !self.again.is_empty() {
            return Ok(());
        }
        let seen = self.input.fill_buf()?;
        let end = memchr3(b'"', b'\\', b'\n', seen);
        let words = seen.get(..end.unwrap_or(seen.len())).unwrap_or_default();
        scan.keep(words, self.limit);
        let taken = words.len();
        self.input.consume(taken);
        Ok(())
    }

    /// Takes the rest of the line of a broken value, unless an earlier line is resumed at; says
    /// whether the file ended within it.
    fn finish_line(&mut self, scan: &mut Scan) -> io::Result<bool> {
        while scan.resume.is_none() {
            match self.peek()? {
                None => return Ok(true),
                Some(b'\n') => break,
                Some(byte) => {
                    self.skip();
                    scan.keep(&[byte], self.limit);
                }
            }
        }
        Ok(false)
    }

    fn closed(&self, line: u64, scan: Scan, cut: bool) -> Piece {
        if scan.size > self.limit {
            return self.too_large(line, scan.size, cut);
        }
        let text = match String::from_utf8(scan.bytes) {
            Ok(text) => text,
            Err(error) => {
                let text = escape(error.as_bytes());
                return self.damage(line, NOT_UTF_8.to_owned(), Some(text), cut);
            }
        };
        if scan.deepest > MAX_DEPTH {
            let reason = format!("nested {} deep; the limit is {MAX_DEPTH}", scan.deepest);
            return self.damage(line, reason, Some(text), cut);
        }
        match serde_json::from_str::<&RawValue>(&text) {
            Ok(_) if cut => {
                let reason = "the file ends within this line".to_owned();
                self.damage(line, reason, Some(text), true)
            }
            Ok(_) => Piece {
                place: format!("{}:{line}", self.name),
                in_array: self.in_array,
                value: Ok(Json(text)),
            },
            Err(error) => self.damage(line, format!("not JSON: {error}"), Some(text), cut),
        }
    }

    fn too_large(&self, line: u64, size: usize, cut: bool) -> Piece {
        let reason = format!(
            "a record of {size} bytes exceeds the limit of {} bytes a record and was skipped; \
             raise the limit (--max-record) to read it",
            self.limit
        );
        self.damage(line, reason, None, cut)
    }

    fn broken(&mut self, line: u64, mut scan: Scan, reason: &str, cut: bool) -> Piece {
        if scan.size > self.limit {
            return self.too_large(line, scan.size, cut);
        }
        if let Some(resume) = scan.resume {
            let rest = scan.bytes.split_off(resume.min(scan.bytes.len()));
            self.resume_at(rest);
        }
        let text = escape(&scan.bytes);
        self.damage(line, format!("not JSON: {reason}"), Some(text), cut)
    }

    /// Puts what follows a cut-off value back. From here on such a line ends a value, so this
    /// happens once in a file.
    fn resume_at(&mut self, rest: Vec<u8>) {
        self.by_lines = true;
        #[cfg(test)]
        {
            self.reread += rest.len();
        }
        let lines = rest.iter().filter(|b| **b == b'\n').count();
        let lines = u64::try_from(lines).unwrap_or(u64::MAX);
        self.line = self.line.saturating_sub(lines);
        for byte in rest.into_iter().rev() {
            self.again.push_front(byte);
        }
    }

    /// Reads to the end of the line (in an array: of the element) what is no object or array.
    fn scalar(&mut self) -> io::Result<Piece> {
        self.by_lines |= !std::mem::replace(&mut self.started, true);
        let line = self.line;
        let mut scan = Scan::default();
        let mut cut = true;
        while let Some(byte) = self.peek()? {
            let ends = byte == b'\n' || (self.in_array && !scan.in_string && b",]".contains(&byte));
            if ends {
                cut = false;
                break;
            }
            self.skip();
            if scan.escaped {
                scan.escaped = false;
            } else if byte == b'\\' && scan.in_string {
                scan.escaped = true;
            } else if byte == b'"' {
                scan.in_string = !scan.in_string;
            }
            scan.keep(&[byte], self.limit);
        }
        while scan.bytes.last().is_some_and(u8::is_ascii_whitespace) {
            scan.bytes.pop();
        }
        Ok(self.closed(line, scan, cut))
    }
}

impl Scan {
    /// Why no JSON value continues with this byte, where that shows a cut-off line.
    fn objection(&self, byte: u8) -> Option<&'static str> {
        if self.in_string {
            return (byte == b'\n').then_some("a string does not end on its line");
        }
        if self.deeper > 0 {
            return None;
        }
        let in_object = self.open.last().copied();
        match (byte, in_object) {
            (_, None) => None,
            (b'{' | b'[', Some(true)) if self.last != b':' => {
                Some("an object or array where a name or ',' was expected")
            }
            (b'{' | b'[', Some(false)) if !b"[,".contains(&self.last) => {
                Some("an object or array where ',' was expected")
            }
            (b'"', _) if !b"{[,:".contains(&self.last) => {
                Some("a string where ',' or ':' was expected")
            }
            (b'}', Some(false)) | (b']', Some(true)) => Some("brackets that do not match"),
            _ => None,
        }
    }

    fn take(&mut self, byte: u8, limit: usize) {
        if self.at_line_start && byte == b'{' && self.resume.is_none() && !self.in_string {
            self.resume = Some(self.bytes.len());
        }
        self.at_line_start = byte == b'\n';
        self.keep(&[byte], limit);
        match byte {
            _ if self.escaped => self.escaped = false,
            b'\\' if self.in_string => self.escaped = true,
            b'"' => {
                self.in_string = !self.in_string;
                self.last = b'"';
            }
            _ if self.in_string => {}
            b'{' | b'[' => {
                self.enter(byte == b'{');
                self.last = byte;
            }
            b'}' | b']' => {
                match self.deeper {
                    0 => drop(self.open.pop()),
                    _ => self.deeper = self.deeper.saturating_sub(1),
                }
                self.last = byte;
            }
            b' ' | b'\t' | b'\r' | b'\n' => {}
            _ => self.last = byte,
        }
    }

    fn enter(&mut self, object: bool) {
        if self.open.len() > MAX_DEPTH {
            self.deeper = self.deeper.saturating_add(1);
        } else {
            self.open.push(object);
        }
        let depth = self.open.len().saturating_add(self.deeper);
        self.deepest = self.deepest.max(depth);
    }

    const fn is_closed(&self) -> bool {
        self.open.is_empty() && self.deeper == 0 && !self.in_string
    }

    /// Takes bytes; of a record beyond the limit only their number.
    fn keep(&mut self, bytes: &[u8], limit: usize) {
        self.size = self.size.saturating_add(bytes.len());
        if self.size <= limit {
            self.bytes.extend_from_slice(bytes);
        } else {
            self.bytes = Vec::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &[u8]) -> Vec<Piece> {
        pieces(text, "f", 1000).map(Result::unwrap).collect()
    }

    fn shown(text: &str) -> Vec<String> {
        let show = |p: Piece| match p.value {
            Ok(json) => format!("{} {}", p.place, json.0),
            Err(damage) => format!("{} ! {}", p.place, damage.text.unwrap_or_default()),
        };
        read(text.as_bytes()).into_iter().map(show).collect()
    }

    #[test]
    fn every_layout_gives_the_same_values() {
        for text in [
            "[{\"a\":1},{\"b\":[2]}]",
            "[\n  {\"a\":1},\n  {\"b\":[2]}\n]\n",
            "{\"a\":1}\n{\"b\":[2]}\n",
            "{\"a\":1}{\"b\":[2]}",
            "\u{feff}{\"a\":1}\r\n\r\n{\"b\":[2]}",
        ] {
            let values: Vec<_> = read(text.as_bytes()).into_iter().map(|p| p.value).collect();
            let expected = ["{\"a\":1}", "{\"b\":[2]}"].map(|v| Ok(Json(v.into())));
            assert_eq!(values, expected, "{text}");
        }
    }

    #[test]
    fn a_pretty_printed_object_is_one_value() {
        let text = "{\n  \"a\": {\n    \"b\": [\n1,\n{\"c\":2}\n]\n  }\n}\n{\"d\":1}\n";
        assert_eq!(read(text.as_bytes()).len(), 2);
        assert!(read(text.as_bytes()).iter().all(|p| p.value.is_ok()));
    }

    #[test]
    fn a_damaged_line_loses_no_neighbour() {
        let good = ["f:1 {\"a\":1}", "f:3 {\"b\":2}"];
        for bad in [
            "{\"x\":\"cut",
            "{\"x\":1",
            "{\"x\":",
            "{\"x\":1,",
            "{\"x\":[1,",
            "}",
            "oops",
            "{]",
        ] {
            let text = format!("{{\"a\":1}}\n{bad}\n{{\"b\":2}}\n");
            let expected = [
                good[0].to_owned(),
                format!("f:2 ! {bad}"),
                good[1].to_owned(),
            ];
            assert_eq!(shown(&text), expected, "{bad}");
        }
    }

    #[test]
    fn a_record_beyond_the_limit_is_skipped_by_name() {
        let text = format!("{{\"a\":\"{}\"}}\n{{\"b\":2}}\n", "x".repeat(5000));
        let pieces = read(text.as_bytes());
        let damage = pieces[0].value.as_ref().unwrap_err();
        assert!(
            damage.reason.contains("limit of 1000 bytes"),
            "{}",
            damage.reason
        );
        assert_eq!(damage.text, None);
        assert_eq!(pieces[1].value, Ok(Json("{\"b\":2}".into())));
    }

    #[test]
    fn nesting_beyond_the_limit_is_damage() {
        let text = format!("[{}{}]", "[".repeat(400), "]".repeat(400));
        let pieces = read(text.as_bytes());
        assert!(
            pieces[0]
                .value
                .as_ref()
                .unwrap_err()
                .reason
                .contains("nested 400 deep")
        );
    }

    #[test]
    fn what_is_not_utf_8_is_kept_readably() {
        let pieces = read(b"{\"a\":\"\xff\"}\n{\"b\":2}\n");
        let damage = pieces[0].value.as_ref().unwrap_err();
        assert_eq!(damage.text.as_deref(), Some("{\"a\":\"\\xff\"}"));
        assert_eq!(pieces.len(), 2);
        let pieces = read(b"{\"a\":\"\xf0\x9f\n{\"b\":2}\n\xc3(");
        let texts = [&pieces[0], &pieces[2]].map(|p| p.value.clone().unwrap_err().text.unwrap());
        assert_eq!(texts, ["{\"a\":\"\\xf0\\x9f", "\\xc3("]);
    }

    /// The bytes looked at a second time, and the number of pieces.
    fn reread(text: &str) -> (usize, usize) {
        let mut pieces = pieces(text.as_bytes(), "f", 1 << 30);
        let count = pieces.by_ref().map(Result::unwrap).count();
        (pieces.reread, count)
    }

    #[test]
    fn lines_that_are_all_cut_off_cost_no_more_than_one_more_look() {
        const LINES: usize = 20_000;
        for line in [
            "{\"a\":[\n",
            "{\"a\":\n",
            "{\"a\":[1,\n",
            "{\n\"a\":\n",
            "[\n{\"a\":[\n",
        ] {
            let text = line.repeat(LINES);
            for start in [
                "",
                "{\"a\":1}\n",
                "{\"a\":[\n{\"b\" {\n",
                "[\n",
                "[{\"a\":1},\n",
            ] {
                let text = format!("{start}{text}");
                let (again, count) = reread(&text);
                assert!(
                    again <= text.len(),
                    "{again} of {} bytes, {start:?} {line:?}",
                    text.len()
                );
                assert!(
                    count > LINES / 2 || again == 0,
                    "{count} pieces, {start:?} {line:?}"
                );
            }
        }
        let text = "{\"a\":[\n".repeat(200_000);
        assert_eq!(reread(&text), (0, 1));
        assert_eq!(reread(&format!("{{\"a\":1}}\n{text}")), (0, 200_001));
    }

    #[test]
    fn what_was_read_of_lines_stays_when_the_file_grows() {
        for text in [
            "{\"a\":1}\n{\"x\":[1,\n{\"b\":2}\noops\n{\"y\":\"cut\n12\n{\"c\" {\"d\":1}\n{\"e\":[\n  2]}{}\n",
            "{\"x\":[1,\n{\"b\":2}\n{\"c\":3}\n[7\n]\n{\"d\":\"\u{e9}\"}\n",
            "\u{feff}oops\n{\"x\":\n{\"b\":2}\n\"s\"\n",
        ] {
            let whole = read(text.as_bytes());
            for end in 0..text.len() {
                let mut before = read(&text.as_bytes()[..end]);
                let cut = |p: &Piece| p.value.as_ref().is_err_and(|d| d.unfinished);
                if before.last().is_some_and(cut) {
                    before.pop();
                }
                assert!(!before.iter().any(cut));
                assert_eq!(before, whole[..before.len()], "{:?}", text.get(..end));
            }
        }
    }

    #[test]
    fn nesting_beyond_what_is_read_costs_no_memory() {
        let mut scan = Scan::default();
        for _ in 0..1_000_000 {
            scan.take(b'[', 0);
        }
        assert!(scan.open.capacity() < 1000 && scan.bytes.is_empty());
        assert_eq!(scan.deepest, 1_000_000);
        for _ in 0..1_000_000 {
            assert!(!scan.is_closed());
            scan.take(b']', 0);
        }
        assert!(scan.is_closed());
    }

    #[test]
    fn an_unfinished_tail_says_so() {
        let pieces = read(b"{\"a\":1}\n{\"b\":");
        assert!(pieces[1].value.as_ref().unwrap_err().unfinished);
        let pieces = read(b"[{\"a\":1},");
        assert!(pieces[1].value.as_ref().unwrap_err().unfinished);
        assert!(read(b"").is_empty());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_stop_the_reader_or_vanish(bytes in proptest::collection::vec(proptest::prop_oneof![
            proptest::sample::select(b"{}[]\",:\\\n 1a".to_vec()), proptest::num::u8::ANY], 0..200)) {
            let mut kept = 0;
            for piece in pieces(bytes.as_slice(), "f", 10_000) {
                kept += match piece.unwrap().value {
                    Ok(json) => json.0.len(),
                    Err(damage) => damage.text.unwrap().len(),
                };
            }
            let layout = |b: &&u8| b.is_ascii_whitespace() || b"[],\xef\xbb\xbf".contains(b);
            let content = bytes.iter().filter(|b| !layout(b)).count();
            proptest::prop_assert!(kept >= content, "{kept} of {content} bytes");
        }
    }
}
