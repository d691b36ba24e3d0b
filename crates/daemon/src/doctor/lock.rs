//! Who holds the home.

use wolli_home::lock::LockError;

use super::finding::{Finding, word};
use super::{Held, Patient};

const CHECK: &str = "lock";

pub(super) fn findings(patient: &Patient, held: &Held) -> Vec<Finding> {
    let name = patient.name();
    let served = patient.health.is_some();
    let path = patient.home.daemon_lock();
    let finding = match held {
        Err(error) => {
            let is_file = path.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
            let path = word(&path);
            let fix = if is_file { format!("chmod 600 {path}") } else { format!("mv {path} {path}.old") };
            let problem = match error {
                LockError::Io { path, source } => format!("the lock {} cannot be used: {source}", path.display()),
                error => error.to_string(),
            };
            Finding::error(CHECK, "lock_unusable", problem).means("No daemon can take the agent's home, so none starts.").fix(fix)
        }
        Ok(Some(Some(holder))) if !served && holder.draining => {
            Finding::warning(CHECK, "still_stopping", format!("the daemon is still shutting down: {holder}"))
                .means("It gives the home up by itself; until then no other starts. If it does not within a minute, end it.")
                .fix(format!("kill {}", holder.pid))
        }
        Ok(Some(Some(holder))) if !served => {
            Finding::error(CHECK, "holder_silent", format!("the agent's home is held by {holder}, which does not answer on its port"))
                .means("Clients cannot reach the agent, and no other daemon can take its place. It hangs, or listens elsewhere.")
                .fix(format!("kill {}; wolli start {name}", holder.pid))
        }
        Ok(Some(None)) if !served => Finding::error(CHECK, "holder_unknown", "a process that left no record holds the agent's home")
            .means("No daemon can start before that process ends.")
            .fix(format!("fuser -v {}", word(&path))),
        Ok(None) if served => Finding::warning(CHECK, "not_locked", format!("the daemon of \"{name}\" does not hold the agent's home"))
            .means("It is one of wolli 0.0.2, or its lock file was replaced: a second daemon could write the same files.")
            .fix(format!("wolli restart {name}")),
        Ok(_) => return Vec::new(),
    };
    vec![finding]
}

#[cfg(test)]
mod tests {
    use wolli_home::lock::Holder;

    use super::super::tests::{health, patient};
    use super::*;

    #[test]
    fn a_holder_is_wrong_only_if_it_does_not_answer() {
        let (_folder, mut patient) = patient();
        let holder = Holder {
            pid: 4711,
            started_at: "2026-01-01T00:00:00.000Z".into(),
            executable: "/x".into(),
            version: "1".into(),
            draining: false,
            socket: None,
        };
        let codes = |patient: &Patient, held: Held| findings(patient, &held).iter().map(|finding| finding.code).collect::<Vec<_>>();
        assert_eq!(codes(&patient, Ok(None)), [""; 0]);
        assert_eq!(codes(&patient, Ok(Some(Some(holder.clone())))), ["holder_silent"]);
        assert_eq!(codes(&patient, Ok(Some(Some(Holder { draining: true, ..holder.clone() })))), ["still_stopping"]);
        assert_eq!(codes(&patient, Ok(Some(None))), ["holder_unknown"]);
        assert!(findings(&patient, &Ok(Some(Some(holder.clone()))))[0].fix.starts_with("kill 4711; wolli start "));
        patient.health = Some(health());
        assert_eq!(codes(&patient, Ok(Some(Some(holder)))), [""; 0]);
        assert_eq!(codes(&patient, Ok(None)), ["not_locked"]);
    }
}
