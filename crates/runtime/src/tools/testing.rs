//! A home for tests, and short ways to call a tool in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio_util::sync::CancellationToken;
use wolli_protocol::message::{JsonObject, UserBlock};

use crate::dialogs::Dialogs;

use super::{AgentFiles, BackgroundCommands, ControlState, Stage, ToolContext, ToolOutput, ToolSet, ToolUpdates};

/// A temporary home that is removed at the end.
#[derive(Debug)]
pub(crate) struct Home {
    folder: tempfile::TempDir,
    pub(crate) agent: Arc<Agent>,
}

/// Remembers the purpose.
#[derive(Debug)]
pub(crate) struct Agent(pub(crate) Mutex<Result<String, String>>);

impl AgentFiles for Agent {
    fn set_purpose(&self, purpose: &str) -> Result<(), String> {
        let mut state = self.0.lock().unwrap();
        if let Err(refusal) = &*state
            && !refusal.is_empty()
        {
            return Err(refusal.clone());
        }
        *state = Ok(purpose.to_owned());
        Ok(())
    }
}

impl Home {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), agent: Arc::new(Agent(Mutex::new(Ok(String::new())))) }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        if name.is_empty() { self.folder.path().to_owned() } else { self.folder.path().join(name) }
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        String::from_utf8(std::fs::read(self.path(name)).unwrap()).unwrap()
    }

    pub(crate) fn context(&self) -> ToolContext {
        let home = self.folder.path().to_owned();
        let variables = [("PATH", "/usr/bin:/bin"), ("HOME", "/nowhere/user")];
        ToolContext {
            spill_dir: home.join("tmp"),
            home,
            environment: Arc::new(
                variables.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect::<BTreeMap<_, _>>(),
            ),
            cancel: CancellationToken::new(),
            bash_time_limit: Duration::from_secs(600),
            ledger: None,
            control: ControlState::default(),
            agent: Arc::clone(&self.agent) as Arc<dyn AgentFiles>,
            updates: ToolUpdates::default(),
            background: BackgroundCommands::default(),
            dialogs: Dialogs::default(),
        }
    }

    /// Prepares and runs a call.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> ToolOutput {
        call(&self.context(), name, arguments).await
    }

    /// The text of a call that has to go well.
    pub(crate) async fn good(&self, name: &str, arguments: Value) -> String {
        let output = self.call(name, arguments).await;
        assert!(!output.is_error, "{output:?}");
        text(&output).to_owned()
    }

    /// The text of a call that has to fail, with the home's path taken out.
    pub(crate) async fn bad(&self, name: &str, arguments: Value) -> String {
        let output = self.call(name, arguments).await;
        assert!(output.is_error, "{output:?}");
        assert_eq!(output.details, Some(serde_json::json!({})));
        text(&output).replace(self.folder.path().to_str().unwrap(), "HOME")
    }
}

pub(crate) async fn call(context: &ToolContext, name: &str, arguments: Value) -> ToolOutput {
    let set = ToolSet::new(Stage::Forming, []).unwrap();
    match set.prepare(name, object(arguments)) {
        Ok(prepared) => prepared.run(context).await,
        Err(output) => output,
    }
}

pub(crate) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        other => panic!("{other} is no object"),
    }
}

/// The first text of an output.
pub(crate) fn text(output: &ToolOutput) -> &str {
    match output.content.first() {
        Some(UserBlock::Text(text)) => &text.text,
        other => panic!("no text: {other:?}"),
    }
}

/// Names in a folder.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}
