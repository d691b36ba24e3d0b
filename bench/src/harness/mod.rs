//! What measurements stand on: a temporary home, the daemon's process, and what the system says about processes.

mod daemon;
mod home;
mod sessions;
mod system;

pub use daemon::{Daemon, Session};
pub use home::{AGENT, BenchHome, MODEL};
pub use sessions::Content;
pub use system::{Load, cpu_time, load, memory, raise_descriptor_limit, wake_ups};

use std::path::PathBuf;

/// What all measurements share.
#[derive(Debug, Clone)]
pub struct Bench {
    /// The release binary that is measured.
    pub wolli: PathBuf,
    /// This program.
    pub program: PathBuf,
}
