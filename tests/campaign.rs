//! The long runs behind the figures, short: they find nothing, and they reach everything. Their full
//! forms are `ctxlog self-test --size ci` and `--size release`.

use ctxlog::testkit::Law;
use ctxlog::testkit::campaign::{
    Tampering, Work, every_law, replay_figure, tampering_figure, try_scripts,
};

fn work() -> Work<'static> {
    Work {
        seed: 1,
        threads: 2,
        progress: &|_, _| {},
    }
}

#[test]
fn the_laws_hold_over_mixed_scripts() {
    let tried = try_scripts(work(), 4_000, &every_law).unwrap();
    println!(
        "{} transitions of {} scripts",
        tried.transitions, tried.scripts
    );
    let pending: Vec<String> = Law::waiting()
        .map(|(law, f)| format!("{law} ({f})"))
        .collect();
    println!("pending laws: {}: {}", pending.len(), pending.join(", "));
}

#[test]
fn the_generators_reach_every_reason_that_scripts_can_reach() {
    let tried = try_scripts(work(), 120_000, &|_, _| Ok(())).unwrap();
    println!("{}", tried.reached);
    // What needs a directory or a changed transcript is counted where the figure is made.
    let apart = [
        "source-diverged",
        "too-large",
        "store-busy",
        "invalid-namespace",
    ];
    let mut rare = tried.reached.fewer_than(20);
    rare.retain(|(name, _)| !apart.contains(name));
    assert!(rare.is_empty(), "reached fewer than 20 times: {rare:?}");
}

#[test]
fn tampering_is_noticed_and_located() {
    let how = Tampering {
        bytes: 64 << 10,
        stride: 211,
        clean: 60,
    };
    let figure = tampering_figure(work(), how).unwrap();
    println!("{figure}");
    assert_eq!(figure.holds, Some(true), "{figure}");
}

#[test]
fn replay_gives_what_was_sent() {
    let figure = replay_figure(work(), 3_000).unwrap();
    println!("{figure}");
    assert_eq!(figure.holds, Some(true), "{figure}");
}
