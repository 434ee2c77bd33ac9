//! A summariser that is an external command: the prompt on its stdin, the summary on its stdout.

use std::io::{ErrorKind, Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use crate::strategy::{Prompt, option};

use super::summarizer::{SummarizeError, Summarizer, Summary};

/// More than this of an answer is not read.
const ANSWER_MAX: u64 = 4 << 20;
/// More than this of what a command complains about is not read.
const COMPLAINT_MAX: u64 = 64 << 10;
/// How long a command may take, unless said otherwise.
const TIMEOUT: Duration = Duration::from_secs(120);
/// How long output may take to arrive after its command has ended: someone else may hold the pipe.
const DRAIN: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_millis(20);

/// Runs a command for each question. The prompt is its stdin, the summary its stdout; an exit code
/// other than 0 and a time limit that ran out are failures. What it was called by is its name.
#[derive(Clone, Debug)]
pub struct CommandSummarizer {
    path: String,
    timeout: Duration,
    window: Option<u64>,
}

impl CommandSummarizer {
    /// The command at a path, or of a name on the search path. It gets no arguments.
    #[must_use]
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            timeout: TIMEOUT,
            window: None,
        }
    }

    /// The command that a strategy's spec names as `command=`, with its `timeout=` in seconds. Specs
    /// that a log holds were written by whoever wrote the log: run only what your own user named.
    #[must_use]
    pub fn of_spec(spec: &str) -> Option<Self> {
        let command = Self::new(option(spec, "command")?);
        let seconds = option(spec, "timeout").and_then(|t| t.parse().ok());
        Some(match seconds {
            Some(seconds) => command.timeout(Duration::from_secs(seconds)),
            None => command,
        })
    }

    /// Gives it so much time for each question; the default is two minutes.
    #[must_use]
    pub const fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Says how many bytes of prompt it takes.
    #[must_use]
    pub const fn window(mut self, bytes: u64) -> Self {
        self.window = Some(bytes);
        self
    }

    fn failed(&self, what: &str, complaint: &str) -> SummarizeError {
        let line = complaint.lines().find(|l| !l.trim().is_empty());
        let line = line.map_or_else(String::new, |l| {
            let short: String = l.trim().chars().take(200).collect();
            format!(": {short}")
        });
        SummarizeError::new(format!("{} {what}{line}", self.path))
    }
}

impl Summarizer for CommandSummarizer {
    fn name(&self) -> String {
        self.path.clone()
    }

    fn window(&self) -> Option<u64> {
        self.window
    }

    fn summarize(&self, prompt: &Prompt) -> Result<Summary, SummarizeError> {
        let mut command = Command::new(&self.path);
        command
            .env("CTXLOG_SUMMARY_MAX", prompt.summary_max.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let began = Instant::now();
        let mut child = command
            .spawn()
            .map_err(|e| self.failed(&format!("cannot be run: {e}"), ""))?;
        if let Some(mut stdin) = child.stdin.take() {
            let text = prompt.text.clone();
            // A command may not read all, or nothing: that is no failure by itself.
            aside(move || drop(stdin.write_all(text.as_bytes())));
        }
        let unread = Unread::default();
        let stdout = (child.stdout.take()).map(|out| read(out, ANSWER_MAX, unread.over()));
        let stderr = (child.stderr.take()).map(|err| read(err, COMPLAINT_MAX, unread.over()));
        let ended = wait(&mut child, began, self.timeout);
        let complaint = stderr.and_then(|r| r.recv_timeout(DRAIN).ok());
        let complaint = String::from_utf8_lossy(&complaint.unwrap_or_default()).into_owned();
        let Some(status) = ended else {
            let seconds = self.timeout.as_secs_f64();
            return Err(self.failed(&format!("took longer than {seconds} s"), &complaint));
        };
        if !status.success() {
            return Err(self.failed(&format!("ended with {status}"), &complaint));
        }
        let answer = match stdout.map(|r| r.recv_timeout(DRAIN)) {
            Some(Ok(answer)) => answer,
            Some(Err(RecvTimeoutError::Timeout)) => {
                return Err(self.failed("ended and left its output open", &complaint));
            }
            Some(Err(RecvTimeoutError::Disconnected)) | None => {
                return Err(self.failed("gave an output that cannot be read", &complaint));
            }
        };
        if u64::try_from(answer.len()).unwrap_or(u64::MAX) > ANSWER_MAX {
            return Err(self.failed(&format!("wrote more than {ANSWER_MAX} bytes"), &complaint));
        }
        let text = String::from_utf8(answer)
            .map_err(|_| self.failed("wrote what is no UTF-8 text", &complaint))?;
        Ok(Summary::new(text.trim_end_matches(['\n', '\r'])))
    }
}

/// Whether anybody still waits for an output. A process that its command left behind may write for
/// ever: when nobody waits any more, its pipe is closed, which ends it.
#[derive(Default)]
struct Unread(Arc<AtomicBool>);

impl Unread {
    fn over(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Reads on a thread, one byte more than is allowed at most; what comes then is thrown away, so that
/// whoever writes it is not held up, until nobody waits for it any more.
fn read(
    mut from: impl Read + Send + 'static,
    most: u64,
    over: Arc<AtomicBool>,
) -> Receiver<Vec<u8>> {
    let (give, take) = channel();
    let most = usize::try_from(most.saturating_add(1)).unwrap_or(usize::MAX);
    aside(move || {
        let (mut read, mut piece) = (Vec::new(), vec![0; 16 << 10]);
        while !over.load(Ordering::Relaxed) {
            let got = match from.read(&mut piece) {
                Ok(0) => return drop(give.send(read)),
                Ok(got) => got,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let room = most.saturating_sub(read.len());
            read.extend(piece.iter().take(got.min(room)));
        }
    });
    take
}

/// On a thread of its own; where there can be none, what the work holds is closed at once.
fn aside(work: impl FnOnce() + Send + 'static) {
    drop(thread::Builder::new().spawn(work));
}

/// Waits for a child; one that takes too long is killed. None: it was.
fn wait(child: &mut Child, began: Instant, timeout: Duration) -> Option<ExitStatus> {
    let mut nap = Duration::from_millis(1);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if began.elapsed() < timeout => {
                thread::sleep(nap);
                nap = nap.saturating_mul(2).min(LONGEST_WAIT);
            }
            _ => {
                drop(child.kill());
                drop(child.wait());
                return None;
            }
        }
    }
}
