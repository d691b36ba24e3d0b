//! Why a request cannot be authenticated. The texts reach people and are fixed.

use crate::indirection::IndirectionError;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthError {
    /// No source has a key.
    #[error("No API key for \"{provider}\". Run /login to authenticate.")]
    NoKey { provider: String },
    /// `authHeader` asks for a header that cannot be made.
    #[error("No API key found for \"{provider}\"")]
    NoKeyForHeader { provider: String },
    /// A stored login whose time is over.
    #[error("login expired for \"{provider}\". Run /login to authenticate.")]
    LoginExpired { provider: String },
    /// A key or header names a variable or command that gives nothing.
    #[error(transparent)]
    Unresolved(#[from] IndirectionError),
    /// A placeholder of a base URL has no value.
    #[error("{variable} is required for provider {provider} but is not set.")]
    MissingVariable { variable: String, provider: String },
    /// The value would break the request; `what` names its place, never the value.
    #[error("{what} contains characters that cannot be sent in a header")]
    Unsendable { what: String },
}
