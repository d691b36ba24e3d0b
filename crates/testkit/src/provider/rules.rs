//! What the real services refuse. Their words are kept where they are known, since error handling reads them.

mod anthropic;
mod common;
mod openai;

use std::collections::BTreeSet;

use serde_json::Value;

use super::record::{Issued, Kind, RecordedRequest};

/// The answer to a request that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) kind: &'static str,
    pub(super) message: String,
}

impl Refusal {
    pub(super) const fn invalid(message: String) -> Self {
        Self { status: 400, kind: "invalid_request_error", message }
    }

    const fn unauthorized(kind: &'static str, message: String) -> Self {
        Self { status: 401, kind, message }
    }

    pub(super) fn body(&self, kind: Kind) -> Value {
        match kind {
            Kind::Anthropic => super::anthropic::error_body(self.kind, &self.message),
            Kind::OpenAi => super::openai::error_body(self.kind, &self.message, None),
        }
    }
}

pub(super) type Verdict = Result<(), Refusal>;

/// Refuses unless the condition holds.
macro_rules! require {
    ($condition:expr, $($message:tt)+) => {
        if !$condition {
            return Err($crate::provider::rules::Refusal::invalid(format!($($message)+)));
        }
    };
}
use require;

pub(super) fn check(request: &RecordedRequest, issued: &Issued, allowed: &BTreeSet<String>) -> Verdict {
    let json = request.header("content-type").is_some_and(|kind| kind.starts_with("application/json"));
    require!(json, "content-type: must be application/json");
    match request.kind {
        Kind::Anthropic => anthropic::check(request, issued, allowed),
        Kind::OpenAi => openai::check(request, issued, allowed),
    }
}
