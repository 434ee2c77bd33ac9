//! File systems of one's own, in a loop device or in memory: they need root, and are taken away
//! again whatever happens.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// Runs a command of the system; says what it said where it failed.
pub fn system(program: &str, arguments: &[&str]) -> Result<String, String> {
    let ran = Command::new(program).args(arguments).output();
    let ran = ran.map_err(|e| format!("{program}: {e}"))?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if ran.status.success() {
        return Ok(said(&ran.stdout));
    }
    Err(format!("{program} {arguments:?}: {}", said(&ran.stderr)))
}

/// Whether this machine lets us make file systems; else why not.
pub fn allowed() -> Result<(), String> {
    if system("id", &["-u"])? != "0" {
        return Err("it needs root".to_owned());
    }
    for (program, argument) in [
        ("mkfs.ext4", "-V"),
        ("mount", "-V"),
        ("umount", "-V"),
        ("fsfreeze", "-V"),
    ] {
        system(program, &[argument])?;
    }
    let dir = tempfile::tempdir().map_err(|e| e.to_string())?;
    let image = dir.path().join("image");
    make(&image, 8, &[])?;
    let at = dir.path().join("mounted");
    Mounted::image(&image, &at).map(drop)
}

/// Makes an image file with an ext4 file system of so many MiB.
pub fn make(image: &Path, mib: u64, options: &[&str]) -> Result<(), String> {
    let file = File::create(image).map_err(|e| e.to_string())?;
    file.set_len(mib << 20).map_err(|e| e.to_string())?;
    let image = image.display().to_string();
    system("mkfs.ext4", &[&["-q", "-F"], options, &[&image]].concat()).map(drop)
}

/// A mounted file system; unmounted, and its loop device detached, when it is dropped.
pub struct Mounted(PathBuf);

impl Mounted {
    /// Mounts an image file.
    pub fn image(image: &Path, at: &Path) -> Result<Self, String> {
        Self::mount(&["-o", "loop"], &image.display().to_string(), at)
    }

    /// Mounts so many MiB of memory.
    pub fn memory(mib: u64, at: &Path) -> Result<Self, String> {
        let size = format!("size={mib}m");
        Self::mount(&["-t", "tmpfs", "-o", &size], "none", at)
    }

    fn mount(options: &[&str], what: &str, at: &Path) -> Result<Self, String> {
        std::fs::create_dir_all(at).map_err(|e| e.to_string())?;
        let path = at.display().to_string();
        system("mount", &[options, &[what, &path]].concat())?;
        Ok(Self(at.to_owned()))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Holds back whatever would be written to the file system, until the answer is dropped.
    pub fn freeze(&self) -> Result<Frozen<'_>, String> {
        system("fsfreeze", &["-f", &self.0.display().to_string()])?;
        Ok(Frozen(&self.0))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let path = self.0.display().to_string();
        // A process that was just killed may hold it for a moment.
        for _ in 0..50 {
            if system("umount", &[&path]).is_ok() {
                return;
            }
            sleep(Duration::from_millis(100));
        }
        if let Err(why) = system("umount", &["-l", &path]) {
            eprintln!("not unmounted: {why}");
        }
    }
}

pub struct Frozen<'a>(&'a Path);

impl Drop for Frozen<'_> {
    fn drop(&mut self) {
        if let Err(why) = system("fsfreeze", &["-u", &self.0.display().to_string()]) {
            eprintln!("not thawed: {why}");
        }
    }
}
