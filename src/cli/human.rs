//! Text for people: colours, widths, glyphs, and contents made harmless.

use std::fmt::Write as _;

use anstyle::{AnsiColor, Style};
use unicode_width::UnicodeWidthChar as _;

/// What is known of what a source says, and was not recorded when it happened.
pub const INFERRED: &str = "inferred";

/// How wide lines may be where no terminal says.
const WIDTH: usize = 100;
/// Cells of the picture of a window.
const GRID: (u64, u64) = (10, 3);

/// What the place that text goes to can show.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Look {
    pub color: bool,
    pub ascii: bool,
    /// Columns of a line.
    pub width: usize,
    /// Whether the width is somebody's real width, that longer lines are wrapped to.
    pub wraps: bool,
}

impl Look {
    /// Finds out about stdout.
    pub fn of_stdout() -> Self {
        let choice = anstream::AutoStream::choice(&std::io::stdout());
        Self {
            color: !matches!(choice, anstream::ColorChoice::Never),
            ascii: !speaks_unicode(|name| std::env::var(name).ok()),
            width: columns().unwrap_or(WIDTH).max(20),
            wraps: columns().is_some(),
        }
    }

    fn paint(self, style: Style, text: &str) -> String {
        if self.color {
            format!("{style}{text}{style:#}")
        } else {
            text.to_owned()
        }
    }

    pub fn bold(self, text: &str) -> String {
        self.paint(Style::new().bold(), text)
    }

    pub fn dim(self, text: &str) -> String {
        self.paint(Style::new().dimmed(), text)
    }

    pub fn bad(self, text: &str) -> String {
        self.paint(AnsiColor::Red.on_default().bold(), text)
    }

    pub fn good(self, text: &str) -> String {
        self.paint(AnsiColor::Green.on_default(), text)
    }

    pub fn loud(self, text: &str) -> String {
        self.paint(AnsiColor::Yellow.on_default(), text)
    }

    /// A name that can be pasted into the next command.
    pub fn id(self, text: &str) -> String {
        self.paint(AnsiColor::Cyan.on_default(), text)
    }

    const fn dots(self) -> &'static str {
        if self.ascii { "..." } else { "…" }
    }

    /// One line of a content that is `used` columns to the right, cut to the width.
    pub fn preview(self, text: &str, used: usize) -> String {
        fit(
            &escape(text),
            self.width.saturating_sub(used).max(8),
            self.dots(),
        )
    }

    /// Heights as a line of bars, at most as many as there is room for.
    pub fn sparkline(self, heights: &[u64], room: usize) -> String {
        let top = heights.iter().copied().max().unwrap_or(0);
        self.sparkline_upto(heights, room, top)
    }

    /// The same where the highest bar stands for `top`, so that several lines have one scale.
    pub fn sparkline_upto(self, heights: &[u64], room: usize, top: u64) -> String {
        let bars: &[&str] = if self.ascii {
            &["_", ".", "-", "=", "#"]
        } else {
            &["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"]
        };
        let top = top.max(1);
        let steps = u64::try_from(bars.len()).unwrap_or(1).saturating_sub(1);
        let bar = |height: u64| {
            let at = height.saturating_mul(steps).checked_div(top).unwrap_or(0);
            usize::try_from(at)
                .ok()
                .and_then(|at| bars.get(at))
                .copied()
                .unwrap_or(" ")
        };
        condensed(heights, room.max(1))
            .into_iter()
            .map(bar)
            .collect()
    }
}

/// The picture of a window: rows of letters, each a share of `whole`.
pub fn grid(shares: &[(char, u64)], whole: u64) -> Vec<String> {
    let cells = GRID.0.saturating_mul(GRID.1);
    let mut letters = String::new();
    let (mut sum, mut drawn) = (0_u64, 0_u64);
    for (letter, amount) in shares {
        sum = sum.saturating_add(*amount);
        let upto = sum
            .saturating_mul(cells)
            .checked_div(whole)
            .unwrap_or(0)
            .min(cells);
        // What is there is seen, however small its share.
        let upto = if *amount > 0 {
            upto.max(drawn.saturating_add(1)).min(cells)
        } else {
            upto
        };
        (drawn..upto).for_each(|_| letters.push(*letter));
        drawn = upto.max(drawn);
    }
    (drawn..cells).for_each(|_| letters.push('.'));
    let row = usize::try_from(GRID.0).unwrap_or(10);
    let letters: Vec<char> = letters.chars().collect();
    letters
        .chunks(row)
        .map(|row| row.iter().collect())
        .collect()
}

