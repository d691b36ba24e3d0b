//! Deployment as a transaction: service, latch and session, or nothing.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use wolli_home::agent::{self, NewAgent};
use wolli_home::paths::Root;
use wolli_runtime::embed::Engine;
use wolli_runtime::service::{ServiceError, ServiceManager};

/// Which step of a service manager fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fails {
    Nowhere,
    Check,
    Install,
    /// Installing works, but the agent's record is gone after it.
    Latch,
}

struct Manager {
    fails: Fails,
    home: std::path::PathBuf,
    calls: Mutex<Vec<&'static str>>,
}

impl Manager {
    fn called(&self, name: &'static str) {
        self.calls.lock().unwrap().push(name);
    }

    fn calls(&self) -> Vec<&'static str> {
        std::mem::take(&mut *self.calls.lock().unwrap())
    }
}

impl ServiceManager for Manager {
    fn check(&self) -> Result<(), ServiceError> {
        self.called("check");
        if self.fails == Fails::Check { Err(ServiceError("no user bus".into())) } else { Ok(()) }
    }

    fn install(&self) -> Result<bool, ServiceError> {
        self.called("install");
        if self.fails == Fails::Latch {
            for file in ["agent.json", "agent.json.last-good"] {
                std::fs::remove_file(self.home.join(file)).unwrap();
            }
        }
        if self.fails == Fails::Install { Err(ServiceError("enable failed".into())) } else { Ok(true) }
    }

    fn uninstall(&self) -> Result<(), ServiceError> {
        self.called("uninstall");
        Ok(())
    }
}

/// A forming agent behind a manager.
async fn forming(root: &Path, fails: Fails) -> (Engine, Arc<Manager>) {
    let (home, _) = agent::create(&Root::new(root), NewAgent { name: "own".parse().unwrap(), model: None }, SystemTime::now()).unwrap();
    let manager = Arc::new(Manager { fails, home: home.path().to_owned(), calls: Mutex::default() });
    let engine = Engine::builder(root, "own").service(Arc::clone(&manager) as Arc<dyn ServiceManager>).open().await.unwrap();
    (engine, manager)
}

fn session_files(root: &Path) -> usize {
    let folders = std::fs::read_dir(root.join("agents/own/sessions")).unwrap().flatten().filter(|entry| entry.path().is_dir());
    folders.map(|folder| std::fs::read_dir(folder.path()).unwrap().count()).sum()
}

#[tokio::test]
async fn an_agent_is_deployed_once_and_gets_a_session_each_time() {
    let root = tempfile::tempdir().unwrap();
    let (engine, manager) = forming(root.path(), Fails::Nowhere).await;
    let names = |engine: &Engine| engine.runtime().tools().into_iter().map(|tool| tool.name).collect::<Vec<_>>();
    assert!(names(&engine).contains(&"deploy".to_owned()));
    assert!(engine.create_session().await.is_err(), "it is still forming");

    let first = engine.deploy().await.unwrap();
    let since = engine.runtime().agent().deployed_at().unwrap().to_owned();
    assert_eq!(manager.calls(), ["check", "install"]);
    assert!(!names(&engine).contains(&"deploy".to_owned()));
    let second = engine.deploy().await.unwrap();
    assert_ne!(first.id(), second.id());
    assert_eq!(engine.runtime().agent().deployed_at(), Some(&*since));
    assert_eq!(engine.sessions().await.unwrap().len(), 3, "the birth session stays");
    engine.close().await;
}

#[tokio::test]
async fn what_fails_leaves_nothing_behind() {
    for (fails, text, calls) in [
        (Fails::Check, "no user bus", &["check"][..]),
        (Fails::Install, "enable failed", &["check", "install"]),
        (Fails::Latch, "own", &["check", "install", "uninstall"]),
    ] {
        let root = tempfile::tempdir().unwrap();
        let (engine, manager) = forming(root.path(), fails).await;
        let before = session_files(root.path());
        let error = engine.deploy().await.unwrap_err().to_string();
        assert!(error.contains(text), "{fails:?}: {error}");
        assert_eq!(manager.calls(), calls, "{fails:?}");
        assert_eq!(engine.runtime().agent().deployed_at(), None, "{fails:?}");
        assert_eq!(session_files(root.path()), before, "{fails:?}");
        assert_eq!(engine.sessions().await.unwrap().len(), 1, "{fails:?}");
        engine.close().await;
    }
}
