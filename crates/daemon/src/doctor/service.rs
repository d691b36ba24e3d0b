//! The service of the agent: its definition, its state, and whether it outlives the login.

use std::path::{Path, PathBuf};

use super::Patient;
use super::definition_text::DefinitionText;
use super::finding::{Finding, Remedy};
use crate::service::Status;

const CHECK: &str = "service";

/// What the manager and the definition say.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) status: Status,
    pub(super) definition: DefinitionText,
    /// The definition leads to nowhere, which hides it from the manager.
    masked: bool,
    /// The program of the definition, if there is no such file.
    missing_program: Option<PathBuf>,
}

/// Asks the service manager; one that does not answer is a fact, too.
pub(super) async fn gather(patient: &Patient) -> Facts {
    let status = patient.service().status().await;
    let path = status.definition.as_deref();
    let masked = path.is_some_and(|path| std::fs::read_link(path).is_ok_and(|target| target == Path::new("/dev/null")));
    let text = path.filter(|_| status.installed).and_then(|path| wolli_home::reading::read(path).ok().flatten()).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let definition = if status.manager == "launchd" { DefinitionText::of_property_list(&text) } else { DefinitionText::of_unit(&text) };
    let missing_program = definition.program.clone().filter(|program| program.is_absolute() && !program.exists());
    Facts { status, definition, masked, missing_program }
}

