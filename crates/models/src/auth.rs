//! What a request carries to prove who sends it.
//!
//! Values are secrets: they never show in `Debug`, and nothing here prints them. How a key is found is the
//! matter of `registry`; where it goes (which header) is the matter of each wire kind.

use std::fmt;

use secrecy::SecretString;

/// The key and the extra headers of one request.
#[derive(Clone, Default)]
pub struct RequestAuth {
    /// The provider's key; the wire kind decides in which header it travels. Absent for providers that need none.
    pub key: Option<SecretString>,
    /// Headers that are added as they stand, in order; names are unique without regard to case.
    /// One of these wins over a header of the same name that the wire kind would send.
    pub headers: Vec<(String, SecretString)>,
}

impl RequestAuth {
    /// The value of a header, whatever the case of its name.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&SecretString> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// Sets a header; one of the same name, whatever its case, is replaced in place.
    pub fn set_header(&mut self, name: impl Into<String>, value: SecretString) {
        let name = name.into();
        match self.headers.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(&name)) {
            Some(slot) => *slot = (name, value),
            None => self.headers.push((name, value)),
        }
    }
}

impl fmt::Debug for RequestAuth {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        formatter.debug_struct("RequestAuth").field("key", &self.key.as_ref().map(|_| "[redacted]")).field("headers", &names).finish()
    }
}

#[cfg(test)]
mod tests {
    use secrecy::ExposeSecret;

    use super::RequestAuth;

    #[test]
    fn debug_shows_names_but_no_values() {
        let mut auth = RequestAuth { key: Some("sk-planted-key".into()), headers: Vec::new() };
        auth.set_header("x-team", "planted-team".into());
        let shown = format!("{auth:?} {auth:#?}");
        assert!(!shown.contains("planted"), "{shown}");
        assert!(shown.contains("x-team") && shown.contains("[redacted]"), "{shown}");
    }

    #[test]
    fn a_header_is_replaced_whatever_its_case() {
        let mut auth = RequestAuth::default();
        auth.set_header("User-Agent", "one".into());
        auth.set_header("x-other", "two".into());
        auth.set_header("user-agent", "three".into());
        let shown: Vec<_> = auth.headers.iter().map(|(name, value)| (name.as_str(), value.expose_secret())).collect();
        assert_eq!(shown, [("user-agent", "three"), ("x-other", "two")]);
        assert_eq!(auth.header("USER-AGENT").map(ExposeSecret::expose_secret), Some("three"));
        assert!(auth.header("absent").is_none());
    }
}
