//! HTTP and server-sent events around the runtime: `wolli daemon`.
//!
//! | module | owns |
//! |---|---|
//! | [`start`](run) | from the command line to the first request, and the end of it all |
//! | [`exit`] | the statuses that the process ends with |
//! | `server` | sockets, connections, and how they are guarded |
//! | `http` | who may ask, and the shape of questions and answers |
//! | `api` | what each route does |
//! | [`doctor`] | what is wrong with an agent |
//! | [`service`] | agents as services of the operating system |
//! | `log` | the log file and the error output |
//!
//! Holds no state of the agent: that is the runtime's. Knows no terminal.

mod api;
pub mod doctor;
pub mod exit;
mod http;
mod log;
mod server;
pub mod service;
mod start;
mod stop;

pub use api::health::build_id;
pub use exit::ExitStatus;
pub use http::route::{ENDPOINTS, Endpoint};
pub use log::LogFormat;
pub use server::limits::Timing;
pub use start::daemon::Daemon;
pub use start::prepare::Prepared;
pub use start::run::run;
pub use start::{Options, StartError, Supervisor};
pub use stop::{Stop, StopReason};

/// The version that `/health`, the lock and the log name.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
