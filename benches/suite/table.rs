//! The table that a run prints.

use std::fmt;

use serde_json::{Value, json};

use super::stats::Spread;

/// What a figure counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    PerSecond,
    Millis,
    Micros,
    MegabytesPerSecond,
    Mebibytes,
    /// One thing measured in another of its kind.
    Times,
}

impl Unit {
    const fn name(self) -> &'static str {
        match self {
            Self::PerSecond => "/s",
            Self::Millis => " ms",
            Self::Micros => " us",
            Self::MegabytesPerSecond => " MB/s",
            Self::Mebibytes => " MiB",
            Self::Times => " x",
        }
    }

    fn show(self, value: f64) -> String {
        format!("{}{}", digits(value), self.name())
    }
}

/// Three digits where they are few, none behind the point where they are many.
fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 0.1 => 2,
        _ => 4,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    thousands(whole) + rest
}

/// 20000 as 20,000.
pub fn number(n: u64) -> String {
    thousands(&n.to_string())
}

fn thousands(digits: &str) -> String {
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// What a row should reach, by its median.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Goal {
    /// It stands there to be compared with.
    None,
    /// The ratio to the peer.
    RatioAtLeast(f64),
    RatioAtMost(f64),
    /// Our own figure, in its unit.
    AtMost(f64),
    AtLeast(f64),
}

/// One figure of ours, alone or beside a peer's.
#[derive(Debug)]
pub struct Row {
    pub measure: String,
    pub unit: Unit,
    pub ours: Spread,
    pub peer: Option<Beside>,
    pub goal: Goal,
}

/// A peer's figure.
#[derive(Debug)]
pub struct Beside {
    pub name: String,
    /// Why there is none, or what it is.
    pub figures: Result<Against, String>,
}

/// A peer's figure, and ours in multiples of it, round by round.
#[derive(Clone, Copy, Debug)]
pub struct Against {
    pub theirs: Spread,
    pub ratio: Spread,
}

impl Row {
    fn goal(&self) -> String {
        match self.goal {
            Goal::None => "-".to_owned(),
            Goal::RatioAtLeast(x) => format!(">= {x} x"),
            Goal::RatioAtMost(x) => format!("<= {x} x"),
            Goal::AtMost(x) => format!("<= {}", self.unit.show(x)),
            Goal::AtLeast(x) => format!(">= {}", self.unit.show(x)),
        }
    }

    fn against(&self) -> Option<&Against> {
        self.peer.as_ref()?.figures.as_ref().ok()
    }

    /// `None` where there is no goal, or no peer to reach it against.
    fn met(&self) -> Option<bool> {
        let ratio = self.against().map(|against| against.ratio.median);
        match self.goal {
            Goal::None => None,
            Goal::RatioAtLeast(x) => ratio.map(|r| r >= x),
            Goal::RatioAtMost(x) => ratio.map(|r| r <= x),
            Goal::AtMost(x) => Some(self.ours.median <= x),
            Goal::AtLeast(x) => Some(self.ours.median >= x),
        }
    }

    fn cells(&self) -> [String; 6] {
        let dash = || "-".to_owned();
        let (peer, ratio) = match &self.peer {
            None => (dash(), dash()),
            Some(Beside { name, figures }) => match figures {
                Err(why) => (format!("{name} (not measured: {why})"), dash()),
                Ok(Against { theirs, ratio: r }) => (
                    format!("{name} {}", self.unit.show(theirs.median)),
                    spread(r),
                ),
            },
        };
        let met = match self.met() {
            None => "-",
            Some(true) => "yes",
            Some(false) => "**no**",
        };
        let ours = self.unit.show(self.ours.median);
        let measure = self.measure.clone();
        [measure, ours, peer, ratio, self.goal(), met.to_owned()]
    }

    fn json(&self) -> Value {
        let spread = |s: &Spread| json!({"median": s.median, "min": s.min, "max": s.max});
        let peer = self.peer.as_ref();
        json!({
            "measure": self.measure,
            "unit": self.unit.name().trim(),
            "ctxlog": spread(&self.ours),
            "peer": peer.map(|p| &p.name),
            "peer_figure": self.against().map(|a| spread(&a.theirs)),
            "ratio": self.against().map(|a| spread(&a.ratio)),
            "not_measured": peer.and_then(|p| p.figures.as_ref().err()),
            "goal": self.goal(),
            "met": self.met(),
        })
    }
}

fn spread(of: &Spread) -> String {
    let median = digits(of.median);
    if of.min.total_cmp(&of.max).is_eq() {
        return median;
    }
    format!("{median} ({}..{})", digits(of.min), digits(of.max))
}

/// All rows of a run. Prints itself as Markdown.
#[derive(Debug, Default)]
pub struct Table {
    pub rows: Vec<Row>,
}

impl Table {
    pub fn json(&self, caption: &str) -> Value {
        let rows: Vec<Value> = self.rows.iter().map(Row::json).collect();
        json!({"schema": "ctxlog.bench/1", "caption": caption, "rows": rows})
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = [
            "measure",
            "ctxlog",
            "peer",
            "ratio (min..max)",
            "goal",
            "met",
        ];
        writeln!(f, "| {} |", head.join(" | "))?;
        writeln!(f, "|{}", " --- |".repeat(head.len()))?;
        for row in &self.rows {
            writeln!(f, "| {} |", row.cells().join(" | "))?;
        }
        let judged = || self.rows.iter().filter_map(Row::met);
        let met = judged().filter(|met| *met).count();
        write!(f, "\n{met} of {} goals are met.", judged().count())
    }
}
