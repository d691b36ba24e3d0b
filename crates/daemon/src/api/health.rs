//! `GET /health`: open to everybody, and so without secrets. Bearers also learn which program answers.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// What does not change while the daemon runs.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) agent: String,
    /// ISO time at which the process started to serve.
    pub(crate) started_at: String,
    pub(crate) executable: PathBuf,
    pub(crate) build_id: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Health<'a> {
    status: &'static str,
    agent: &'a str,
    pid: u32,
    started_at: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    proof: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    executable: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    build_id: Option<&'a str>,
}

impl Identity {
    /// The JSON text. `proof` answers the caller's nonce; `to_bearer` adds what only bearers see.
    pub(crate) fn health(&self, proof: Option<String>, to_bearer: bool) -> Vec<u8> {
        let health = Health {
            status: "ok",
            agent: &self.agent,
            pid: std::process::id(),
            started_at: &self.started_at,
            proof,
            version: to_bearer.then_some(crate::VERSION),
            executable: to_bearer.then(|| self.executable.to_string_lossy().into_owned()),
            build_id: to_bearer.then_some(&self.build_id),
        };
        // Texts and numbers always serialise.
        serde_json::to_vec(&health).unwrap_or_default()
    }
}

/// Tells builds of one version apart: the version with size and time of the program file.
#[must_use]
pub fn build_id(executable: &Path) -> String {
    use std::os::unix::fs::MetadataExt;
    match executable.metadata() {
        Ok(metadata) => format!("{}+{:x}.{:x}.{:x}", crate::VERSION, metadata.size(), metadata.mtime(), metadata.mtime_nsec()),
        Err(_) => crate::VERSION.to_owned(),
    }
}
