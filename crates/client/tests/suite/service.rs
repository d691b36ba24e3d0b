//! Agents that are services: what the client leaves to the program that knows service managers.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use wolli_client::{Agent, ClientError, DaemonProgram, Wolli};
use wolli_home::environment::Environment;
use wolli_home::paths::{Root, ServiceName};
use wolli_testkit::home::TestHome;

/// An agent with a service, and a program that notes what it is told and does what the test says.
struct Installed {
    home: TestHome,
    wolli: Wolli,
    agent: Agent,
}

impl Installed {
    fn new(script: &str) -> Self {
        let home = TestHome::with_binary("/nowhere").unwrap();
        home.agent("a", serde_json::json!({})).unwrap();
        let program = home.folder().join("program");
        let notes = home.folder().join("notes");
        std::fs::write(&program, format!("#!/bin/sh\necho \"$*\" >>{0}\nenv >{0}.env\n{script}\n", notes.display())).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let environment = Environment::new(
            [
                ("HOME", text(&home.folder().join("h"))),
                ("PATH", "/usr/bin:/bin".to_owned()),
                ("XDG_RUNTIME_DIR", text(&home.folder().join("run"))),
                ("WOLLI_SERVICE_MANAGER", "systemd".to_owned()),
                ("NOTIFY_SOCKET", "/run/somebody-elses".to_owned()),
                ("LISTEN_FDS", "1".to_owned()),
            ],
            "/",
        );
        let root = Root::of(&environment).unwrap();
        let unit = ServiceName::new(&environment, &root, &"a".parse().unwrap()).definition(&environment).unwrap();
        std::fs::create_dir_all(unit.parent().unwrap()).unwrap();
        std::fs::write(unit, "").unwrap();
        let wolli = Wolli::with_program(environment, Some(DaemonProgram::new(program))).unwrap();
        let agent = wolli.get("a").unwrap().unwrap();
        Self { home, wolli, agent }
    }

    fn notes(&self) -> PathBuf {
        self.home.folder().join("notes")
    }

    fn orders(&self) -> Vec<String> {
        std::fs::read_to_string(self.notes()).unwrap_or_default().lines().map(str::to_owned).collect()
    }
}

#[tokio::test]
async fn restarts_and_deletions_are_left_to_whoever_knows_the_service_manager() {
    let installed = Installed::new("exit 0");
    assert!(installed.agent.is_service());
    installed.agent.restart().await.unwrap();
    installed.wolli.delete(&installed.agent).await.unwrap();
    assert_eq!(installed.orders(), ["restart a", "service uninstall a"]);
    assert!(!installed.home.root().join("agents/a").exists());
}

#[tokio::test]
async fn a_refusal_is_passed_on_and_nothing_is_deleted() {
    let installed = Installed::new("echo 'no manager here' >&2; exit 1");
    let error = installed.agent.restart().await.unwrap_err();
    assert!(matches!(error, ClientError::Service { .. }));
    assert_eq!(error.to_string(), "the service of \"a\" does not restart: no manager here");
    assert!(installed.wolli.delete(&installed.agent).await.is_err());
    assert!(installed.home.root().join("agents/a/agent.json").exists());
}

#[tokio::test]
async fn a_service_that_does_not_start_is_replaced_by_a_daemon_of_ones_own() {
    let installed = Installed::new("exit 1");
    let error = installed.agent.start().await.unwrap_err();
    assert!(matches!(error, ClientError::Start { .. }), "{error}");
    assert_eq!(installed.orders(), ["start a", "daemon a"]);
    let environment = std::fs::read_to_string(installed.notes().with_extension("env")).unwrap();
    assert!(environment.contains("WOLLI_SERVICE_MANAGER=systemd"));
    assert!(!environment.contains("NOTIFY_SOCKET") && !environment.contains("LISTEN_FDS"), "{environment}");
}
