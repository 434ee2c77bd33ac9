//! `self-test`: the reliability figures, measured on this machine's own disk.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::ValueEnum;
use ctxlog::engine::{Environment as _, Error, System};
use ctxlog::testkit::{
    self, ELSEWHERE, Elsewhere, Figure, SUITE, Settings, Trial, crash, crash::Work,
};
use serde::Serialize;

use crate::cli::Context;
use crate::cli::errors::{Failure, INTEGRITY};
use crate::cli::human;
use crate::cli::progress::Progress;

mod place;

use place::Place;

const SELF_TEST: &str = "\
EXAMPLES
  ctxlog self-test                          all figures, in about half a minute
  ctxlog self-test --dir /mnt/data          on the disk that /mnt/data is on
  ctxlog self-test --only 1 --only 1c       these figures alone
  ctxlog self-test --size release --json    what a release is tested with, a line per figure

A process is killed again and again while it writes, logs are written by many threads at once; then
all that was acknowledged has to be there. It is done in a fresh directory, which is removed
afterwards, also of a run that is stopped, unless a figure is broken. Exit code 3 when one is.";

#[derive(clap::Args, Debug)]
#[command(after_help = SELF_TEST)]
pub struct Args {
    /// How much is done for a figure
    #[arg(long, value_enum, default_value_t = Size::Short)]
    pub size: Size,
    /// Measure only the figure of this number; may be given several times
    #[arg(long, value_name = "NUMBER")]
    pub only: Vec<String>,
    /// What everything random is drawn from; another one each time unless given
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
    /// Where the fresh directory is made; beside the store otherwise
    #[arg(long, value_name = "PATH")]
    pub dir: Option<PathBuf>,
    /// Do the work of a child that is going to be killed, on the store at --dir
    #[arg(long, hide = true, requires = "dir", requires = "seed")]
    pub child: Option<Work>,
    /// Wait for the end of stdin, then remove the fresh directory that --dir is
    #[arg(long, hide = true, requires = "dir", conflicts_with = "child")]
    pub clear_up: bool,
}

/// How much is done for a figure.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum Size {
    /// Half a minute: 20 kills, 8 writers x 200 appends
    Short,
    /// Some minutes, what every change is tested with: 200 kills, 8 writers x 1,000 appends
    Ci,
    /// Hours, what a release is tested with: 10,000 kills, 64 writers x 5,000 appends
    Release,
}

impl From<Size> for testkit::Size {
    fn from(size: Size) -> Self {
        match size {
            Size::Short => Self::Short,
            Size::Ci => Self::Ci,
            Size::Release => Self::Release,
        }
    }
}

#[derive(Serialize)]
struct Line<'a> {
    schema: &'static str,
    number: &'a str,
    name: &'a str,
    goal: &'a str,
    value: &'a str,
    verdict: &'static str,
    seed: u64,
    seconds: f64,
    command: Option<&'a str>,
    shown: Option<&'a str>,
}

const SCHEMA: &str = "ctxlog.self-test/1";

/// What was measured, or why it was not.
struct Measured {
    figure: Figure,
    verdict: &'static str,
    seconds: f64,
}

