//! Agents as services of the operating system: what is installed, and how service managers are asked to.
//!
//! | module | owns |
//! |---|---|
//! | `agent_service` | the service of one agent: what commands and deployment use |
//! | `backend` | what every service manager can do, and which one it is here |
//! | `systemd`, `launchd`, `none` | the service managers |
//! | `linger` | services that go on after the logout |
//! | `programs` | calling `systemctl` and its like |
//! | `files` | definitions on disk, and undoing changes to them |
//! | `definition` | what is to run, with which environment |
//! | `render` | the texts of units and property lists |
//! | `search_path` | the `PATH` of the service |
//! | `escape` | values in those texts |

mod agent_service;
mod backend;
mod definition;
mod error;
mod escape;
#[cfg(test)]
mod fake;
mod files;
mod launchd;
mod linger;
mod none;
mod programs;
mod render;
mod search_path;
mod systemd;

pub use agent_service::{AgentService, DeployedService};
pub use backend::{Backend, Installed, Start, Status, of};
pub use definition::{DEFAULT_IDLE, Definition, OnDemand};
pub use error::ServiceError;
pub use render::{property_list, socket_unit, unit};
pub use search_path::{SearchPath, search_path};
