//! Test support: a file system of 64 KiB that can be filled, if this user may mount one.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// Unmounted when dropped.
pub(crate) struct TinyDisk(tempfile::TempDir);

impl TinyDisk {
    /// `None`, and a line that says so, where mounting is not permitted.
    pub(crate) fn mount() -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"]).arg(folder.path());
        if mount.output().is_ok_and(|output| output.status.success()) {
            return Some(Self(folder));
        }
        eprintln!("skipped: mounting a tmpfs is not permitted here");
        None
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// Fills the disk to the last byte.
    pub(crate) fn fill(&self) {
        let mut filler = File::create(self.path().join("filler")).unwrap();
        while filler.write_all(&[0; 512]).is_ok() {}
    }
}

impl Drop for TinyDisk {
    fn drop(&mut self) {
        drop(Command::new("umount").arg(self.path()).output());
    }
}
