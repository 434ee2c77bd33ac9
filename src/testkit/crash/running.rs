//! A child as its parent sees it.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use crate::store::Level;
use crate::testkit::Trouble;

use super::child::{Acked, Line, Work};

/// What `Buffered` promises: older than this, an entry survives a killed process.
const BUFFERED: Duration = Duration::from_millis(500);

/// A child that runs. It is killed when this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    heard: Receiver<(Instant, Line)>,
    acks: Vec<(Instant, Acked)>,
    opened: bool,
}

/// A child that was killed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Killed {
    /// When.
    pub at: Instant,
    /// What it had been told by then, with the time at which the parent heard of it.
    pub acks: Vec<(Instant, Acked)>,
    /// Whether it had opened the directory.
    pub opened: bool,
}

impl Killed {
    /// The acknowledgements that a killed process may not lose: flushed and synced ones, and
    /// buffered ones that are older than half a second.
    pub fn promised(&self) -> impl Iterator<Item = &Acked> {
        let due = |heard: &Instant| self.at.saturating_duration_since(*heard) >= BUFFERED;
        let kept = self
            .acks
            .iter()
            .filter(move |(heard, ack)| ack.level > Level::Buffered || due(heard));
        kept.map(|(_, ack)| ack)
    }
}

impl Running {
    /// Starts `program self-test --child WORK` on a directory.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(program: &Path, work: Work, dir: &Path, seed: u64) -> Result<Self, Trouble> {
        let mut command = Command::new(program);
        command.args([
            "self-test",
            "--child",
            &work.to_string(),
            "--seed",
            &seed.to_string(),
        ]);
        command.arg("--dir").arg(dir);
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = piped.spawn().map_err(Trouble::at("starting", program))?;
        let (sender, heard) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            thread::spawn(move || listen(stdout, &sender));
        }
        Ok(Self {
            child,
            heard,
            acks: Vec::new(),
            opened: false,
        })
    }

    /// Listens until `enough` says so, or `time` has passed. Says whether it was enough.
    ///
    /// # Errors
    /// When the child ended by itself: then nothing can be said about a kill.
    pub fn listen(
        &mut self,
        time: Duration,
        mut enough: impl FnMut(&Line) -> bool,
    ) -> Result<bool, Trouble> {
        let began = Instant::now();
        loop {
            match self
                .heard
                .recv_timeout(time.saturating_sub(began.elapsed()))
            {
                Ok((at, line)) => {
                    let done = enough(&line);
                    self.hear(at, line)?;
                    if done {
                        return Ok(true);
                    }
                }
                Err(RecvTimeoutError::Timeout) => return Ok(false),
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(Trouble::harness("the child ended by itself"));
                }
            }
        }
    }

    fn hear(&mut self, at: Instant, line: Line) -> Result<(), Trouble> {
        match line {
            Line::Begun => {}
            Line::Opened => self.opened = true,
            Line::Acked(acked) => self.acks.push((at, acked)),
            Line::Busy => return Err(Trouble::harness("the store was open in another process")),
            Line::Failed(why) => return Err(Trouble::harness(format!("the child failed: {why}"))),
        }
        Ok(())
    }

    /// What the child has been told so far, as far as the parent heard of it.
    #[must_use]
    pub fn acks(&self) -> &[(Instant, Acked)] {
        &self.acks
    }

    /// The number by which the system knows the child.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the child and hears what it had still said.
    ///
    /// # Errors
    /// When it had ended by itself, or failed before.
    pub fn kill(mut self) -> Result<Killed, Trouble> {
        let at = Instant::now();
        let what = "killing the child";
        let io = |source| Trouble::Io {
            what: what.to_owned(),
            source,
        };
        self.child.kill().map_err(io)?;
        let status = self.child.wait().map_err(io)?;
        while let Ok((heard, line)) = self.heard.recv() {
            self.hear(heard, line)?;
        }
        if !was_killed(status) {
            return Err(Trouble::harness(format!(
                "the child ended by itself ({status})"
            )));
        }
        Ok(Killed {
            at,
            acks: std::mem::take(&mut self.acks),
            opened: self.opened,
        })
    }
}

#[cfg(unix)]
fn was_killed(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt as _;
    status.signal() == Some(9)
}

#[cfg(not(unix))]
fn was_killed(status: ExitStatus) -> bool {
    !status.success()
}

/// Hands on whole lines, with the time at which they came; a line that a kill cut off is none.
fn listen(stdout: ChildStdout, to: &Sender<(Instant, Line)>) {
    let mut lines = BufReader::new(stdout);
    let mut text = String::new();
    while lines.read_line(&mut text).is_ok_and(|read| read > 0) {
        let at = Instant::now();
        let Some(whole) = text.strip_suffix('\n') else {
            return;
        };
        let line = Line::parse(whole).unwrap_or_else(|| Line::Failed(format!("it said '{whole}'")));
        if to.send((at, line)).is_err() {
            return;
        }
        text.clear();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it has ended already, or does now
        let _ = self.child.wait();
    }
}
