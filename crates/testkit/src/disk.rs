//! A real file system that is small enough to be filled.
//!
//! Invariant: what is mounted here is unmounted when the guard is dropped. Mounting needs the right to mount; a test that does not
//! have it says so and checks nothing.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// A file system in memory, on a folder that the test names.
#[derive(Debug)]
pub struct TinyDisk {
    path: PathBuf,
}

impl TinyDisk {
    /// Mounts a disk of that many KiB on `folder`, which is made if it is missing. What was in it is hidden meanwhile.
    ///
    /// # Errors
    /// When this user may not mount, or there is no `mount`.
    pub fn mount(folder: &Path, kibibytes: u32) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={kibibytes}k"), "tmpfs"]).arg(folder);
        let output = mount.output().context("mount cannot be run")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(Self { path: folder.to_owned() })
    }

    /// Fills the disk to its last byte, with a file that [`make_room`](Self::make_room) removes.
    ///
    /// # Errors
    /// When not even the file can be made.
    pub fn fill(&self) -> Result<()> {
        let mut filler = File::options().create(true).append(true).open(self.filler())?;
        // Ever smaller pieces, so that not a single byte is left.
        for size in [4096, 512, 1] {
            while filler.write_all(&vec![0; size]).is_ok() {}
        }
        Ok(())
    }

    /// Removes what [`fill`](Self::fill) wrote.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn make_room(&self) -> Result<()> {
        Ok(std::fs::remove_file(self.filler())?)
    }

    fn filler(&self) -> PathBuf {
        self.path.join(".filler")
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        // Lazily: a program that has not quite ended may still have a file open.
        let _ = Command::new("umount").arg("--lazy").arg(&self.path).output();
    }
}
