//! Who may ask for what: `Host`, then `Origin`, then the bearer token, before a byte of the body is read.
//!
//! Invariants: everything but `/health` and paths that are no routes needs the token; a token counts in the `Authorization` header
//! alone; tokens are compared in constant time; no answer ever carries a CORS header. Not here: sockets, what routes do.

use http::header::{AUTHORIZATION, HOST, ORIGIN};
use http::request::Parts;
use secrecy::{ExposeSecret, SecretString};
use wolli_home::token;

use super::hosts::{AllowedHosts, Authority};
use super::route::Route;

/// How a request came in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    /// Reached only by the owner of the socket file, whatever `Host` says.
    Unix,
}

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// 421: `Host` is not ours; holds the name if it is one.
    Host(Option<String>),
    /// 403: the page that asks is not ours.
    Origin,
    /// 401 without a token.
    NoToken,
    /// 400: `Authorization` is not `Bearer <token>`.
    MalformedToken,
    /// 401: another token.
    WrongToken,
}

/// What a request is checked against.
#[derive(Debug)]
pub(crate) struct Access {
    hosts: AllowedHosts,
    token: SecretString,
}

impl Access {
    pub(crate) fn new(hosts: AllowedHosts, token: SecretString) -> Self {
        Self { hosts, token }
    }

    /// Checks everything that `route` asks for.
    pub(crate) fn check(&self, head: &Parts, transport: Transport, route: &Route) -> Result<(), Refusal> {
        let host = self.host(head, transport)?;
        self.origin(head, host.as_ref())?;
        if route.needs_token() { self.bearer(head) } else { Ok(()) }
    }

    /// HMAC of a nonce under the token, which proves that we know it.
    pub(crate) fn proof(&self, nonce: &str) -> Option<String> {
        token::is_nonce(nonce).then(|| token::proof(self.token.expose_secret(), nonce))
    }

    fn host(&self, head: &Parts, transport: Transport) -> Result<Option<Authority>, Refusal> {
        let mut headers = head.headers.get_all(HOST).iter();
        let header = headers.next().map(|value| value.to_str().unwrap_or_default());
        let authority = header.and_then(Authority::parse);
        if transport == Transport::Unix {
            return Ok(authority);
        }
        let allowed = |authority: &Authority| self.hosts.contains(&authority.host);
        let refused = |authority: Option<Authority>| Err(Refusal::Host(authority.map(|authority| authority.host)));
        // In `GET http://name/ HTTP/1.1` the name of the target is the one that counts.
        if let Some(target) = head.uri.authority() {
            let target = Authority::parse(target.as_str());
            if !target.as_ref().is_some_and(allowed) {
                return refused(target);
            }
        }
        if headers.next().is_some() || !authority.as_ref().is_some_and(allowed) {
            return refused(authority);
        }
        Ok(authority)
    }

    /// A page may ask if it came from us: from the very host and port that it asks now, or from one of our names by the port that
    /// its scheme implies, as behind a proxy that ends TLS.
    fn origin(&self, head: &Parts, host: Option<&Authority>) -> Result<(), Refusal> {
        let mut origins = head.headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(()) };
        let text = origin.to_str().unwrap_or_default();
        let (default_port, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
            (Some(rest), _) => (80, rest),
            (_, Some(rest)) => (443, rest),
            (None, None) => return Err(Refusal::Origin),
        };
        let origin = Authority::parse(rest).filter(|_| origins.next().is_none()).ok_or(Refusal::Origin)?;
        let port = origin.port.unwrap_or(default_port);
        let same = host.is_some_and(|host| host.host == origin.host && host.port.unwrap_or(default_port) == port);
        let behind_proxy = port == default_port && !super::hosts::is_loopback(&origin.host) && self.hosts.contains(&origin.host);
        if same || behind_proxy { Ok(()) } else { Err(Refusal::Origin) }
    }

    /// Whether the request carries our token.
    pub(crate) fn bearer(&self, head: &Parts) -> Result<(), Refusal> {
        let mut headers = head.headers.get_all(AUTHORIZATION).iter();
        let header = match (headers.next(), headers.next()) {
            (None, _) => return Err(Refusal::NoToken),
            (Some(_), Some(_)) => return Err(Refusal::MalformedToken),
            (Some(header), None) => header.as_bytes(),
        };
        if header.is_empty() {
            return Err(Refusal::NoToken);
        }
        let presented = std::str::from_utf8(header).ok().and_then(bearer_token).ok_or(Refusal::MalformedToken)?;
        if token::same(presented, self.token.expose_secret()) { Ok(()) } else { Err(Refusal::WrongToken) }
    }
}

