//! `--fix`: what cannot lose anything. Everything else is left to the person, who is told what to type.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

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
            Remedy::RenewService => match patient.service().install().await {
                Ok((installed, _)) => failed.extend(installed.warnings),
                Err(error) => failed.push(error.to_string()),
            },
        }
    }
    failed
}

/// Takes the rights of group and others away.
fn restrict(path: &Path) -> std::io::Result<()> {
    let mode = path.metadata()?.permissions().mode() & 0o7777;
    std::fs::set_permissions(path, Permissions::from_mode(mode & !0o077))
}
