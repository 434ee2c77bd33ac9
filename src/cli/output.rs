//! Where data goes: stdout, which may be closed by its reader at any time.

use std::io::{self, BufWriter, IsTerminal as _, Write};

use serde::Serialize;

use super::errors::Failure;
use super::human;

/// Standard output. When its reader has gone, writing becomes a no-op: that is no error.
pub struct Output {
    inner: BufWriter<io::Stdout>,
    terminal: bool,
    closed: bool,
}

impl Output {
    pub fn stdout() -> Self {
        let stdout = io::stdout();
        Self {
            terminal: stdout.is_terminal(),
            inner: BufWriter::new(stdout),
            closed: false,
        }
    }

    /// Whether the reader has gone, so that a long command may stop.
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// A line of text.
    pub fn line(&mut self, text: &str) -> Result<(), Failure> {
        self.put(text.as_bytes())?;
        self.put(b"\n")
    }

    /// A value as one line of JSON.
    pub fn json(&mut self, value: &impl Serialize) -> Result<(), Failure> {
        let text = serde_json::to_string(value).map_err(io::Error::from)?;
        self.line(&human::escape_json(&text))
    }

    /// A request body: its exact bytes, made harmless only where a person looks at them.
    pub fn body(&mut self, body: &str) -> Result<(), Failure> {
        if self.terminal {
            return self.line(&human::escape_json(body));
        }
        self.line(body)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.inner.write_all(bytes);
        self.outlived(written)
    }

    /// Hands over what is still held back.
    pub fn flush(&mut self) -> Result<(), Failure> {
        let flushed = self.inner.flush();
        self.outlived(flushed)
    }

    fn outlived(&mut self, done: io::Result<()>) -> Result<(), Failure> {
        match done {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                self.closed = true;
                Ok(())
            }
            Err(error) => {
                let help = "check what stdout is connected to";
                Err(Failure::usage(
                    "io",
                    format!("cannot write the output: {error}"),
                    help,
                ))
            }
            Ok(()) => Ok(()),
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.closed {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        self.inner.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// Something a person should know beside the data, on stderr.
pub fn note(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}
