//! The `ctxlog` command.

#![forbid(unsafe_code)]
#![cfg_attr(
    not(test),
    deny(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::unreachable,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::as_conversions,
        clippy::print_stdout,
        clippy::print_stderr
    )
)]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
