//! Whether the daemon is the program of now.

use super::Patient;
use super::finding::Finding;

const CHECK: &str = "build";

pub(super) fn findings(patient: &Patient) -> Vec<Finding> {
    let Some(health) = &patient.health else { return Vec::new() };
    let (Some(served), Some(own)) = (&health.build_id, &patient.own_build) else { return Vec::new() };
    if served == own {
        return Vec::new();
    }
    let program = health.executable.as_deref().unwrap_or("an unknown program");
    let version = health.version.as_deref().unwrap_or("?");
    vec![
        Finding::warning(
            CHECK,
            "other_build",
            format!("the daemon (process {}) is {program}, version {version}, another build than this wolli", health.pid),
        )
        .means("It was started before an update, or from another installation: what the update brought does not count yet.")
        .fix(format!("wolli restart {}", patient.name())),
    ]
}

#[cfg(test)]
mod tests {
    use super::super::tests::{health, patient};
    use super::*;

    #[test]
    fn another_build_is_named() {
        let (_folder, mut patient) = patient();
        patient.own_build = Some("1+a".into());
        assert!(findings(&patient).is_empty());
        patient.health = Some(health());
        // Wolli 0.0.2 does not say.
        assert!(findings(&patient).is_empty());
        patient.health.as_mut().unwrap().build_id = Some("1+a".into());
        assert!(findings(&patient).is_empty());
        patient.health.as_mut().unwrap().build_id = Some("1+b".into());
        let found = findings(&patient);
        assert_eq!((found[0].code, found[0].fix.as_str()), ("other_build", "wolli restart scribe"));
    }
}