pub fn run(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let seed = args.seed.map_or_else(any_seed, Ok)?;
    if let (Some(work), Some(dir)) = (args.child, &args.dir) {
        let mut out = std::io::stdout();
        let done = crash::child(work, dir, seed, &mut out);
        return Ok(u8::from(done.is_err())); // it has told the parent why
    }
    if let (true, Some(dir)) = (args.clear_up, &args.dir) {
        place::clear_up(dir);
        return Ok(0);
    }
    let (checks, elsewhere) = chosen(&args.only)?;
    let program = std::env::current_exe();
    let program = program.map_err(|e| Failure::file("find", Path::new("this program"), &e))?;
    let beside = cx.store.parent().filter(|p| !p.as_os_str().is_empty());
    let within = args.dir.as_deref().or(beside).unwrap_or(Path::new("."));
    let place = Place::new(within, &program)?;
    let settings = Settings {
        size: args.size.into(),
        seed,
        dir: place.dir().to_owned(),
        program,
    };
    let mut all = Vec::new();
    for check in checks {
        let measured = measure(cx, check, &settings)?;
        if cx.json {
            let Measured {
                figure,
                verdict,
                seconds,
            } = &measured;
            cx.out.json(&line(figure, verdict, seed, *seconds, None))?;
            cx.out.flush()?;
        }
        all.push(measured);
    }
    if cx.json {
        for one in &elsewhere {
            let figure = Figure::skipped(one.number, one.name, "", one.why);
            cx.out
                .json(&line(&figure, "not-covered", seed, 0.0, Some(one.command)))?;
        }
    } else {
        show(cx, &all, &elsewhere, &settings)?;
    }
    verdict(&all, place)
}

fn any_seed() -> Result<u64, Failure> {
    let random = System.random().map_err(Error::Randomness)?;
    // Short enough to be typed again.
    let few = random.first_chunk().copied().unwrap_or_default();
    Ok(u64::from(u32::from_le_bytes(few)))
}

type Chosen = (Vec<&'static Trial>, Vec<&'static Elsewhere>);

/// The figures of these numbers, or all.
fn chosen(only: &[String]) -> Result<Chosen, Failure> {
    let wanted = |number: &str| only.is_empty() || only.iter().any(|n| n == number);
    let here: Vec<_> = SUITE.iter().filter(|c| wanted(c.number)).collect();
    let elsewhere: Vec<_> = ELSEWHERE.iter().filter(|e| wanted(e.number)).collect();
    let is_known = |n: &&String| {
        SUITE.iter().any(|c| c.number == **n) || ELSEWHERE.iter().any(|e| e.number == **n)
    };
    if let Some(unknown) = only.iter().find(|n| !is_known(n)) {
        let numbers: Vec<_> = SUITE.iter().map(|c| c.number).collect();
        let message = format!("there is no figure '{unknown}'");
        let help = format!(
            "the figures that can be measured here are {}",
            numbers.join(", ")
        );
        return Err(Failure::usage("invalid-option", message, help));
    }
    Ok((here, elsewhere))
}

fn measure(cx: &Context, check: &Trial, settings: &Settings) -> Result<Measured, Failure> {
    let dir = settings.dir.join(check.number);
    fs::create_dir(&dir).map_err(|e| Failure::file("make the directory", &dir, &e))?;
    let own = Settings {
        dir,
        ..settings.clone()
    };
    let began = Instant::now();
    let mut progress = Progress::new(cx.progress, check.name);
    let measured = (check.run)(&own, &mut |done, total| progress.at(done, total));
    drop(progress);
    let (figure, verdict) = match measured {
        Ok(figure) => {
            let verdict = match figure.holds {
                Some(true) => "holds",
                Some(false) => "broken",
                None => "skipped",
            };
            (figure, verdict)
        }
        Err(trouble) => {
            let why = format!("could not be measured: {trouble}");
            (Figure::skipped(check.number, check.name, "", why), "failed")
        }
    };
    // Where a run collects its figures, as tests that need more than a directory do.
    if let Some(file) = std::env::var_os("CTXLOG_FIGURES").map(PathBuf::from) {
        let recorded = figure.record(&file);
        recorded.map_err(|e| Failure::file("write", &file, &e))?;
    }
    let seconds = (began.elapsed().as_secs_f64() * 10.0).round() / 10.0;
    Ok(Measured {
        figure,
        verdict,
        seconds,
    })
}

fn line<'a>(
    figure: &'a Figure,
    verdict: &'static str,
    seed: u64,
    seconds: f64,
    command: Option<&'a str>,
) -> Line<'a> {
    let Figure {
        number,
        name,
        goal,
        value,
        shown,
        ..
    } = figure;
    Line {
        schema: SCHEMA,
        number,
        name,
        goal,
        value,
        verdict,
        seed,
        seconds,
        command,
        shown: (!shown.is_empty()).then_some(shown),
    }
}

