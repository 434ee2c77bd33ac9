//! Work that is done in a process of its own: for its memory's high-water mark, or to begin with
//! nothing in memory.

use std::path::Path;
use std::process::{Command, Stdio};

use ctxlog::store::Level;
use serde_json::{Value, json};

use super::ours;
use super::sinks::Bare;
use super::stats::timed;

/// What a child measured.
#[derive(Clone, Copy, Debug)]
pub struct Report {
    pub seconds: f64,
    /// The most memory it ever held, opening included.
    pub peak_mib: f64,
}

/// What a child can be asked for, on a store in a folder.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    Open,
    OpenBare,
    Verify,
    ScanBare,
    /// Opens so many conversations and takes their windows, within a budget in MiB.
    Touch(u64, usize),
    /// Imports the session of a file into a store in memory.
    Import,
}

impl Work {
    fn arguments(self) -> Vec<String> {
        let name = match self {
            Self::Open => "open",
            Self::OpenBare => "open-bare",
            Self::Verify => "verify",
            Self::ScanBare => "scan-bare",
            Self::Import => "import",
            Self::Touch(count, budget_mib) => {
                return vec![
                    "touch".to_owned(),
                    count.to_string(),
                    budget_mib.to_string(),
                ];
            }
        };
        vec![name.to_owned()]
    }

    /// Does it in a child, and waits for it.
    pub fn run(self, dir: &Path) -> Report {
        let program = std::env::current_exe().expect("the suite's own program");
        let child = Command::new(program)
            .arg("--child")
            .arg(dir)
            .args(self.arguments())
            .stderr(Stdio::inherit())
            .output()
            .expect("a child process");
        assert!(child.status.success(), "{self:?} failed: {}", child.status);
        let report: Value = serde_json::from_slice(&child.stdout).expect("a child's report");
        let number = |name: &str| report[name].as_f64().expect("a number of a child's report");
        Report {
            seconds: number("seconds"),
            peak_mib: number("peak_kib") / 1_024.0,
        }
    }
}

/// The child's side: does the work and says what it took.
pub fn work(arguments: &[String]) -> Value {
    let (dir, work) = arguments.split_first().expect("a folder");
    let dir = Path::new(dir);
    let work: Vec<&str> = work.iter().map(String::as_str).collect();
    let took = match work.as_slice() {
        ["open"] => timed(|| ours::open(dir, Level::Synced)).0,
        ["open-bare"] => timed(|| Bare::open(dir)).0,
        ["verify"] => {
            let store = ours::open_for_one_pass(dir);
            timed(|| ours::verify(&store)).0
        }
        ["scan-bare"] => {
            let bare = Bare::open(dir);
            timed(|| assert!(bare.scan() > 0, "nothing was scanned")).0
        }
        ["touch", count, budget_mib] => {
            let budget_mib = budget_mib.parse().expect("a size");
            let store = ours::open_within(dir, budget_mib);
            let count = count.parse().expect("a count");
            timed(|| touch(&store, count)).0
        }
        ["import"] => timed(|| ours::import(dir)).0,
        other => panic!("a child cannot {other:?}"),
    };
    json!({"seconds": took.as_secs_f64(), "peak_kib": peak_kib()})
}

fn touch(store: &ctxlog::Store, count: u64) {
    let listed = store.list().expect("a listing").into_iter();
    let mut touched = 0;
    for one in listed.take(usize::try_from(count).expect("a count")) {
        let chat = store.by_id(one).expect("a conversation");
        let window = chat.window().expect("a window");
        assert!(!window.items.is_empty(), "an empty window");
        touched += 1;
    }
    assert_eq!(touched, count, "conversations are missing");
}

/// The high-water mark of this process's memory.
fn peak_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("the system's account");
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let number = line.and_then(|l| l.split_whitespace().next());
    let number = number.and_then(|n| n.parse().ok());
    number.expect("the high-water mark of memory")
}