pub(super) fn findings(patient: &Patient, facts: &Facts, deployed_at: Option<&str>) -> Vec<Finding> {
    let name = patient.name();
    let (status, install) = (&facts.status, format!("wolli service install {name}"));
    if status.manager == "none" {
        return Vec::new();
    }
    let mut found = Vec::new();
    if facts.masked {
        let path = status.definition.as_deref().unwrap_or(Path::new("?"));
        let unit = path.file_name().unwrap_or_default().to_string_lossy();
        return vec![
            Finding::error(CHECK, "masked", format!("the service is masked: {} hides it", path.display()))
                .means("It can be neither started nor installed.")
                .fix(format!("systemctl --user unmask {unit}; {install}")),
        ];
    }
    if !status.installed {
        if let Some(time) = deployed_at {
            found.push(
                Finding::warning(CHECK, "not_installed", format!("\"{name}\" was deployed ({time}), and is not installed as a service"))
                    .means("It does not start with the machine, and not again after a crash; whoever needs it starts it.")
                    .fix(install),
            );
        }
        return found;
    }
    if let Some(problem) = &status.problem {
        let mut lines = problem.lines();
        let first = lines.next().unwrap_or_default();
        found.push(
            Finding::error(CHECK, "manager_unreachable", first)
                .means("The service cannot be started, stopped or asked about from here. Its manager runs while you are logged in, or always with lingering.")
                .fix("sudo loginctl enable-linger \"$USER\""),
        );
    }
    let renew = |finding: Finding| finding.remedy(Remedy::RenewService);
    let settle = |finding: Finding| finding.remedy(Remedy::SettleService);
    if let Some(program) = &facts.missing_program {
        found.push(renew(
            Finding::error(CHECK, "program_missing", format!("the service starts {}, which does not exist", program.display()))
                .means("It was moved or removed after the installation. The service does not start.")
                .fix(format!("{install} && wolli start {name}")),
        ));
    } else if status.other_program == Some(true) {
        let program = facts.definition.program.as_deref().unwrap_or(Path::new("no program"));
        found.push(renew(
            Finding::warning(CHECK, "other_program", format!("the service starts {}, which is not this wolli", program.display()))
                .means("After an update or a change of package manager the old program goes on running; its bugs come back.")
                .fix(format!("{install} && wolli restart {name}")),
        ));
    }
    if status.needs_reload == Some(true) {
        found.push(settle(
            Finding::warning(CHECK, "needs_reload", "the service's definition was changed, and its manager still has the old one")
                .means("What was changed does not count, also not after a restart.")
                .fix("systemctl --user daemon-reload"),
        ));
    }
    if status.problem.is_none() {
        if !status.enabled {
            found.push(settle(
                Finding::warning(CHECK, "not_enabled", "the service is installed and not enabled")
                    .means("It does not start with the machine.")
                    .fix(install.clone()),
            ));
        }
        if status.state.as_deref() == Some("failed") {
            found.push(
                Finding::error(CHECK, "failed", "the service has failed and is not started again")
                    .means("It failed several times in a short time. The log says why.")
                    .fix(format!("wolli logs {name} --lines 30; wolli start {name}")),
            );
        }
        let served = patient.health.as_ref().map(|health| health.pid);
        if let (Some(pid), true) = (served, status.main_pid.is_none()) {
            found.push(
                Finding::warning(CHECK, "served_by_hand", format!("the agent is served by process {pid}, which is not the service"))
                    .means(
                        "It was started by hand or by a client. The service cannot start beside it; nobody starts it again after a crash.",
                    )
                    .fix(format!("wolli stop {name} && wolli start {name}")),
            );
        }
    }
    if status.lingering == Some(false) {
        found.push(settle(
            Finding::warning(
                "lingering",
                "lingering_off",
                "the service ends when you log out, and does not start with the machine: lingering is off",
            )
            .means("Some seconds after your last session ends, the system ends your services; it looks like an outage for no reason.")
            .fix("sudo loginctl enable-linger \"$USER\""),
        ));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::tests::{health, patient};
    use super::*;

    #[test]
    fn each_state_has_its_finding() {
        let (_folder, mut patient) = patient();
        let codes = |patient: &Patient, facts: &Facts, deployed: Option<&str>| -> Vec<_> {
            findings(patient, facts, deployed).iter().map(|finding| finding.code).collect()
        };
        let status = |change: fn(&mut Status)| {
            let mut status = Status { manager: "systemd", installed: true, enabled: true, lingering: Some(true), ..Status::default() };
            change(&mut status);
            Facts { status, ..Facts::default() }
        };
        let none: &[&str] = &[];
        assert_eq!(codes(&patient, &status(|_| {}), None), none);
        assert_eq!(codes(&patient, &status(|status| status.installed = false), None), none);
        assert_eq!(codes(&patient, &status(|status| status.installed = false), Some("2026")), ["not_installed"]);
        assert_eq!(codes(&patient, &status(|status| status.manager = "none"), Some("2026")), none);
        assert_eq!(codes(&patient, &status(|status| status.enabled = false), None), ["not_enabled"]);
        assert_eq!(codes(&patient, &status(|status| status.state = Some("failed".into())), None), ["failed"]);
        assert_eq!(codes(&patient, &status(|status| status.lingering = Some(false)), None), ["lingering_off"]);
        assert_eq!(codes(&patient, &status(|status| status.lingering = None), None), none);
        assert_eq!(codes(&patient, &status(|status| status.other_program = Some(true)), None), ["other_program"]);
        assert_eq!(codes(&patient, &status(|status| status.needs_reload = Some(true)), None), ["needs_reload"]);
        // What the manager did not say is not taken for a no.
        let silent = status(|status| {
            status.enabled = false;
            status.problem = Some("no bus\nadvice".into());
        });
        assert_eq!(codes(&patient, &silent, None), ["manager_unreachable"]);
        let missing = Facts { missing_program: Some("/gone".into()), ..status(|status| status.other_program = Some(true)) };
        assert_eq!(codes(&patient, &missing, None), ["program_missing"]);
        assert_eq!(codes(&patient, &Facts { masked: true, ..status(|_| {}) }, None), ["masked"]);
        patient.health = Some(health());
        assert_eq!(codes(&patient, &status(|_| {}), None), ["served_by_hand"]);
        assert_eq!(codes(&patient, &status(|status| status.main_pid = Some(4711)), None), none);
    }
}
