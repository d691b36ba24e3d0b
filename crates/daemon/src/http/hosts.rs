//! The names by which the daemon may be addressed.
//!
//! A page on the web can point its own name at 127.0.0.1 and so reach the daemon as its own origin; it cannot choose the `Host` that
//! the browser sends. Hence: a name that is not ours is refused. Pure.

use std::net::{IpAddr, Ipv6Addr};

/// A host and, if one was given, a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Authority {
    /// Lowercase; an IPv6 address without brackets.
    pub(crate) host: String,
    pub(crate) port: Option<u16>,
}

impl Authority {
    /// Reads `host`, `host:port`, `[v6]` or `[v6]:port`; `None` for anything else.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, after) = rest.split_once(']')?;
                host.parse::<Ipv6Addr>().ok()?;
                let port = if after.is_empty() { None } else { Some(after.strip_prefix(':')?) };
                (host, port)
            }
            None => match text.split_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
        if host.is_empty() || !host.bytes().all(plain) {
            return None;
        }
        let port = match port {
            None => None,
            Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => Some(digits.parse().ok()?),
            Some(_) => return None,
        };
        Some(Self { host: host.to_ascii_lowercase(), port })
    }
}

/// What counts as us.
#[derive(Clone, Debug)]
pub(crate) struct AllowedHosts {
    /// Lowercase names and addresses, beside the loopback ones.
    names: Vec<String>,
}

impl AllowedHosts {
    /// `bound` is the name or address that the daemon was told to listen on, `configured` the setting `security.hosts`.
    pub(crate) fn new(bound: &str, configured: &[String]) -> Self {
        let bound = bound.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
        // "All addresses" is no name to be called by.
        let unspecified = bound.parse::<IpAddr>().is_ok_and(|address| address.is_unspecified());
        let mut names: Vec<String> = configured.iter().map(|name| name.to_ascii_lowercase()).collect();
        if !unspecified {
            names.push(bound);
        }
        Self { names }
    }

    pub(crate) fn contains(&self, host: &str) -> bool {
        is_loopback(host) || self.names.iter().any(|name| name == host)
    }
}

/// `localhost` and the literal loopback addresses, spelt as people and browsers spell them.
pub(crate) fn is_loopback(host: &str) -> bool {
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn authorities() {
        let of = |text: &str| Authority::parse(text).map(|authority| (authority.host, authority.port));
        for (text, host, port) in [
            ("a", "a", None),
            ("Localhost:80", "localhost", Some(80)),
            ("127.0.0.1:65535", "127.0.0.1", Some(65535)),
            ("[::1]", "::1", None),
            ("[::1]:7777", "::1", Some(7777)),
            ("my_host.example", "my_host.example", None),
        ] {
            assert_eq!(of(text), Some((host.to_owned(), port)), "{text}");
        }
        for bad in [
            "", ":80", "a:", "a:b", "a:+1", "a:65536", "a:1:2", "::1", "[::1", "[::1]x", "[]", "[a]:1", "a b", "a@b", "http://a", "a/b",
            "ä", "a,b",
        ] {
            assert_eq!(of(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn names() {
        let hosts = AllowedHosts::new("192.168.1.5", &["Agent.Example".into()]);
        for good in ["localhost", "127.0.0.1", "127.9.9.9", "::1", "192.168.1.5", "agent.example"] {
            assert!(hosts.contains(good), "{good}");
        }
        for bad in [
            "evil.example",
            "127.0.0.1.evil.example",
            "localhost.",
            "127.1",
            "2130706433",
            "0.0.0.0",
            "::",
            "x.agent.example",
            "localhost.evil",
            "",
        ] {
            assert!(!hosts.contains(bad), "{bad}");
        }
        let all = AllowedHosts::new("0.0.0.0", &[]);
        assert!(!all.contains("0.0.0.0") && all.contains("localhost"));
        assert!(AllowedHosts::new("[fd00::1]", &[]).contains("fd00::1"));
    }
}
