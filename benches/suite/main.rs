//! What ctxlog costs beside what people use, measured in one run and printed as one table.
//!
//! `cargo bench --bench suite -- --size short`; `-- --help` lists the options. Read the figures as
//! ratios: disks and machines differ. docs/PERFORMANCE.md says what each row means.

mod child;
mod compare;
mod content;
mod disk;
mod measures;
mod options;
mod ours;
mod python;
mod setup;
mod sinks;
mod stats;
mod table;

use std::process::ExitCode;

use options::{Options, Wish};

fn main() -> ExitCode {
    match options::parse(std::env::args().skip(1)) {
        Ok(Wish::Child(work)) => {
            println!("{}", child::work(&work));
            ExitCode::SUCCESS
        }
        Ok(Wish::Help) => {
            println!("{}", options::help());
            ExitCode::SUCCESS
        }
        Ok(Wish::Measure(options)) => {
            measure(options);
            ExitCode::SUCCESS
        }
        Err(why) => {
            eprintln!("{why}\n\n{}", options::help());
            ExitCode::from(2)
        }
    }
}

/// Measures what is wanted. What cannot be measured panics, and the exit code says so.
fn measure(options: Options) {
    let setup = setup::Setup::new(options);
    if let Some(file) = &setup.options.content {
        python::write_content(&setup.source, &setup.sizes, file);
        return;
    }
    let mut table = table::Table::default();
    for measure in measures::ALL {
        if setup.options.wants(measure.name) {
            setup.progress(&format!("{}: {}", measure.name, measure.what));
            (measure.run)(&setup, &mut table);
            keep(&setup, &table);
        }
    }
    setup.done();
    println!("{}\n\n{table}", setup.caption());
}

/// Writes what was measured so far where it is wanted as JSON: a long run that is cut off is not
/// for nothing.
fn keep(setup: &setup::Setup, table: &table::Table) {
    if let Some(file) = &setup.options.json {
        let text = table.json(&setup.caption()).to_string();
        std::fs::write(file, text + "\n").expect("the file of --json can be written");
    }
}
