//! Room on the disk, and what of the agent fills it.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{StatVfsMountFlags, statvfs};

use super::Patient;
use super::finding::{Finding, word};

const CHECK: &str = "disk";

/// Below this a long answer or a log may not be stored any more.
const ROOM_ERROR: u64 = 64 * MIB;
/// Below this somebody should look before it is too late.
const ROOM_WARNING: u64 = 512 * MIB;
/// Our own log files stop far below this (`[logs]` in config.toml), so something else writes there.
const LOGS_WARNING: u64 = 1024 * MIB;
/// Output that was too long for a model stays here for a while; programs that an agent drives may put their own logs here, too.
const TEMPORARY_WARNING: u64 = 5 * 1024 * MIB;
/// So many files of a folder are counted; a doctor that takes minutes helps nobody.
const FILES_COUNTED: usize = 200_000;
const MIB: u64 = 1024 * 1024;

/// What the disk says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Bytes that we may still write; `None` if the system does not say.
    room: Option<u64>,
    read_only: bool,
    /// Bytes on disk.
    logs: u64,
    temporary: u64,
}

pub(super) fn gather(patient: &Patient) -> Facts {
    let home = &patient.home;
    let system = statvfs(home.path()).ok();
    Facts {
        room: system.as_ref().map(|system| system.f_bavail.saturating_mul(system.f_frsize)),
        read_only: system.is_some_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY)),
        logs: size(&home.logs()),
        temporary: size(&home.temporary()),
    }
}

/// Bytes on disk of what is below `folder`, links not followed.
fn size(folder: &Path) -> u64 {
    let mut folders: Vec<PathBuf> = vec![folder.to_owned()];
    let (mut bytes, mut files) = (0_u64, 0);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                folders.push(entry.path());
            }
            bytes = bytes.saturating_add(metadata.blocks().saturating_mul(512));
            files += 1;
            if files >= FILES_COUNTED {
                return bytes;
            }
        }
    }
    bytes
}

pub(super) fn findings(patient: &Patient, facts: &Facts) -> Vec<Finding> {
    let home = word(patient.home.path());
    let mut found = Vec::new();
    if facts.read_only {
        found.push(
            Finding::error(CHECK, "read_only", format!("the file system of {home} is read-only"))
                .means("Nothing can be stored; prompts are refused. A disk with faults is mounted like that, too.")
                .fix(format!("findmnt -T {home}")),
        );
    }
    let look = format!("df -h {home}; du -xh {home} | sort -h | tail");
    if let Some(room) = facts.room.filter(|room| *room < ROOM_WARNING) {
        let problem = format!("{} MiB are left on the disk of {home}", room / MIB);
        found.push(if room < ROOM_ERROR {
            Finding::error(CHECK, "disk_full", problem).means("Prompts and answers can be stored no more; they are refused.").fix(look)
        } else {
            Finding::warning(CHECK, "disk_nearly_full", problem).means("When it is full, prompts are refused.").fix(look)
        });
    }
    for (code, folder, bytes, limit, meaning) in [
        (
            "logs_large",
            patient.home.logs(),
            facts.logs,
            LOGS_WARNING,
            "The daemon's own log is limited and stays below; something else writes there.",
        ),
        ("temporary_large", patient.home.temporary(), facts.temporary, TEMPORARY_WARNING, "Programs that the agent ran left it there."),
    ] {
        if bytes > limit {
            let folder = word(&folder);
            found.push(
                Finding::warning(CHECK, code, format!("{folder} takes {} MiB", bytes / MIB))
                    .means(meaning)
                    .fix(format!("du -ah {folder} | sort -h | tail")),
            );
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::patient;
    use super::*;

    #[test]
    fn room_and_sizes_have_limits() {
        let (_folder, patient) = patient();
        let fine = Facts { room: Some(ROOM_WARNING), logs: LOGS_WARNING, temporary: TEMPORARY_WARNING, read_only: false };
        for (facts, codes) in [
            (fine.clone(), &[][..]),
            (Facts { room: None, ..fine.clone() }, &[]),
            (Facts { room: Some(ROOM_WARNING - 1), ..fine.clone() }, &["disk_nearly_full"]),
            (Facts { room: Some(0), read_only: true, ..fine.clone() }, &["read_only", "disk_full"]),
            (Facts { logs: LOGS_WARNING + 1, temporary: u64::MAX, ..fine }, &["logs_large", "temporary_large"]),
        ] {
            let found: Vec<_> = findings(&patient, &facts).iter().map(|finding| finding.code).collect();
            assert_eq!(found, codes, "{facts:?}");
        }
    }

    #[test]
    fn sizes_are_of_everything_below() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("a")).unwrap();
        std::fs::write(folder.path().join("a/b"), vec![1; 100_000]).unwrap();
        std::os::unix::fs::symlink("/", folder.path().join("link")).unwrap();
        assert!((100_000..1_000_000).contains(&size(folder.path())));
        assert_eq!(size(&folder.path().join("none")), 0);
    }
}
