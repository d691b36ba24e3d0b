//! The engine for programs that want it in their own process, without a daemon: the same homes, sessions, turns and tools.
//!
//! An [`Engine`] holds one agent's home, as a daemon would, and hands out [`Session`]s. What a program brings along (tools,
//! the system prompt, models, credentials) comes in by [`Ports`]. Everything else is what the daemon does: the files
//! are those of `wolli`, so that a home can change hands between the two, though not be held by both.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use wolli_runtime::embed::{Engine, Update};
//! use wolli_runtime::hub::View;
//!
//! let engine = Engine::builder("/srv/minutes", "scribe").environment(std::env::vars()).open().await?;
//! let session = engine.create_session().await?;
//! let mut updates = session.subscribe(View::Delta).await?;
//! session.follow_up("Summarise today's notes.").await?;
//! while let Some(update) = updates.next().await {
//!     if let Update::Event { event: wolli_protocol::event::SessionEvent::AgentEnd { .. }, .. } = update {
//!         break;
//!     }
//! }
//! engine.close().await;
//! # Ok(())
//! # }
//! ```

mod engine;
mod ports;
mod session;
mod subscription;

pub use engine::{Engine, EngineBuilder, EngineError};
pub use ports::{Ports, PromptPort, Tools};
pub use session::Session;
pub use subscription::{Subscription, Update};
