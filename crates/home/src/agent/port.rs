//! Drawing a port for a new agent.
//!
//! Invariant: a drawn port is no other agent's and was free a moment ago. The range lies outside those that systems hand out to
//! outgoing connections (from 32768 on Linux), so that no client of anything takes an agent's port while its daemon restarts.

use std::collections::HashSet;
use std::net::{Ipv4Addr, TcpListener};

use ring::rand::{SecureRandom, SystemRandom};

use super::document::as_port;
use super::file::AgentError;
use crate::json;
use crate::paths::Root;
use crate::reading;
use crate::token::NoRandomness;

/// First port that is drawn.
pub const PORT_FIRST: u16 = 20_000;
/// Last port that is drawn.
pub const PORT_LAST: u16 = 32_767;
/// After so many ports in use there is no point in going on.
const DRAWS: usize = 1_000;

/// A port that no agent below `root` has and nobody listens on.
pub(super) fn draw(root: &Root) -> Result<u16, AgentError> {
    let taken = taken(root);
    let random = SystemRandom::new();
    for _ in 0..DRAWS {
        let mut bytes = [0; 4];
        random.fill(&mut bytes).map_err(|_| NoRandomness)?;
        let port = pick(u32::from_le_bytes(bytes));
        if !taken.contains(&port) && is_free(port) {
            return Ok(port);
        }
    }
    Err(AgentError::NoPort)
}

fn pick(random: u32) -> u16 {
    let span = u32::from(PORT_LAST - PORT_FIRST) + 1;
    // The rest is below the span and so below 65536.
    PORT_FIRST + u16::try_from(random % span).unwrap_or(0)
}

/// Ports in any `agent.json` or last good copy, valid or not: a damaged agent keeps its port.
pub(super) fn taken(root: &Root) -> HashSet<u16> {
    let mut ports = HashSet::new();
    for entry in std::fs::read_dir(root.agents()).into_iter().flatten().flatten() {
        for file in ["agent.json", "agent.json.last-good"] {
            let content = reading::read(&entry.path().join(file)).ok().flatten();
            let object = content.and_then(|content| json::object(&content).ok());
            ports.extend(object.as_ref().and_then(|object| object.get("port")).and_then(as_port));
        }
    }
    ports
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_port_of_the_range_and_no_other_can_be_drawn() {
        let all: HashSet<u16> = (0..13_000).map(pick).collect();
        assert_eq!(all.len(), 12_768);
        assert_eq!((all.iter().min(), all.iter().max()), (Some(&20_000), Some(&32_767)));
        assert!((PORT_FIRST..=PORT_LAST).contains(&pick(u32::MAX)));
    }

    #[test]
    fn a_port_with_a_listener_is_not_free() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(!is_free(port));
    }
}
