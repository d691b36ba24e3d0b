//! Which key a provider's requests carry: runtime override, the two tiers of `auth.json`, environment, `models.json`.
//!
//! Invariant: the first source that has something for a provider decides alone; one that cannot be used is an error and
//! never a reason to try the next, so that a request does not go out on somebody else's account. Reading and writing
//! `auth.json` is not done here: the maps come through [`CredentialSource`].

mod error;
mod lookup;
mod stored;

#[cfg(test)]
mod tests;

pub use error::AuthError;
pub(crate) use lookup::is_sendable;
pub use lookup::{AuthStatus, Clock, Credentials, KeyPlaces, system_clock};
pub use stored::{Credential, CredentialMap, CredentialSource, NoCredentials, Tier};
