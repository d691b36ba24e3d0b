//! Deterministic other sides for tests: a scripted model provider, a home with the real program, a raw HTTP client, a
//! faulty network. Never shipped, and never a normal dependency.
//!
//! Everything is on loopback and on temporary folders, programs run with a cleared environment, and every wait has a
//! deadline. The helpers panic where a test cannot go on, with what they saw.
//!
//! | module | owns |
//! |---|---|
//! | [`provider`] | a model provider that says what a script says, byte for byte, and refuses what the real one refuses |
//! | [`home`] | a temporary home with agents, and daemons running in it |
//! | [`http`] | HTTP/1.1 on a bare socket: exact bytes out, exact bytes in, event streams |
//! | [`process`] | what the system says of running programs: their memory, files, command lines |
//! | [`picture`] | pictures of any size |
//! | [`disk`] | a real disk that is small enough to be filled |
//! | [`proxy`] | a network between two sides that cuts, stalls and delays |

mod background;
pub mod disk;
pub mod home;
pub mod http;
pub mod picture;
pub mod process;
pub mod provider;
pub mod proxy;

use std::time::Duration;

/// How long a helper waits for what must come. Far above anything a healthy machine needs, so that only a hang meets it.
pub const DEADLINE: Duration = Duration::from_secs(20);

/// How often a condition that cannot be awaited is looked at.
pub const POLL_INTERVAL: Duration = Duration::from_millis(5);
