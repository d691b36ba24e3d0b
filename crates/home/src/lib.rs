//! Where an agent's files are, and how they are read and written: whole, locked and atomically.
//!
//! Everything here is plain blocking code over `std`; callers in async code use blocking threads.
//! Invariants: a file is replaced whole or not at all; files are 0600 and folders 0700; a file that cannot be understood
//! is reported by name and never overwritten without a copy being kept.
//! Not here: sessions, processes, sockets in use, the meaning of credentials and models.
//!
//! | module | owns |
//! |---|---|
//! | [`environment`] | the variables that the program was started with |
//! | [`paths`] | names, folders and files below the root, and the Unix socket's place |
//! | [`atomic`] | whole-file writes and private folders |
//! | [`agent`] | `agent.json`: create, load, change, list, delete |
//! | [`settings`] | the two tiers of settings |
//! | [`config`] | `config.toml`: strict reading, defaults, rendering |
//! | [`lock`] | the exclusive lock on a home |
//! | [`lockdir`] | lock folders shared with wolli 0.0.2, and JSON maps kept under them |
//! | [`clock`] | the time as the files carry it |
//! | [`token`] | bearer tokens and the proof that a server knows one |

pub mod agent;
pub mod atomic;
pub mod clock;
pub mod config;
pub mod environment;
mod filelock;
mod json;
pub mod lock;
pub mod lockdir;
pub mod paths;
mod pause;
pub mod reading;
pub mod settings;
pub mod token;

#[cfg(test)]
mod child;
#[cfg(test)]
mod tiny_disk;
