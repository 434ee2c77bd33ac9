//! The tests tested: bugs are planted on purpose, one at a time, and every check is run until it
//! sees them. Each bug must be seen by the check of the law that it breaks; each law must have a bug
//! that no other law's check sees; with no bug planted nothing may be seen.
//!
//! `RUSTFLAGS='--cfg planted' cargo test --features testkit --test planted --target-dir target/planted`

#[cfg(not(planted))]
#[test]
fn planted_bugs_need_a_build_of_their_own() {
    println!("skipped: bugs are planted in a build with RUSTFLAGS='--cfg planted' alone");
}

#[cfg(planted)]
mod matrix;

#[cfg(planted)]
mod planted {
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::PathBuf;

    use ctxlog::planted::{Bug, PENDING, plant};
    use ctxlog::testkit::{Figure, Law};

    use crate::matrix::{Seen, columns, look};

    /// Seeds tried for each bug. All checks look at the same ones.
    const SEEDS: u64 = 80;
    /// Half of the bugs have to be seen within so many seeds.
    const MEDIAN_AT_MOST: u64 = 50;

    /// Laws without a bug that only their check sees, and why that cannot be.
    const NOT_ALONE: &[(&str, &str)] = &[];

    /// What has to see everything; no bug of the matrix.
    const CANARY: &str = "canary";

    #[test]
    fn every_planted_bug_is_seen_by_the_check_of_its_law() {
        std::panic::set_hook(Box::new(|_| {})); // a check that panics under a bug has seen it
        plant(None);
        let started = std::time::Instant::now();
        let clean = look(SEEDS);
        println!("{SEEDS} seeds with no bug planted: {:?}", started.elapsed());
        assert!(clean.is_empty(), "seen with no bug planted: {clean:?}");
        let bugs = || Bug::ALL.iter().filter(|bug| bug.law() != CANARY);
        let matrix: Vec<(Bug, Seen)> = bugs().map(|bug| (*bug, seen(*bug))).collect();
        print(&matrix);
        canary_is_seen_by_all();

        let caught = matrix
            .iter()
            .filter_map(|(bug, seen)| seen.get(bug.law()).map(|s| s.0));
        let mut seeds: Vec<u64> = caught.collect();
        seeds.sort_unstable();
        let median = seeds.get(seeds.len() / 2).copied().unwrap_or(u64::MAX);
        let all = seeds.len() == matrix.len();
        let value = format!("{} of {}, median {median} seeds", seeds.len(), matrix.len());
        let goal = format!(
            "all of {}, median at most {MEDIAN_AT_MOST} seeds",
            matrix.len()
        );
        let holds = all && median <= MEDIAN_AT_MOST;
        let figure = Figure::new("6", "planted bugs caught", goal, value, holds);
        println!("{figure}");
        if let Some(file) = std::env::var_os("CTXLOG_FIGURES") {
            figure.record(&PathBuf::from(file)).unwrap();
        }
        let blind: Vec<&str> = (matrix
            .iter()
            .filter(|(bug, seen)| !seen.contains_key(bug.law())))
        .map(|(bug, _)| bug.name())
        .collect();
        assert!(
            blind.is_empty(),
            "not seen by the check of their law: {blind:?}"
        );
        every_law_has_a_bug_of_its_own(&matrix);
        assert_eq!(figure.holds, Some(true), "{figure}");
    }

    fn first_line(found: &str) -> String {
        let line = found.lines().next().unwrap_or_default();
        line.chars().take(160).collect()
    }

    fn seen(bug: Bug) -> Seen {
        plant(Some(bug));
        let seen = look(SEEDS);
        plant(None);
        seen
    }

    fn canary_is_seen_by_all() {
        let canaries: Vec<&Bug> = Bug::ALL.iter().filter(|b| b.law() == CANARY).collect();
        assert!(!canaries.is_empty(), "there is no canary");
        for canary in canaries {
            let seen = seen(*canary);
            for (name, _) in columns() {
                let first = seen.get(name).map(|s| s.0);
                assert_eq!(first, Some(1), "'{name}' does not see '{}'", canary.name());
            }
        }
    }

    fn every_law_has_a_bug_of_its_own(matrix: &[(Bug, Seen)]) {
        let laws: BTreeSet<&str> = Law::ALL.iter().map(|law| law.name()).collect();
        let alone: BTreeSet<&str> = matrix
            .iter()
            .filter(|(bug, seen)| seen.keys().all(|n| *n == bug.law() || !laws.contains(n)))
            .map(|(bug, _)| bug.law())
            .collect();
        let excused: BTreeMap<&str, &str> = NOT_ALONE.iter().copied().collect();
        for law in Law::ALL.iter().filter(|law| law.pending().is_none()) {
            let name = law.name();
            let has = matrix.iter().any(|(bug, _)| bug.law() == name);
            assert!(has, "no bug is planted for '{name}'");
            let of_its_own = alone.contains(name) != excused.contains_key(name);
            if !of_its_own {
                println!("'{name}' has a bug that others see too, or is excused in vain");
            }
            assert_ne!(
                alone.contains(name),
                excused.contains_key(name),
                "'{name}' has a bug that only its check sees, or stands in NOT_ALONE with the reason"
            );
        }
    }

    /// The matrix, as a table that a person can read: in each cell how many seeds it took.
    fn print(matrix: &[(Bug, Seen)]) {
        let columns: Vec<&str> = columns().iter().map(|(name, _)| *name).collect();
        println!("columns, each with the seeds it took to see a bug; [] is the check that has to:");
        for (n, name) in columns.iter().enumerate() {
            println!("  {n:>2} {name}");
        }
        let head: Vec<String> = (0..columns.len()).map(|n| format!("{n:>4}")).collect();
        println!("{:<34}{}", "", head.join(" "));
        for (bug, seen) in matrix {
            let cell = |name: &&str| match seen.get(name) {
                Some((seed, _)) if *name == bug.law() => format!("[{seed:>2}]"),
                Some((seed, _)) => format!("x{seed:>3}"),
                None if *name == bug.law() => "[  ]".to_owned(),
                None => "   .".to_owned(),
            };
            let cells: Vec<String> = columns.iter().map(cell).collect();
            println!("{:<34}{}", bug.name(), cells.join(" "));
        }
        for (bug, seen) in matrix {
            let (seed, found) = seen.get(bug.law()).cloned().unwrap_or_default();
            println!("\n{} ({}): {}", bug.name(), bug.law(), bug.sentence());
            println!("  seed {seed}: {}", first_line(&found));
            for (name, (seed, found)) in seen.iter().filter(|(name, _)| **name != bug.law()) {
                println!("  and by '{name}' at seed {seed}: {}", first_line(found));
            }
        }
        println!("\npending: {} bugs wait for a feature", PENDING.len());
        PENDING
            .iter()
            .for_each(|(bug, feature)| println!("  {bug}: {feature}"));
        let pending: Vec<String> = Law::waiting()
            .map(|(law, f)| format!("{law} ({f})"))
            .collect();
        println!("pending laws: {}: {}", pending.len(), pending.join(", "));
    }
}
