//! Runs the binary.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use serde::de::DeserializeOwned;

use super::shapes::Failed;

/// A directory with a store that may come to be in it.
pub struct Place(tempfile::TempDir);

/// What a run left.
pub struct Ran {
    pub code: i32,
    pub out: String,
    pub err: String,
}

impl Place {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn store(&self) -> PathBuf {
        self.path(".ctxlog")
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        std::fs::write(self.path(name), content).unwrap();
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ctxlog"));
        command.args(arguments).current_dir(self.0.path());
        for name in [
            "CTXLOG_STORE",
            "CTXLOG_MEMORY",
            "CTXLOG_NAMESPACE",
            "CTXLOG_FIGURES",
            "COLUMNS",
            "NO_COLOR",
            "CLICOLOR_FORCE",
            "LC_CTYPE",
            "LANG",
        ] {
            command.env_remove(name);
        }
        command.env("LC_ALL", "C.UTF-8");
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Ran {
        Ran::of(self.command(arguments).output().unwrap())
    }

    pub fn feed(&self, arguments: &[&str], input: &str) -> Ran {
        let mut child = self
            .command(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        // The command may refuse before it reads.
        let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
        Ran::of(child.wait_with_output().unwrap())
    }

    /// A conversation `chat` under `sliding-window:keep=2` in which m5 and m6 left at it:4.
    pub fn furnished() -> Self {
        let place = Self::new();
        for (role, text) in [("system", "You help."), ("user", "Where is order 4411?")] {
            place
                .run(&["append", "-c", "chat", "--role", role, "--text", text])
                .done();
        }
        let strategy = ["--strategy", "sliding-window:keep=2"];
        place.run(&[["call"].as_slice(), &strategy].concat()).done();
        for tool in ["find", "track", "ask"] {
            place.feed(&["append"], &calling(tool)).done();
            place
                .run(&["append", "--result-of", "call_0", "--text", "done"])
                .done();
            place.run(&["call"]).done();
        }
        place
    }
}

/// An assistant message that calls a tool, as OpenAI writes it.
pub fn calling(tool: &str) -> String {
    let function = serde_json::json!({ "name": tool, "arguments": "{}" });
    let call = serde_json::json!({ "id": "call_0", "type": "function", "function": function });
    serde_json::json!({ "role": "assistant", "content": null, "tool_calls": [call] }).to_string()
}

impl Ran {
    fn of(output: std::process::Output) -> Self {
        Self {
            code: output.status.code().expect("no signal ended it"),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Demands success.
    #[track_caller]
    pub fn done(self) -> Self {
        assert_eq!(self.code, 0, "{}{}", self.out, self.err);
        self
    }

    #[track_caller]
    pub fn json<T: DeserializeOwned>(&self) -> T {
        let mut all = self.lines();
        assert_eq!(all.len(), 1, "{}{}", self.out, self.err);
        all.remove(0)
    }

    #[track_caller]
    pub fn lines<T: DeserializeOwned>(&self) -> Vec<T> {
        let read = |line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        self.out.lines().map(read).collect()
    }

    /// Demands the exit code, and an error with the code, as people and as programs get it.
    #[track_caller]
    pub fn failed(&self, exit: i32, code: &str) -> (String, String) {
        assert_eq!(self.code, exit, "{}{}", self.out, self.err);
        let last = self.err.lines().rfind(|l| l.starts_with("{\"error\""));
        match last {
            Some(line) => {
                let failed: Failed = serde_json::from_str(line).unwrap();
                assert_eq!(failed.error.code, code, "{}", self.err);
                (failed.error.message, failed.error.help)
            }
            None => {
                let (_, said) = self
                    .err
                    .split_once(&format!("error[{code}]: "))
                    .unwrap_or_else(|| panic!("{}", self.err));
                let (message, help) = said.split_once("\nhelp: ").expect("a way out");
                assert!(message.ends_with(['.', '!', '?']), "{message}");
                (message.to_owned(), help.to_owned())
            }
        }
    }
}