/// The highest of each stretch, so that no peak is lost.
fn condensed(heights: &[u64], room: usize) -> Vec<u64> {
    let size = heights.len().div_ceil(room).max(1);
    heights
        .chunks(size)
        .map(|chunk| chunk.iter().copied().max().unwrap_or(0))
        .collect()
}

/// Whether the locale is a Unicode one.
fn speaks_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty());
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    cfg!(windows)
        || cfg!(target_os = "macos")
        || locale.contains("utf-8")
        || locale.contains("utf8")
}

/// `COLUMNS`, else the terminal's width.
fn columns() -> Option<usize> {
    let given = std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok());
    given.or_else(|| terminal_size::terminal_size_of(std::io::stdout()).map(|(w, _)| w.0.into()))
}

/// Characters that could move the cursor, change colours, or turn text around.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// A content on one line, with everything that is not plain text spelled out.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if is_hostile(c) => {
                let _ = write!(out, "\\u{{{:x}}}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out
}

/// A content on its own lines, with everything else that is not plain text spelled out.
pub fn escape_lines(text: &str) -> String {
    let line = |line: &str| escape(line.strip_suffix('\r').unwrap_or(line)).replace("\\t", "    ");
    text.split('\n').map(line).collect::<Vec<_>>().join("\n")
}

