//! The name of an agent.
//!
//! Invariant: an [`AgentName`] is one plain path component, so that no look-up by name can leave the folder of agents.

use std::fmt;
use std::str::FromStr;

/// A valid name: a lowercase letter or digit, then lowercase letters, digits and hyphens.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AgentName(String);

/// The text is not an agent's name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid agent name \"{0}\". Use lowercase letters, digits, and hyphens (must start with a letter or digit).")]
pub struct InvalidAgentName(pub String);

impl AgentName {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for AgentName {
    type Err = InvalidAgentName;

    fn from_str(text: &str) -> Result<Self, InvalidAgentName> {
        let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let mut bytes = text.bytes();
        if bytes.next().is_some_and(plain) && bytes.all(|b| plain(b) || b == b'-') {
            Ok(Self(text.to_owned()))
        } else {
            Err(InvalidAgentName(text.to_owned()))
        }
    }
}

impl fmt::Display for AgentName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for good in ["a", "0", "scribe", "a-b", "a--", "7-of-9"] {
            assert_eq!(good.parse::<AgentName>().unwrap().as_str(), good);
        }
        for bad in ["", "-a", "A", "aB", "a_b", "a.b", ".", "..", "../x", "a/b", "a/../b", "/a", "a\0", "a\n", "ä", "a b", "~"] {
            assert!(bad.parse::<AgentName>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_error_text_is_the_known_one() {
        assert_eq!(
            "../x".parse::<AgentName>().unwrap_err().to_string(),
            "Invalid agent name \"../x\". Use lowercase letters, digits, and hyphens (must start with a letter or digit)."
        );
    }
}
