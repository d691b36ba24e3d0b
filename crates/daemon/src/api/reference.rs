//! `GET /openapi.json`: the written reference of this very version, as the build found it.
//!
//! The text lies in the program file; its pages are read when somebody asks and cost an idle daemon nothing. A test of this crate makes
//! the text anew from the types and the routes, and fails when it is another.

use crate::http::answer::{self, Answer};

const DOCUMENT: &[u8] = include_bytes!("../../../../docs/reference/openapi.json");

pub(crate) fn answer() -> Answer {
    answer::json(DOCUMENT)
}
