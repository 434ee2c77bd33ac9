//! What the suite is asked to do.

use std::fmt::Write;
use std::path::PathBuf;

use super::measures;
use super::setup::Size;

/// How a run is wished for.
#[derive(Debug)]
pub struct Options {
    pub size: Size,
    /// Only measures whose name holds one of these; all where there is none.
    pub only: Vec<String>,
    /// Where the table goes as JSON.
    pub json: Option<PathBuf>,
    /// Figures of the Python peers, as `benches/peers/run.sh` printed them.
    pub peers: Option<PathBuf>,
    /// Where to write the content that the Python peers are given, instead of measuring.
    pub content: Option<PathBuf>,
    /// Whether the suite runs the Python peers itself.
    pub run_peers: bool,
    /// Where temporary stores are made; what is measured is the disk that this is on.
    pub dir: PathBuf,
}

impl Options {
    pub fn wants(&self, measure: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|o| measure.contains(o.as_str()))
    }
}

/// What a command line asks for.
#[derive(Debug)]
pub enum Wish {
    Measure(Options),
    Help,
    /// Work of a child process of the suite's own.
    Child(Vec<String>),
}

/// Reads a command line. cargo adds `--bench`, which says nothing.
pub fn parse(arguments: impl Iterator<Item = String>) -> Result<Wish, String> {
    let mut options = Options {
        size: Size::Short,
        only: Vec::new(),
        json: None,
        peers: None,
        content: None,
        run_peers: std::env::var_os("CTXLOG_PEERS").is_some_and(|v| v == "1"),
        dir: PathBuf::from(env!("CARGO_TARGET_TMPDIR")),
    };
    let mut arguments = arguments.filter(|a| a != "--bench");
    while let Some(argument) = arguments.next() {
        let mut value = || {
            let missing = || format!("{argument} needs a value");
            arguments.next().ok_or_else(missing)
        };
        match argument.as_str() {
            "--size" => options.size = Size::from_name(&value()?)?,
            "--only" => options.only.extend(value()?.split(',').map(str::to_owned)),
            "--json" => options.json = Some(value()?.into()),
            "--peers" => options.peers = Some(value()?.into()),
            "--content" => options.content = Some(value()?.into()),
            "--dir" => options.dir = value()?.into(),
            "--child" => return Ok(Wish::Child(arguments.collect())),
            "--help" | "-h" => return Ok(Wish::Help),
            other => return Err(format!("'{other}' is no option")),
        }
    }
    let known = |o: &&String| !measures::ALL.iter().any(|m| m.name.contains(o.as_str()));
    if let Some(unknown) = options.only.iter().find(known) {
        return Err(format!("--only {unknown}: there is no such measure"));
    }
    Ok(Wish::Measure(options))
}

pub fn help() -> String {
    let mut text = "\
cargo bench --bench suite -- [OPTIONS]

  --size smoke|short|full  seconds, about two minutes (the default), about half an hour
  --only NAME[,NAME]       only the measures whose names hold one of these
  --json FILE              writes the table as JSON too, anew after each measure
  --dir DIR                where temporary stores are made (default: cargo's target directory)
  --peers FILE             takes the Python peers' figures from what benches/peers/run.sh printed
  --content FILE           writes the messages which that script appends, and measures nothing

CTXLOG_PEERS=1 runs the Python peers in turn with ours; python3 and a package registry are needed.
CTXLOG_DATA is the folder of recorded transcripts; without it the shipped demo is repeated.

Measures:
"
    .to_owned();
    for measure in measures::ALL {
        let line = writeln!(text, "  {:<9} {}", measure.name, measure.what);
        line.expect("a string takes text");
    }
    text
}
