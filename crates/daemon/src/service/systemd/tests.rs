use std::os::unix::fs::PermissionsExt;

use super::*;
use crate::service::fake::Machine;

#[tokio::test]
async fn installing_checks_first_and_starts_nothing() {
    let machine = Machine::new("systemd");
    let backend = Systemd::new(&machine.environment);
    assert_eq!(backend.install(&machine.definition("/opt/wolli")).await.unwrap(), Installed { new: true, warnings: vec![] });
    let unit = machine.user_home().join(".config/systemd/user/wolli-scribe.service");
    assert_eq!(std::fs::read_to_string(&unit).unwrap(), render::unit(&machine.definition("/opt/wolli")));
    assert_eq!(unit.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(
        machine.calls(),
        [
            "systemctl --user --no-pager show --property=Version",
            "systemctl --user --no-pager show --property=UnitFileState -- wolli-scribe.service",
            "systemctl --user --no-ask-password daemon-reload",
            "systemctl --user --no-ask-password enable -- wolli-scribe.service",
            "loginctl show-user --no-pager --property=Linger --value -- somebody-of-the-test",
            "loginctl --no-ask-password enable-linger -- somebody-of-the-test",
            "loginctl show-user --no-pager --property=Linger --value -- somebody-of-the-test",
        ]
    );
    let status = backend.status(&machine.name).await;
    assert_eq!((status.installed, status.enabled, status.active, status.main_pid), (true, true, false, None));
    assert_eq!((status.lingering, status.other_program), (Some(true), Some(true)));

    assert!(!backend.install(&machine.definition("/opt/wolli")).await.unwrap().new);
    backend.uninstall(&machine.name).await.unwrap();
    assert!(!unit.exists() && !unit.parent().unwrap().join("default.target.wants/wolli-scribe.service").exists());
    backend.uninstall(&machine.name).await.unwrap();
    assert!(matches!(backend.start(&machine.name, Start::Ready).await, Err(ServiceError::NotInstalled { .. })));
}

#[tokio::test]
async fn what_fails_leaves_everything_as_it_was() {
    for (pattern, text) in [
        ("*show --property=Version", "systemd's manager of your services cannot be reached: told to fail\nIt runs while"),
        ("*UnitFileState*", "cannot be reached: told to fail"),
        ("*daemon-reload", "systemctl --user daemon-reload failed for \"scribe\": told to fail"),
        ("*enable --*", "systemctl --user enable failed for \"scribe\": told to fail"),
    ] {
        let machine = Machine::new("systemd");
        let backend = Systemd::new(&machine.environment);
        let first = machine.disk();
        machine.fail(&[pattern]);
        let error = backend.install(&machine.definition("/opt/first")).await.unwrap_err().to_string();
        assert!(error.contains(text), "{pattern}: {error}");
        assert_eq!(machine.disk(), first, "{pattern}");

        machine.fail(&[]);
        backend.install(&machine.definition("/opt/first")).await.unwrap();
        let second = machine.disk();
        machine.fail(&[pattern]);
        assert!(backend.install(&machine.definition("/opt/second")).await.is_err());
        assert_eq!(machine.disk(), second, "{pattern}: the former unit");
    }
}

#[tokio::test]
async fn a_service_that_ends_with_the_logout_is_a_warning_with_the_command() {
    let machine = Machine::new("systemd");
    machine.fail(&["*enable-linger*"]);
    let installed = Systemd::new(&machine.environment).install(&machine.definition("/opt/wolli")).await.unwrap();
    let [warning] = &installed.warnings[..] else { panic!("{installed:?}") };
    assert!(warning.contains("told to fail") && warning.ends_with("sudo loginctl enable-linger somebody-of-the-test"), "{warning}");
    assert_eq!(Systemd::new(&machine.environment).status(&machine.name).await.lingering, Some(false));
}

#[tokio::test]
async fn what_cannot_work_is_said_before_anything_is_changed() {
    let machine = Machine::new("systemd");
    let backend = Systemd::new(&machine.environment);
    let units = machine.user_home().join(".config/systemd/user");
    std::fs::create_dir_all(&units).unwrap();
    std::os::unix::fs::symlink("/dev/null", units.join("wolli-scribe.service")).unwrap();
    let error = backend.check(&machine.name).await.unwrap_err().to_string();
    assert!(error.contains("is masked") && error.contains("systemctl --user unmask wolli-scribe.service"), "{error}");
    assert!(backend.install(&machine.definition("/opt/wolli")).await.is_err());

    std::fs::remove_dir_all(machine.user_home().join(".config")).unwrap();
    std::fs::write(machine.user_home().join(".config"), "in the way").unwrap();
    let error = backend.check(&machine.name).await.unwrap_err().to_string();
    assert!(error.contains(".config"), "{error}");
    assert!(machine.calls().iter().all(|call| !call.contains("enable")));

    std::fs::remove_file(machine.bin().join("systemctl")).unwrap();
    std::fs::remove_file(machine.user_home().join(".config")).unwrap();
    let nowhere = Environment::new([("HOME", machine.user_home().to_str().unwrap()), ("WOLLI_SERVICE_MANAGER", "systemd")], "/");
    let mut backend = Systemd::new(&nowhere);
    backend.programs.set("PATH", Some(machine.bin().into()));
    let error = backend.check(&machine.name).await.unwrap_err().to_string();
    assert!(error.contains("cannot call systemctl"), "{error}");
}

#[tokio::test]
async fn a_unit_that_came_to_its_start_limit_is_started_again() {
    let machine = Machine::new("systemd");
    let backend = Systemd::new(&machine.environment);
    backend.install(&machine.definition("/opt/wolli")).await.unwrap();
    machine.calls();
    backend.start(&machine.name, Start::Ordered).await.unwrap();
    backend.restart(&machine.name).await.unwrap();
    backend.stop(&machine.name).await.unwrap();
    let verbs: Vec<String> =
        machine.calls().iter().filter_map(|call| call.strip_prefix("systemctl --user --no-ask-password ").map(str::to_owned)).collect();
    assert_eq!(
        verbs,
        [
            "reset-failed -- wolli-scribe.service",
            "start --no-block -- wolli-scribe.service",
            "reset-failed -- wolli-scribe.service",
            "restart -- wolli-scribe.service",
            "stop -- wolli-scribe.service",
        ]
    );
    machine.fail(&["*restart*"]);
    let error = backend.restart(&machine.name).await.unwrap_err().to_string();
    assert_eq!(error, "systemctl --user restart failed for \"scribe\": told to fail");
}
