//! The figures of the reliability table, as every run prints them.

use std::fmt;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;

/// One line of the reliability table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Figure {
    /// Its number in `docs/RELIABILITY.md`, such as `1b`.
    pub number: String,
    /// What was measured.
    pub name: String,
    /// What must be reached.
    pub goal: String,
    /// What was.
    pub value: String,
    /// Whether it holds; `None`: it was skipped, and the value says why.
    pub holds: Option<bool>,
    /// What shows that it does not, in as many lines as it takes: a script, a plan.
    pub shown: String,
}

impl Figure {
    /// A figure that was measured.
    #[must_use]
    pub fn new(
        number: &str,
        name: &str,
        goal: impl Into<String>,
        value: impl Into<String>,
        holds: bool,
    ) -> Self {
        Self {
            number: number.to_owned(),
            name: name.to_owned(),
            goal: goal.into(),
            value: value.into(),
            holds: Some(holds),
            shown: String::new(),
        }
    }

    /// The figure with what shows that it does not hold.
    #[must_use]
    pub fn showing(mut self, shown: impl Into<String>) -> Self {
        self.shown = shown.into();
        self
    }

    /// A figure that this machine does not allow to measure.
    #[must_use]
    pub fn skipped(
        number: &str,
        name: &str,
        goal: impl Into<String>,
        why: impl Into<String>,
    ) -> Self {
        Self {
            holds: None,
            ..Self::new(number, name, goal, why, false)
        }
    }

    /// The figure as one line of tab-separated fields.
    #[must_use]
    pub fn line(&self) -> String {
        let verdict = match self.holds {
            Some(true) => "holds",
            Some(false) => "BROKEN",
            None => "skipped",
        };
        format!(
            "{}\t{}\t{}\t{}\t{verdict}",
            self.number, self.name, self.goal, self.value
        )
    }

    /// Appends the figure to the file that collects a run's figures.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn record(&self, file: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new().create(true).append(true).open(file)?;
        file.write_all(format!("{}\n", self.line()).as_bytes())
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line().replace('\t', " | "))?;
        if self.shown.is_empty() {
            return Ok(());
        }
        write!(f, "\n{}", self.shown)
    }
}
