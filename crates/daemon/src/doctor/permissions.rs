//! Owners and modes: what others can read, and what the agent itself cannot write.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

use super::Patient;
use super::finding::{Finding, Remedy, word};

const CHECK: &str = "permissions";

/// What is asked of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Others must not look into it, and we must write into it.
    Folder,
    /// It holds a token or keys.
    Secret,
}

/// One place as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    path: PathBuf,
    kind: Kind,
    mode: u32,
    owner: u32,
    own_user: u32,
    writable: bool,
}

/// Looks at the places that exist. Links are followed, as reading and writing do.
pub(super) fn gather(patient: &Patient) -> Vec<Place> {
    let home = &patient.home;
    let shared = &patient.shared;
    let folders = [home.path().to_owned(), home.sessions(), home.session_folder(), home.logs()];
    let secrets = [home.config_json(), home.last_good(), home.auth(), home.integrations(), shared.auth(), shared.models()];
    let places = folders.into_iter().map(|path| (path, Kind::Folder)).chain(secrets.into_iter().map(|path| (path, Kind::Secret)));
    places.filter_map(|(path, kind)| Some(place(&path, kind, &path.metadata().ok()?))).collect()
}

fn place(path: &Path, kind: Kind, metadata: &Metadata) -> Place {
    Place {
        path: path.to_owned(),
        kind,
        mode: metadata.mode() & 0o7777,
        owner: metadata.uid(),
        own_user: rustix::process::getuid().as_raw(),
        writable: access(path, Access::WRITE_OK).is_ok(),
    }
}

pub(super) fn findings(patient: &Patient, places: &[Place]) -> Vec<Finding> {
    places.iter().filter_map(|place| finding(patient, place)).collect()
}

fn finding(patient: &Patient, place: &Place) -> Option<Finding> {
    let (path, shown) = (word(&place.path), place.path.display());
    if place.owner != place.own_user {
        return Some(
            Finding::error(CHECK, "other_owner", format!("{shown} belongs to user {}, not to you", place.owner))
                .means("Something was run as another user, by sudo perhaps. The daemon cannot write there, or not with the right owner.")
                .fix(format!("sudo chown -R \"$(id -u):$(id -g)\" {}", word(patient.home.path()))),
        );
    }
    if !place.writable {
        return Some(
            Finding::error(CHECK, "not_writable", format!("{shown} cannot be written (mode {:04o})", place.mode))
                .means("Sessions and changes cannot be stored; prompts are refused.")
                .fix(format!("chmod u+rwX {path}")),
        );
    }
    // Only of what is ours: the rest cannot be changed by us.
    if place.mode & 0o077 == 0 {
        return None;
    }
    let restrict = |finding: Finding| finding.fix(format!("chmod go-rwx {path}")).remedy(Remedy::Restrict(place.path.clone()));
    Some(match place.kind {
        Kind::Secret => restrict(
            Finding::error(CHECK, "secret_readable", format!("{shown} is open to other users (mode {:04o})", place.mode))
                .means("A token or keys stand in it. If others use this machine, take new ones after the fix."),
        ),
        Kind::Folder => restrict(
            Finding::warning(CHECK, "folder_open", format!("{shown} is open to other users (mode {:04o})", place.mode))
                .means("Other users of this machine can look at what is in it."),
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::patient;
    use super::*;

    #[test]
    fn what_is_not_ours_is_found_first() {
        let (_folder, patient) = patient();
        let ours = Place { path: "/x".into(), kind: Kind::Secret, mode: 0o600, owner: 7, own_user: 7, writable: true };
        for (place, code) in [
            (ours.clone(), None),
            (Place { owner: 0, mode: 0o644, ..ours.clone() }, Some("other_owner")),
            (Place { writable: false, mode: 0o444, ..ours.clone() }, Some("not_writable")),
            (Place { mode: 0o640, ..ours.clone() }, Some("secret_readable")),
            (Place { mode: 0o755, kind: Kind::Folder, ..ours.clone() }, Some("folder_open")),
            (Place { mode: 0o700, kind: Kind::Folder, ..ours }, None),
        ] {
            assert_eq!(finding(&patient, &place).map(|finding| finding.code), code, "{place:?}");
        }
    }
}
