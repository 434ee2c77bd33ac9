//! The browser, where there is one.

use std::path::{Path, PathBuf};
use std::process::Command;

const SCRIPT: &str = "tests/browser/page.mjs";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The browser to run, where it, node and what `npm ci --prefix tests/browser` brings are there. Where
/// they are required, their absence is a failure.
pub fn there() -> Option<PathBuf> {
    let named = std::env::var_os("CHROMIUM").map(PathBuf::from);
    let browser = named.unwrap_or_else(|| PathBuf::from("/usr/bin/chromium"));
    let node = Command::new("node").arg("--version").output().is_ok();
    let modules = root().join("tests/browser/node_modules/playwright-core");
    let missing = [
        ("chromium", browser.exists()),
        ("node", node),
        (
            "playwright-core (npm ci --prefix tests/browser)",
            modules.exists(),
        ),
    ];
    let missing: Vec<&str> = missing.iter().filter(|m| !m.1).map(|m| m.0).collect();
    if missing.is_empty() {
        return Some(browser);
    }
    let required = std::env::var_os("CTXLOG_REQUIRE_BROWSER").is_some();
    assert!(
        !required,
        "a browser is required, and there is no {missing:?}"
    );
    println!("skipped: there is no {}", missing.join(", no "));
    None
}

/// Runs the checks of a plan.
pub fn run(plan: &Path) {
    let mut node = Command::new("node");
    let output = node.arg(root().join(SCRIPT)).arg(plan).output().unwrap();
    println!("{}", String::from_utf8_lossy(&output.stdout));
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
}
