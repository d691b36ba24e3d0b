//! Typed client of wolli daemons: commands out, frames in, reconnect and resume.
//!
//! A program lists agents with [`Wolli`], connects to one ([`Agent`]), which starts its daemon if none runs, and holds
//! sessions ([`SessionHandle`]). Handles outlive broken connections and restarts of the daemon: streams reconnect
//! without end, resume where they were, and never deliver an event twice.
//!
//! Invariant: the bearer token goes only to a server that proved on the very same connection that it is the agent's
//! daemon (see [`Daemon`]). Not here: what a person sees, talking to service managers, running an agent.
//!
//! ```no_run
//! use wolli_client::{Notice, Wolli};
//! use wolli_home::environment::Environment;
//! use wolli_protocol::event::{AssistantMessageEvent, SessionEvent};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let environment = Environment::new(std::env::vars_os(), std::env::current_dir()?);
//! let agent = Wolli::new(environment)?.get("scribe")?.ok_or("no such agent")?;
//! agent.connect().await?;
//! let session = agent.latest_session().await?;
//!
//! // Subscribe first, so that no delta is missed; the answer of `prompt` only means that it was accepted.
//! let mut events = session.subscribe();
//! session.prompt("What is in a.txt?").await?;
//! while let Some(notice) = events.next().await {
//!     let Notice::Event { event, .. } = notice else { continue };
//!     match &*event {
//!         SessionEvent::MessageUpdate { assistant_message_event: AssistantMessageEvent::TextDelta { delta, .. }, .. } => {
//!             print!("{delta}");
//!         }
//!         SessionEvent::AgentEnd { .. } => break,
//!         _ => {}
//!     }
//! }
//! # Ok(())
//! # }
//! ```

mod agent;
mod backoff;
mod error;
mod link;
mod service;
mod session;
mod spawn;
mod transport;
mod wolli;

pub use agent::{Agent, Frame, FrameOptions, Frames, Lifecycle};
pub use error::ClientError;
pub use link::LinkState;
pub use session::{AbortedQueues, ClearedQueues, Notice, Prompt, SessionHandle, SnapshotWatch, Subscription, ToolInfos, ViewWatch};
pub use spawn::{DaemonProgram, START_LIMIT};
pub use transport::{Daemon, Trust};
pub use wolli::{NewAgent, Wolli};
