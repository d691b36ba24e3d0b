//! `--fix`: what cannot lose anything. Everything else is left to the person, who is told what to type.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use wolli_home::atomic;

use super::finding::{Finding, Remedy};
use super::{Patient, socket};

/// Does what can be done about `findings`, each thing once. Gives what did not work. Look again for what is left.
pub async fn repair(patient: &Patient, findings: &[Finding]) -> Vec<String> {
    let mut done: Vec<&Remedy> = Vec::new();
    let mut failed = Vec::new();
    for remedy in findings.iter().filter_map(|finding| finding.remedy.as_ref()) {
        if done.contains(&remedy) {
            continue;
        }
        done.push(remedy);
        match remedy {
            Remedy::Restrict(path) => {
                failed.extend(restrict(path).err().map(|error| format!("cannot protect {}: {error}", path.display())))
            }
            Remedy::RemoveSocket(path) => {
                // A daemon may have come meanwhile.
                if socket::is_stale(path).await {
                    failed.extend(std::fs::remove_file(path).err().map(|error| format!("cannot remove {}: {error}", path.display())));
                }
            }
            Remedy::RenewService => failed.extend(renew(patient).await),
            Remedy::SettleService => match patient.service().settle().await {
                Ok(warnings) => failed.extend(warnings),
                Err(error) => failed.push(error.to_string()),
            },
        }
    }
    failed
}

/// Installs the service again. A definition that somebody changed by hand is kept, for systemd and launchd look at no file of that name.
async fn renew(patient: &Patient) -> Vec<String> {
    let service = patient.service();
    let file = service.definition_file();
    let before = file.and_then(|path| Some((wolli_home::reading::read(&path).ok()??, path)));
    if let Some((text, path)) = &before
        && let Err(error) = atomic::write(&kept(path), text)
    {
        return vec![error.to_string()];
    }
    let (new, told) = match service.install().await {
        Ok((installed, _)) => (true, installed.warnings),
        Err(error) => (false, vec![error.to_string()]),
    };
    if let Some((text, path)) = before
        && (!new || std::fs::read(&path).is_ok_and(|now| now == text))
    {
        let _ = std::fs::remove_file(kept(&path));
    }
    told
}

/// Where the definition before is kept.
fn kept(path: &Path) -> PathBuf {
    let mut kept = path.as_os_str().to_owned();
    kept.push(".old");
    kept.into()
}

/// Takes the rights of group and others away.
fn restrict(path: &Path) -> std::io::Result<()> {
    let mode = path.metadata()?.permissions().mode() & 0o7777;
    std::fs::set_permissions(path, Permissions::from_mode(mode & !0o077))
}