/// The token of `Bearer <token>`; the scheme in any case, any number of spaces.
fn bearer_token(header: &str) -> Option<&str> {
    let (scheme, rest) = header.split_at_checked("Bearer".len())?;
    let token = rest.trim_start_matches(' ');
    (scheme.eq_ignore_ascii_case("Bearer") && token.len() < rest.len() && token::is_bearer(token)).then_some(token)
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn access() -> Access {
        Access::new(AllowedHosts::new("127.0.0.1", &["agent.example".into()]), SecretString::from("sesame".to_owned()))
    }

    fn head(uri: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn check(transport: Transport, route: &Route, headers: &[(&str, &str)]) -> Result<(), Refusal> {
        access().check(&head("/", headers), transport, route)
    }

    #[test]
    fn hosts_are_checked_first_and_everywhere() {
        for route in [Route::Health, Route::Unknown, Route::ControlStream] {
            for host in ["evil.example", "evil.example:7777", "127.0.0.1.evil.example", "localhost.", "agent.example.", "x@localhost"] {
                let refusal = check(Transport::Tcp, &route, &[("host", host)]).unwrap_err();
                assert!(matches!(refusal, Refusal::Host(_)), "{host}: {refusal:?}");
            }
            assert_eq!(check(Transport::Tcp, &route, &[]), Err(Refusal::Host(None)));
            assert!(matches!(check(Transport::Tcp, &route, &[("host", "localhost"), ("host", "evil")]), Err(Refusal::Host(_))));
        }
        for host in ["localhost", "LOCALHOST:1", "127.0.0.1", "127.0.0.1:7777", "[::1]:7777", "agent.example", "Agent.Example:443"] {
            assert_eq!(check(Transport::Tcp, &Route::Health, &[("host", host)]), Ok(()), "{host}");
        }
    }

    #[test]
    fn the_target_of_a_request_counts_as_a_host() {
        let check = |uri: &str| access().check(&head(uri, &[("host", "localhost")]), Transport::Tcp, &Route::Health);
        assert_eq!(check("http://localhost:1/health"), Ok(()));
        assert_eq!(check("http://evil.example/health"), Err(Refusal::Host(Some("evil.example".into()))));
    }

    #[test]
    fn over_the_unix_socket_any_host_will_do() {
        for headers in [&[][..], &[("host", "evil.example")], &[("host", "\u{7f}")][..0]] {
            assert_eq!(check(Transport::Unix, &Route::Health, headers), Ok(()));
        }
        assert_eq!(check(Transport::Unix, &Route::ControlStream, &[]), Err(Refusal::NoToken));
        assert_eq!(check(Transport::Unix, &Route::Health, &[("host", "a"), ("origin", "http://b")]), Err(Refusal::Origin));
    }

    #[test]
    fn origins() {
        let check = |host: &str, origin: &str| check(Transport::Tcp, &Route::Health, &[("host", host), ("origin", origin)]).is_ok();
        for (host, origin) in [
            ("localhost:7777", "http://localhost:7777"),
            ("127.0.0.1:9999", "http://127.0.0.1:9999"),
            ("[::1]:7777", "http://[::1]:7777"),
            ("localhost", "http://localhost"),
            ("localhost:80", "http://localhost"),
            ("agent.example", "https://agent.example"),
            ("127.0.0.1:7777", "https://agent.example"),
        ] {
            assert!(check(host, origin), "{host} {origin}");
        }
        for (host, origin) in [
            ("localhost:7777", "http://evil.example"),
            ("localhost:7777", "http://localhost:3000"),
            ("localhost:7777", "http://127.0.0.1:7777"),
            ("localhost:7777", "http://localhost"),
            ("localhost:7777", "null"),
            ("localhost:7777", ""),
            ("localhost:7777", "file://"),
            ("localhost:7777", "chrome-extension://abc"),
            ("localhost:7777", "http://localhost:7777.evil.example"),
            ("localhost:7777", "http://localhost:7777/"),
            ("127.0.0.1:7777", "https://agent.example:8443"),
        ] {
            assert!(!check(host, origin), "{host} {origin}");
        }
    }

    #[test]
    fn bearer_tokens() {
        let check = |header: &str| access().bearer(&head("/", &[("authorization", header)]));
        for good in ["Bearer sesame", "bearer sesame", "BEARER    sesame"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        assert_eq!(access().bearer(&head("/", &[])), Err(Refusal::NoToken));
        assert_eq!(check(""), Err(Refusal::NoToken));
        for malformed in [
            "Bearer",
            "Bearer ",
            "Bearersesame",
            "Basic sesame",
            "sesame",
            "Bearer se same",
            "Bearer ses\"ame",
            "Bearer\tsesame",
            "Bear",
            "Bearer =",
            "B\u{e9}arer x",
        ] {
            assert_eq!(check(malformed), Err(Refusal::MalformedToken), "{malformed}");
        }
        for wrong in ["Bearer Sesame", "Bearer sesam", "Bearer sesame=", "Bearer x"] {
            assert_eq!(check(wrong), Err(Refusal::WrongToken), "{wrong}");
        }
        assert_eq!(
            access().bearer(&head("/", &[("authorization", "Bearer sesame"), ("authorization", "Bearer sesame")])),
            Err(Refusal::MalformedToken)
        );
    }

    #[test]
    fn a_token_in_the_query_is_no_token() {
        let head = head("/events?token=sesame&access_token=sesame", &[("host", "localhost")]);
        assert_eq!(access().check(&head, Transport::Tcp, &Route::ControlStream), Err(Refusal::NoToken));
    }
}
