//! The `PATH` of the installed service beside that of the login shell: what the user installed, the agent should find.

use std::path::Path;

use super::Patient;
use super::finding::{Finding, Remedy};
use super::service;
use crate::service::search_path;

const CHECK: &str = "path";

/// Two lists of folders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Facts {
    /// In the definition.
    service: String,
    /// What an installation of now would write; `None` if the login shell did not say.
    login: Option<String>,
    /// `sh` is in no folder of the service.
    no_shell: bool,
}

/// Asks the login shell if a service is installed.
pub(super) async fn gather(patient: &Patient, service: &service::Facts) -> Option<Facts> {
    let own = service.definition.path.clone().filter(|_| service.status.installed)?;
    let login = search_path(&patient.environment, &[patient.root.path().to_owned()]).await;
    let no_shell = !own.split(':').any(|folder| Path::new(folder).join("sh").is_file());
    Some(Facts { service: own, login: login.fallback.is_none().then_some(login.value), no_shell })
}

pub(super) fn findings(patient: &Patient, facts: Option<&Facts>) -> Vec<Finding> {
    let Some(facts) = facts else { return Vec::new() };
    let name = patient.name();
    let fix = format!("wolli service install {name} && wolli restart {name}");
    if facts.no_shell {
        return vec![
            Finding::error(CHECK, "path_unusable", format!("the PATH of the service has no folder with a shell: {}", facts.service))
                .means("The agent finds no programs.")
                .fix(fix)
                .remedy(Remedy::RenewService),
        ];
    }
    let own: Vec<&str> = facts.service.split(':').collect();
    let missing: Vec<&str> = facts.login.iter().flat_map(|login| login.split(':')).filter(|folder| !own.contains(folder)).collect();
    if missing.is_empty() {
        return Vec::new();
    }
    vec![
        Finding::warning(CHECK, "path_old", format!("the PATH of the service lacks {} of your login shell", missing.join(", ")))
            .means("Programs there are not found by the agent, or others of the same name are, though they work in your terminal.")
            .fix(fix)
            .remedy(Remedy::RenewService),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::patient;
    use super::*;

    #[test]
    fn folders_that_the_service_lacks_are_named() {
        let (_folder, patient) = patient();
        let facts = |service: &str, login: Option<&str>, no_shell| {
            Some(Facts { service: service.into(), login: login.map(str::to_owned), no_shell })
        };
        for (facts, expected) in [
            (None, None),
            (facts("/bin", None, false), None),
            (facts("/a:/bin", Some("/bin:/a"), false), None),
            (facts("/bin", Some("/n:/bin:/m"), false), Some("lacks /n, /m of")),
            (facts("/x", Some("/bin"), true), Some("no folder with a shell")),
        ] {
            let found = findings(&patient, facts.as_ref());
            assert_eq!(found.len(), usize::from(expected.is_some()));
            assert!(expected.is_none_or(|part| found[0].problem.contains(part)), "{found:?}");
        }
    }
}
