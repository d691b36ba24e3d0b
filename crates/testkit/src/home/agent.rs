//! Agents of a test home, written as files.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::TestHome;
use crate::http::Client;

/// An agent that has a home. Its daemon may run or not.
#[derive(Clone, Debug)]
pub struct Agent {
    pub name: String,
    pub port: u16,
    pub token: String,
    /// Its home folder.
    pub home: PathBuf,
}

impl Agent {
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::from((Ipv4Addr::LOCALHOST, self.port))
    }

    /// Requests with its token.
    #[must_use]
    pub fn client(&self) -> Client {
        Client::new(self.address(), Some(&self.token))
    }

    /// Requests without one.
    #[must_use]
    pub fn stranger(&self) -> Client {
        Client::new(self.address(), None)
    }
}

impl TestHome {
    /// Writes the home of an agent with a free port. `settings` may name the model, for example
    /// `{"defaultModel": "scripted/scripted-1"}`.
    ///
    /// # Errors
    /// When the files cannot be written.
    pub fn agent(&self, name: &str, settings: Value) -> Result<Agent> {
        let home = self.root().join("agents").join(name);
        for folder in ["sessions", "workspace"] {
            std::fs::create_dir_all(home.join(folder))?;
        }
        for file in ["SOUL.md", "MEMORY.md", "USER.md"] {
            std::fs::write(home.join(file), "")?;
        }
        let port = free_port().context("no free port")?;
        // A token has 64 hexadecimal digits; this one tells which agent it belongs to.
        let token = format!("{:0>64}", name.bytes().map(|byte| format!("{byte:02x}")).collect::<String>());
        let config = json!({
            "schemaVersion": 2, "name": name, "purpose": "be tested", "createdAt": "2026-03-01T08:00:00.000Z",
            "deployedAt": null, "port": port, "token": token, "settings": settings,
        });
        self.write_json(format!("agents/{name}/agent.json"), &config)?;
        Ok(Agent { name: name.into(), port, token, home })
    }
}

/// Ports from which agents get theirs; outside the range that the system gives out by itself.
const PORTS: std::ops::Range<u16> = 20_000..32_768;

/// A port that is free now. Tests of other processes begin to search elsewhere.
fn free_port() -> Option<u16> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let count = PORTS.end - PORTS.start;
    let start = (std::process::id().wrapping_mul(7919) % u32::from(count)) as u16;
    (0..count).find_map(|_| {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = PORTS.start + (start + step % count) % count;
        TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok().then_some(port)
    })
}
