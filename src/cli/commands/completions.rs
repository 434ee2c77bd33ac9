//! `completions` and `man`: what a shell and a manual know of the command line, from its definition.

use std::path::{Path, PathBuf};

use clap::{Command, CommandFactory as _};
use serde_json::json;

use crate::cli::args::Cli;
use crate::cli::errors::Failure;
use crate::cli::{Context, output};

const COMPLETIONS: &str = "\
EXAMPLES
  ctxlog completions bash > ~/.local/share/bash-completion/completions/ctxlog
  ctxlog completions zsh > ~/.zfunc/_ctxlog
  ctxlog completions fish > ~/.config/fish/completions/ctxlog.fish";

#[derive(clap::Args, Debug)]
#[command(after_help = COMPLETIONS)]
pub struct Args {
    /// For which shell
    #[arg(value_enum, value_name = "SHELL")]
    pub shell: clap_complete::Shell,
}

const MAN: &str = "\
EXAMPLES
  ctxlog man | man -l -                    the page of ctxlog itself
  ctxlog man ~/.local/share/man/man1       a page for each command";

#[derive(clap::Args, Debug)]
#[command(after_help = MAN)]
pub struct ManArgs {
    /// Write a page for ctxlog and for each command into this directory
    #[arg(value_name = "DIR")]
    pub dir: Option<PathBuf>,
}

/// The definition of the command line, with what clap adds to it.
fn definition() -> Command {
    let mut command = Cli::command();
    command.build();
    command
}

pub fn completions(cx: &mut Context, args: &Args) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "ctxlog", &mut script);
    let script = String::from_utf8_lossy(&script);
    if cx.json {
        let shell = args.shell.to_string();
        let value = json!({ "schema": "ctxlog.completions/1", "shell": shell, "script": script });
        cx.out.json(&value)?;
    } else {
        cx.out.line(script.trim_end_matches('\n'))?;
    }
    Ok(0)
}

pub fn man(cx: &mut Context, args: &ManArgs) -> Result<u8, Failure> {
    let pages = pages()?;
    let Some(dir) = &args.dir else {
        let Some((name, page)) = pages.first() else {
            return Ok(0);
        };
        if cx.json {
            let value = json!({ "schema": "ctxlog.man/1", "name": name, "page": page });
            cx.out.json(&value)?;
        } else {
            cx.out.line(page.trim_end_matches('\n'))?;
        }
        return Ok(0);
    };
    std::fs::create_dir_all(dir).map_err(|error| Failure::file("create", dir, &error))?;
    for (name, page) in &pages {
        write(&dir.join(name), page)?;
        if cx.json {
            let file = dir.join(name).display().to_string();
            let value = json!({ "schema": "ctxlog.man/1", "name": name, "file": file });
            cx.out.json(&value)?;
        }
    }
    if !cx.json {
        output::note(&format!("{} pages in {}", pages.len(), dir.display()));
    }
    Ok(0)
}

fn write(path: &Path, page: &str) -> Result<(), Failure> {
    std::fs::write(path, page).map_err(|error| Failure::file("write", path, &error))
}

/// All pages with the names of their files, that of ctxlog itself first.
fn pages() -> Result<Vec<(String, String)>, Failure> {
    let all = definition();
    let own = all
        .get_subcommands()
        .filter(|c| !c.is_hide_set() && c.get_name() != "help");
    let pages = std::iter::once(&all).chain(own).map(|command| {
        let name = match command.get_name() {
            "ctxlog" => "ctxlog".to_owned(),
            name => format!("ctxlog-{name}"),
        };
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone().display_name(&name)).render(&mut page)?;
        let page = String::from_utf8_lossy(&page).into_owned();
        Ok((format!("{name}.1"), page))
    });
    pages.collect()
}
