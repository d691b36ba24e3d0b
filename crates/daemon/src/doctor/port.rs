//! The agent's port, and who else has it.

use std::time::Duration;

use tokio::net::TcpStream;
use wolli_home::agent;

use super::Patient;
use super::finding::{Finding, word};

const CHECK: &str = "port";

/// A listener on this machine takes a connection at once.
const LIMIT: Duration = Duration::from_secs(2);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    port: u16,
    /// Somebody who is not the agent's daemon takes connections on it.
    taken: bool,
    /// Agents that have the same port.
    shared_with: Vec<String>,
}

pub(super) async fn gather(patient: &Patient, port: u16, is_held: bool) -> Facts {
    // A daemon that holds the home and does not answer is a matter of the lock.
    let free = patient.health.is_some() || is_held;
    let taken = !free && takes_connections(patient.environment.daemon_host(), port).await;
    let others = agent::list(&patient.root).map(|listing| listing.agents).unwrap_or_default();
    let shared_with = others
        .iter()
        .filter(|(home, loaded)| home.name() != patient.home.name() && loaded.document.port() == port)
        .map(|(home, _)| home.name().as_str().to_owned())
        .collect();
    Facts { port, taken, shared_with }
}

/// Connects and sends nothing.
pub(super) async fn takes_connections(host: &str, port: u16) -> bool {
    let host = match host.trim_start_matches('[').trim_end_matches(']') {
        "0.0.0.0" => "127.0.0.1",
        "::" => "::1",
        host => host,
    };
    matches!(tokio::time::timeout(LIMIT, TcpStream::connect((host, port))).await, Ok(Ok(_)))
}

pub(super) fn findings(patient: &Patient, facts: &Facts) -> Vec<Finding> {
    let (port, config) = (facts.port, patient.home.config_json());
    let mut found = Vec::new();
    if facts.taken {
        found.push(
            Finding::error(CHECK, "port_taken", format!("another program listens on port {port}, which is the agent's"))
                .means("The daemon cannot start (status 76). End that program, or give the agent another \"port\" in agent.json.")
                .fix(format!("ss -ltnp 'sport = :{port}'; \"${{EDITOR:-vi}}\" {}", word(&config))),
        );
    }
    if !facts.shared_with.is_empty() {
        found.push(
            Finding::error(CHECK, "port_shared", format!("port {port} is also the port of {}", facts.shared_with.join(", ")))
                .means("Only one of them can run. A home that was copied by hand has the port of the first. Give one of them another \"port\".")
                .fix(format!("\"${{EDITOR:-vi}}\" {}", word(&config))),
        );
    }
    found
}
