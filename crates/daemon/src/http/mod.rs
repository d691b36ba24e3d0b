//! HTTP without our routes' meaning: who may ask, what was asked for, and the shape of answers.

pub(crate) mod access;
pub(crate) mod answer;
pub(crate) mod body;
pub(crate) mod hosts;
pub(crate) mod query;
pub(crate) mod request_body;
pub(crate) mod route;
