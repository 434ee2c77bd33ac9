//! The peers that are written in Python, run by `benches/peers/run.sh`.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use super::content::{Kind, Source};
use super::options::Options;
use super::setup::Sizes;
use super::table::number;

enum From {
    /// They are not there; why.
    Nowhere(&'static str),
    /// What the script printed before.
    File(Value),
    /// The script is run, once a work and round.
    Script {
        content: PathBuf,
        dir: PathBuf,
        rounds: RefCell<HashMap<(&'static str, u64), Value>>,
    },
}

/// Figures of the Python peers.
pub struct Python {
    from: From,
    sizes: Sizes,
}

impl Python {
    pub fn new(options: &Options, sizes: &Sizes, source: &Source, dir: &Path) -> Self {
        let from = match &options.peers {
            Some(file) => {
                let text = std::fs::read_to_string(file).expect("the file of --peers can be read");
                From::File(serde_json::from_str(&text).expect("the file of --peers holds JSON"))
            }
            None if options.run_peers => {
                let content = dir.join("content.jsonl");
                write_content(source, sizes, &content);
                From::Script {
                    content,
                    dir: dir.to_owned(),
                    rounds: RefCell::default(),
                }
            }
            None => From::Nowhere("the Python peers are run with CTXLOG_PEERS=1"),
        };
        Self {
            from,
            sizes: *sizes,
        }
    }

    /// How a work is called in the table.
    pub fn name(&self, work: &str) -> String {
        let messages = match &self.from {
            From::File(all) => nth(all, work, 0)["messages"].as_u64(),
            _ => None,
        };
        match work {
            "session" => "SQLiteSession".to_owned(),
            "saver" => {
                let messages = messages.unwrap_or(self.sizes.saver);
                format!("SqliteSaver, {} messages", number(messages))
            }
            _ => {
                let messages = messages.unwrap_or(super::measures::HISTORY);
                format!("trim_messages, {} messages", number(messages))
            }
        }
    }

    pub fn caption(&self) -> &'static str {
        match self.from {
            From::Nowhere(_) => "not run",
            From::File(_) => "taken from a file, so not measured in turn with ours",
            From::Script { .. } => "a process a round, in turn with ours",
        }
    }

    /// A figure of a round of a work; why there is none.
    pub fn figure(&self, work: &'static str, figure: &str, round: u64) -> Result<f64, String> {
        let all = match &self.from {
            From::Nowhere(why) => return Err((*why).to_owned()),
            From::File(all) => nth(all, work, round),
            From::Script {
                content,
                dir,
                rounds,
            } => {
                let most = match work {
                    "saver" => self.sizes.saver_rounds,
                    _ => self.sizes.synced_rounds,
                };
                // Slow ones are run less often, and stand in for the rounds after.
                let round = round.min(most - 1);
                let run = || nth(&self.run(work, content, dir), work, 0).clone();
                let mut rounds = rounds.borrow_mut();
                &rounds.entry((work, round)).or_insert_with(run).clone()
            }
        };
        let missing = || format!("the Python peers give no '{figure}' of '{work}'");
        all[figure].as_f64().ok_or_else(missing)
    }

    /// Runs one round of a work.
    fn run(&self, work: &str, content: &Path, dir: &Path) -> Value {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/run.sh");
        let messages = match work {
            "trim" => super::measures::HISTORY,
            _ => self.sizes.synced,
        };
        let run = Command::new("bash")
            .arg(script)
            .args(["--work", work, "--rounds", "1"])
            .args(["--messages", &messages.to_string()])
            .args(["--saver-messages", &self.sizes.saver.to_string()])
            .args(["--writer", &self.sizes.writer.to_string()])
            .arg("--content")
            .arg(content)
            .arg("--dir")
            .arg(dir)
            .stderr(Stdio::inherit())
            .output()
            .expect("bash runs benches/peers/run.sh");
        assert!(run.status.success(), "benches/peers/run.sh: {}", run.status);
        serde_json::from_slice(&run.stdout).expect("benches/peers/run.sh prints JSON")
    }
}

/// Writes what the Python peers append, a message a line.
pub fn write_content(source: &Source, sizes: &Sizes, file: &Path) {
    let said = source.stretch(Kind::Text, 0, 0, sizes.synced);
    let lines: String = said.into_iter().map(|one| one.json + "\n").collect();
    std::fs::write(file, lines).expect("the file of content can be written");
}

/// A round of a work; of a file with fewer rounds, the last.
fn nth<'a>(all: &'a Value, work: &str, round: u64) -> &'a Value {
    let rounds = all[work].as_array().map_or(0, Vec::len);
    let at = usize::try_from(round).expect("few rounds");
    &all[work][at.min(rounds.saturating_sub(1))]
}
