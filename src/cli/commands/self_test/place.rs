//! The fresh directory that everything is done in. It is removed however the run ends, also by
//! Ctrl-C or a signal: a process beside this one waits for that.

use std::fs;
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::cli::errors::Failure;
use crate::cli::output;

/// How the directory's name begins; nothing else is ever removed.
const NAME: &str = ".ctxlog-self-test-";
/// What tells the process beside this one that the directory stays.
const KEEP: &[u8] = b"keep";

pub struct Place {
    dir: PathBuf,
    beside: Option<Child>,
}

impl Place {
    /// Makes the directory. Process numbers repeat, so a name that is taken is passed over.
    pub fn new(within: &Path, program: &Path) -> Result<Self, Failure> {
        let own = std::process::id();
        let mut dir = within.join(format!("{NAME}{own}"));
        for n in 2_u32.. {
            match fs::create_dir(&dir) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    dir = within.join(format!("{NAME}{own}-{n}"));
                }
                made => {
                    made.map_err(|e| Failure::file("make the directory", &dir, &e))?;
                    break;
                }
            }
        }
        let dir = dir
            .canonicalize()
            .map_err(|e| Failure::file("make the directory", &dir, &e))?;
        let beside = wait_beside(program, &dir);
        if let Err(error) = &beside {
            output::note(&format!(
                "a run that is stopped will leave its directory: {error}"
            ));
        }
        Ok(Self {
            beside: beside.ok(),
            dir,
        })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Leaves the directory where it is.
    pub fn keep(mut self) -> PathBuf {
        self.part(KEEP);
        std::mem::take(&mut self.dir)
    }

    /// Lets the process beside this one end.
    fn part(&mut self, with: &[u8]) {
        let Some(mut beside) = self.beside.take() else {
            return;
        };
        if let Some(mut pipe) = beside.stdin.take()
            && let Err(error) = pipe.write_all(with)
        {
            output::note(&format!("the directory may be removed: {error}"));
        }
        let _ = beside.wait();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.dir.as_os_str().is_empty() {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            output::note(&format!(
                "{} could not be removed: {error}",
                self.dir.display()
            ));
        }
        self.part(KEEP);
    }
}

/// Starts the process that removes the directory once this one is gone. Ctrl-C reaches all processes
/// of a group, so it has one of its own.
fn wait_beside(program: &Path, dir: &Path) -> io::Result<Child> {
    let mut command = Command::new(program);
    command.args(["self-test", "--clear-up", "--dir"]).arg(dir);
    command.stdin(Stdio::piped());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    command.spawn()
}

/// The work of that process.
pub fn clear_up(dir: &Path) {
    let mut said = Vec::new();
    let _ = io::stdin().read_to_end(&mut said);
    let name = dir.file_name().and_then(|name| name.to_str());
    if said == KEEP || !name.is_some_and(|name| name.starts_with(NAME)) {
        return;
    }
    // A child of the run that was stopped may go on to write for a moment.
    for _ in 0..50 {
        if fs::remove_dir_all(dir).is_ok() || !dir.exists() {
            return;
        }
        sleep(Duration::from_millis(100));
    }
}
