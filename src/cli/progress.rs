//! Progress of long work: only on a terminal, only on stderr, only when it takes a while.

use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Work that ends sooner shows nothing.
const PATIENCE: Duration = Duration::from_millis(500);

/// Progress of one piece of work.
pub struct Progress {
    wanted: bool,
    began: Instant,
    what: &'static str,
    bar: Option<ProgressBar>,
}

impl Progress {
    pub fn new(wanted: bool, what: &'static str) -> Self {
        let wanted = wanted && std::io::stderr().is_terminal();
        Self {
            wanted,
            began: Instant::now(),
            what,
            bar: None,
        }
    }

    /// Tells how much is done.
    pub fn at(&mut self, done: u64, total: u64) {
        if !self.wanted || self.began.elapsed() < PATIENCE {
            return;
        }
        let what = self.what;
        let bar = self.bar.get_or_insert_with(|| bar(what, total));
        bar.set_length(total);
        bar.set_position(done);
    }

    /// Does something that writes lines, without the bar in between.
    pub fn aside<T>(&self, work: impl FnOnce() -> T) -> T {
        match &self.bar {
            Some(bar) => bar.suspend(work),
            None => work(),
        }
    }
}

fn bar(what: &'static str, total: u64) -> ProgressBar {
    let template = "{msg} {wide_bar} {human_pos}/{human_len} {per_sec} eta {eta}";
    let style = ProgressStyle::with_template(template);
    ProgressBar::new(total)
        .with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
        .with_message(what)
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
