//! A test under a real `systemd --user` manager: it starts itself once more inside of `with-systemd-user`.
//!
//! Where no manager can run (no root, no Linux, no systemd) the test says so and checks nothing; where `CI` is set that is a failure.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use wolli_testkit::home::{Agent, TestHome};

/// Set inside.
const INSIDE: &str = "WOLLI_TEST_UNDER_SYSTEMD";
/// What a test inside needs of the environment outside.
const PASSED: &str = "WOLLI_TEST_UNDER_SYSTEMD WOLLI_BIN WOLLI_SOAK RUST_BACKTRACE";
/// What the script ends with where there can be no manager.
const IMPOSSIBLE: i32 = 77;
/// Far more than anything here takes.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// A user with a service manager, a home, and one agent that is not served yet.
pub(crate) struct Machine {
    pub(crate) home: TestHome,
    pub(crate) agent: Agent,
    /// `HOME`, where the manager looks for units.
    pub(crate) user: PathBuf,
    unit: String,
}

impl Machine {
    /// The machine, inside; outside `None`, after the test of that name has succeeded inside.
    pub(crate) fn enter(test: &str) -> Option<Self> {
        Self::enter_with(test, || TestHome::new().unwrap())
    }

    /// As [`enter`](Self::enter), with a home of the test's own.
    pub(crate) fn enter_with(test: &str, home: impl FnOnce() -> TestHome) -> Option<Self> {
        if std::env::var_os(INSIDE).is_some() {
            return Some(Self::new(home()));
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("support/with-systemd-user");
        let mut inside = Command::new(script);
        inside.arg(std::env::current_exe().unwrap()).args([test, "--exact", "--nocapture"]);
        let output = inside.env(INSIDE, "1").env("WITH_SYSTEMD_PASS", PASSED).env_remove("WITH_SYSTEMD_HOME").output().unwrap();
        let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        if output.status.code() == Some(IMPOSSIBLE) {
            assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"), "no service manager can run here: {text}");
            eprintln!("NOTHING WAS CHECKED: {}", text.trim());
            return None;
        }
        assert!(output.status.success(), "inside ({}):\n{text}", output.status);
        assert!(text.contains("1 passed"), "no test {test} ran inside:\n{text}");
        None
    }

    fn new(mut home: TestHome) -> Self {
        let own = |name: &str| std::env::var_os(name).unwrap();
        let user = PathBuf::from(own("HOME"));
        for name in ["HOME", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS"] {
            home.set_env(name, own(name));
        }
        home.set_env("SHELL", "/bin/bash");
        home.remove_env("WOLLI_SERVICE_MANAGER");
        let agent = home.agent("a", json!({"defaultModel": "echo/demo"})).unwrap();
        let mut machine = Self { home, agent, user, unit: String::new() };
        let definition = machine.status()["definition"].as_str().unwrap().to_owned();
        machine.unit = Path::new(&definition).file_name().unwrap().to_str().unwrap().to_owned();
        machine
    }

    pub(crate) fn unit(&self) -> &str {
        &self.unit
    }

    pub(crate) fn unit_file(&self) -> PathBuf {
        self.user.join(".config/systemd/user").join(&self.unit)
    }

    /// Installs the service. Lingering cannot be turned on here, which is a warning.
    pub(crate) fn install(&self) {
        let output = self.home.run(&["service", "install", "a"]).unwrap();
        assert!(matches!(output.status.code(), Some(0 | 10)), "{output:?}");
    }

    /// `wolli service status --json`.
    pub(crate) fn status(&self) -> Value {
        serde_json::from_str(&self.home.run_ok(&["service", "status", "a", "--json"]).unwrap()).unwrap()
    }

    pub(crate) fn systemctl(&self, arguments: &[&str]) -> Output {
        Command::new("systemctl").arg("--user").args(arguments).output().unwrap()
    }

    /// A property of the unit.
    pub(crate) fn property(&self, name: &str) -> String {
        let output = self.systemctl(&["show", "--value", "--property", name, &self.unit]);
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    pub(crate) fn main_pid(&self) -> u64 {
        self.property("MainPID").parse().unwrap()
    }

    /// What the unit's processes printed. Asked by their name: the journal does not know the unit of one that was gone at once.
    pub(crate) fn journal(&self) -> String {
        let matching = format!("SYSLOG_IDENTIFIER={}", self.unit.trim_end_matches(".service"));
        let output = Command::new("journalctl").args(["--no-pager", "--output=cat", &matching]).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Who serves the agent; `None`: nobody.
    pub(crate) async fn server(&self) -> Option<u64> {
        let answer = self.agent.stranger().get("/health").await.ok()?;
        answer.json()["pid"].as_u64()
    }

    /// Waits until another process than this serves the agent.
    pub(crate) async fn served_by_other(&self, than: u64) -> u64 {
        let started = Instant::now();
        loop {
            if let Some(pid) = self.server().await.filter(|pid| *pid != than) {
                return pid;
            }
            assert!(started.elapsed() < LIMIT, "nobody else serves the agent\n{}", self.journal());
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the unit's property has that value.
    pub(crate) async fn until(&self, property: &str, value: &str) {
        let started = Instant::now();
        while self.property(property) != value {
            assert!(started.elapsed() < LIMIT, "{property} is {} and not {value}\n{}", self.property(property), self.journal());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}