fn show(
    cx: &mut Context,
    all: &[Measured],
    elsewhere: &[&Elsewhere],
    settings: &Settings,
) -> Result<(), Failure> {
    let titles = ["figure", "what", "goal", "value", "verdict"];
    let mut rows = vec![titles.map(str::to_owned).to_vec()];
    for Measured {
        figure, verdict, ..
    } in all
    {
        let Figure {
            number,
            name,
            goal,
            value,
            ..
        } = figure;
        let cells = [number, name, goal, value].map(|cell| human::escape(cell));
        rows.push([cells.as_slice(), &[(*verdict).to_owned()]].concat());
    }
    if rows.len() > 1 {
        let table = human::table(&rows, &[]);
        let fits = table
            .iter()
            .all(|row| human::columns_of(row) <= cx.look.width);
        if fits || !cx.look.wraps {
            for (row, cells) in table.iter().zip(&rows) {
                let said = cells.last().map_or("", String::as_str);
                let row = match row.strip_suffix(said) {
                    Some(before) if said != "verdict" => format!("{before}{}", judged(cx, said)),
                    _ => cx.look.dim(row),
                };
                cx.out.line(&row)?;
            }
        } else {
            for row in rows.iter().skip(1) {
                stacked(cx, row)?;
            }
        }
    }
    for Measured { figure, .. } in all.iter().filter(|m| !m.figure.shown.is_empty()) {
        cx.out
            .line(&cx.look.bad(&format!("figure {}:", figure.number)))?;
        for line in figure.shown.lines() {
            cx.out.line(&format!("  {}", human::escape(line)))?;
        }
    }
    for one in elsewhere {
        let Elsewhere {
            number,
            name,
            why,
            command,
        } = one;
        let command = cx.look.id(command);
        cx.text(
            &format!("not covered: {number}, {name}: {why}; `{command}`"),
            13,
        )?;
    }
    let again = cx.look.id(&format!("--seed {}", settings.seed));
    cx.text(&format!("the same instants again: {again}"), 2)
}

/// A row of the table where it is too wide: a line a cell.
fn stacked(cx: &mut Context, row: &[String]) -> Result<(), Failure> {
    let [number, name, goal, value, verdict] = row else {
        return Ok(());
    };
    let verdict = judged(cx, verdict);
    cx.text(&format!("{number:<4} {verdict}: {name}"), 5)?;
    for (what, text) in [("goal", goal), ("value", value)] {
        if !text.is_empty() {
            cx.text(&format!("     {what:<5} {text}"), 11)?;
        }
    }
    Ok(())
}

fn judged(cx: &Context, verdict: &str) -> String {
    if verdict == "holds" {
        cx.look.good(verdict)
    } else {
        cx.look.bad(verdict)
    }
}

fn verdict(all: &[Measured], place: Place) -> Result<u8, Failure> {
    let of = |verdict| {
        all.iter()
            .filter(|m| m.verdict == verdict)
            .collect::<Vec<_>>()
    };
    let numbers = |some: &[&Measured]| {
        let numbers: Vec<_> = some.iter().map(|m| m.figure.number.as_str()).collect();
        numbers.join(", ")
    };
    let broken = of("broken");
    if !broken.is_empty() {
        let kept = place.keep();
        let message = format!("not as promised: figure {}", numbers(&broken));
        let help = format!("what was left is in {}; please report it", kept.display());
        return Err(Failure::new(INTEGRITY, "figure-broken", message, help));
    }
    let failed = of("failed");
    if !failed.is_empty() {
        let message = format!("could not be measured: figure {}", numbers(&failed));
        let help = "the table says why; try another directory with --dir";
        return Err(Failure::usage("not-measured", message, help));
    }
    Ok(0)
}