/// JSON text with the characters that JSON lets through and a terminal acts on written `\uXXXX`:
/// the same value.
pub fn escape_json(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        if is_hostile(c) && c != '\n' {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Columns that a text takes.
pub fn columns_of(text: &str) -> usize {
    text.chars()
        .map(|c| c.width().unwrap_or(0))
        .fold(0, usize::saturating_add)
}

/// A text cut to a number of columns.
pub fn fit(text: &str, room: usize, dots: &str) -> String {
    if columns_of(text) <= room {
        return text.to_owned();
    }
    let room = room.saturating_sub(columns_of(dots));
    let mut used = 0_usize;
    let fits = |c: &char| {
        used = used.saturating_add(c.width().unwrap_or(0));
        used <= room
    };
    let mut out: String = text.chars().take_while(fits).collect();
    out.push_str(dots);
    out
}

/// Columns that a text with our own colours takes.
fn shown(text: &str) -> usize {
    let mut in_colour = false;
    let plain = text.chars().filter(|c| {
        let counts = !in_colour && *c != '\u{1b}';
        in_colour = (in_colour || *c == '\u{1b}') && *c != 'm';
        counts
    });
    plain
        .map(|c| c.width().unwrap_or(0))
        .fold(0, usize::saturating_add)
}

/// A line broken between words so that it keeps within the width; what follows is indented. A word
/// that is wider than a line stays whole, so that it can be pasted.
pub fn wrap(line: &str, width: usize, indent: usize) -> String {
    if shown(line) <= width {
        return line.to_owned();
    }
    let (mut out, mut used) = (String::new(), 0_usize);
    for word in line.split_inclusive(' ') {
        let columns = shown(word.trim_end());
        if used > indent && used.saturating_add(columns) > width {
            out.truncate(out.trim_end().len());
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            used = indent;
        }
        out.push_str(word);
        used = used.saturating_add(shown(word));
    }
    out
}

/// A number with its thousands set apart.
pub fn number(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && digits.len().saturating_sub(at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A number of things by name.
pub fn things(n: u64, one: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{} {one}{plural}", number(n))
}

/// A percentage, rounded.
pub fn percent(part: u64, whole: u64) -> String {
    let percent = part
        .saturating_mul(200)
        .checked_div(whole)
        .map(|p| p.saturating_add(1) / 2);
    percent.map_or_else(|| "-".to_owned(), |p| format!("{p}%"))
}

/// Rows whose cells stand in columns; the last cell is not padded.
pub fn table(rows: &[Vec<String>], right: &[usize]) -> Vec<String> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(columns_of(cell));
        }
    }
    rows.iter().map(|row| line(row, &widths, right)).collect()
}

fn line(row: &[String], widths: &[usize], right: &[usize]) -> String {
    let mut out = String::new();
    for (at, (cell, width)) in row.iter().zip(widths).enumerate() {
        let space = " ".repeat(width.saturating_sub(columns_of(cell)));
        if at > 0 {
            out.push_str("  ");
        }
        if right.contains(&at) {
            out.push_str(&space);
            out.push_str(cell);
        } else {
            out.push_str(cell);
            out.push_str(&space);
        }
    }
    out.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOOK: Look = Look {
        color: false,
        ascii: false,
        width: 80,
        wraps: false,
    };

    proptest! {
        #[test]
        fn no_content_reaches_a_terminal_as_a_command(text in any::<String>()) {
            prop_assert!(!escape(&text).chars().any(is_hostile));
            prop_assert!(!escape_lines(&text).chars().any(|c| c != '\n' && is_hostile(c)));
        }

        #[test]
        fn escaped_json_is_the_same_value(text in any::<String>()) {
            let value = serde_json::json!({ "t": format!("{text}\u{9b}31m\u{7f}\u{202e}") });
            let escaped = escape_json(&value.to_string());
            prop_assert!(!escaped.chars().any(is_hostile));
            prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&escaped).unwrap(), value);
        }

        #[test]
        fn a_cut_text_keeps_within_its_room(text in any::<String>(), room in 3_usize..60) {
            prop_assert!(columns_of(&fit(&text, room, "…")) <= room);
        }

        #[test]
        fn a_wrapped_line_loses_no_word_and_keeps_within_the_width(
            words in proptest::collection::vec("[a-z]{1,9}", 0..40), width in 24_usize..80) {
            let wrapped = wrap(&words.join(" "), width, 12);
            prop_assert!(wrapped.lines().all(|l| columns_of(l) <= width), "{wrapped}");
            prop_assert_eq!(wrapped.split_whitespace().collect::<Vec<_>>(), words);
        }

        #[test]
        fn a_grid_has_always_the_same_cells(amounts in proptest::collection::vec(any::<u64>(), 0..8), whole in any::<u64>()) {
            let shares: Vec<(char, u64)> = amounts.into_iter().map(|a| ('x', a)).collect();
            let cells: usize = grid(&shares, whole).iter().map(String::len).sum();
            prop_assert_eq!(cells, 30);
        }
    }

    #[test]
    fn numbers_are_set_in_thousands() {
        assert_eq!(number(0), "0");
        assert_eq!(number(999), "999");
        assert_eq!(number(1_000), "1,000");
        assert_eq!(number(12_345_678), "12,345,678");
        assert_eq!(percent(1, 3), "33%");
        assert_eq!(percent(1, 0), "-");
    }

    #[test]
    fn a_sparkline_keeps_its_peak() {
        let heights: Vec<u64> = (0..100).map(|n| if n == 50 { 9 } else { 1 }).collect();
        assert!(LOOK.sparkline(&heights, 20).contains('█'));
        assert!(columns_of(&LOOK.sparkline(&heights, 20)) <= 20);
        let ascii = Look {
            ascii: true,
            ..LOOK
        };
        assert!(ascii.sparkline(&heights, 20).is_ascii());
    }

    #[test]
    fn the_first_locale_that_is_set_decides() {
        let with = |pairs: &'static [(&str, &str)]| {
            speaks_unicode(move |name| {
                pairs
                    .iter()
                    .find(|(n, _)| *n == name)
                    .map(|(_, v)| (*v).to_owned())
            })
        };
        assert!(with(&[("LANG", "en_GB.UTF-8")]));
        assert!(with(&[("LC_ALL", ""), ("LANG", "C.utf8")]));
        if !cfg!(any(windows, target_os = "macos")) {
            assert!(!with(&[("LC_ALL", "C"), ("LANG", "en_GB.UTF-8")]));
            assert!(!with(&[]));
        }
    }
}
