//! Sockets and connections: accepting, guarding, ending. Knows HTTP as a framing, not what is asked for.

pub(crate) mod accept;
pub(crate) mod activity;
pub(crate) mod connection;
pub(crate) mod limits;
pub(crate) mod transport;
