//! The words both sides of wolli speak: messages, events, commands, state, the SSE codec and the reducer.
//!
//! Everything here is plain data and plain functions. Nothing does I/O, knows tokio, or knows HTTP; that is
//! what lets the daemon, the typed client, the model providers and the tests share one definition of each word.

pub mod answer;
pub mod command;
pub mod dialog;
pub mod entry;
pub mod event;
pub mod ids;
pub mod login;
pub mod message;
pub mod model;
pub mod number;
pub mod output_tail;
pub mod partial_json;
pub mod reduce;
pub mod resource;
pub mod snapshot;
pub mod sse;
pub mod state;
pub mod surrogates;
pub mod text;
pub mod time;
