use super::*;
use crate::service::fake::Machine;

/// The calls but for questions.
fn orders(machine: &Machine) -> Vec<String> {
    let domain = format!("gui/{}", getuid().as_raw());
    let calls = machine.calls().into_iter().filter(|call| !call.starts_with("launchctl print"));
    calls.map(|call| call.replace(machine.user_home().to_str().unwrap(), "HOME").replace(&domain, "gui/UID")).collect()
}

#[tokio::test]
async fn a_life() {
    let machine = Machine::new("launchd");
    let backend = Launchd::new(&machine.environment);
    assert!(matches!(backend.start(&machine.name, Start::Ready).await, Err(ServiceError::NotInstalled { .. })));
    assert!(backend.install(&machine.definition("/opt/wolli")).await.unwrap().new);
    assert!(!backend.install(&machine.definition("/opt/wolli")).await.unwrap().new);
    assert!(machine.home.logs().is_dir());
    backend.start(&machine.name, Start::Ready).await.unwrap();
    let status = backend.status(&machine.name).await;
    assert_eq!((status.active, status.main_pid, status.state.as_deref()), (true, Some(42), Some("running")));
    backend.start(&machine.name, Start::Ready).await.unwrap();
    backend.restart(&machine.name).await.unwrap();
    backend.stop(&machine.name).await.unwrap();
    backend.stop(&machine.name).await.unwrap();
    assert_eq!(backend.status(&machine.name).await.state.as_deref(), Some("not loaded"));
    backend.restart(&machine.name).await.unwrap();
    backend.uninstall(&machine.name).await.unwrap();
    backend.uninstall(&machine.name).await.unwrap();
    assert_eq!(
        orders(&machine),
        [
            "launchctl enable gui/UID/com.wolli.scribe",
            "launchctl enable gui/UID/com.wolli.scribe",
            "launchctl bootstrap gui/UID HOME/Library/LaunchAgents/com.wolli.scribe.plist",
            "launchctl kickstart gui/UID/com.wolli.scribe",
            "launchctl kickstart -k gui/UID/com.wolli.scribe",
            "launchctl bootout gui/UID/com.wolli.scribe",
            "launchctl bootstrap gui/UID HOME/Library/LaunchAgents/com.wolli.scribe.plist",
            "launchctl bootout gui/UID/com.wolli.scribe",
        ]
    );
    assert!(!machine.user_home().join("Library/LaunchAgents/com.wolli.scribe.plist").exists());
}

#[tokio::test]
async fn what_fails_leaves_the_list_as_it_was() {
    let machine = Machine::new("launchd");
    let backend = Launchd::new(&machine.environment);
    let list = machine.user_home().join("Library/LaunchAgents/com.wolli.scribe.plist");
    for (pattern, text) in
        [("print gui*", "launchd cannot be reached: told to fail"), ("enable*", "launchctl enable failed for \"scribe\": told to fail")]
    {
        machine.fail(&[pattern]);
        let error = backend.install(&machine.definition("/opt/first")).await.unwrap_err().to_string();
        assert!(error.contains(text), "{error}");
        assert!(!list.exists());
    }
    machine.fail(&[]);
    backend.install(&machine.definition("/opt/first")).await.unwrap();
    let first = std::fs::read(&list).unwrap();
    machine.fail(&["enable*"]);
    backend.install(&machine.definition("/opt/second")).await.unwrap_err();
    assert_eq!(std::fs::read(&list).unwrap(), first);
    machine.fail(&["bootstrap*"]);
    let error = backend.start(&machine.name, Start::Ready).await.unwrap_err().to_string();
    assert_eq!(error, "launchctl bootstrap failed for \"scribe\": told to fail");
}
