//! From method and path to what is asked for. Paths are exact: case counts, and so does a slash at the end. Pure.
//!
//! Invariant: [`ENDPOINTS`] is the only list of routes: what is matched, who may ask, and what the written reference describes.

use http::Method;
use wolli_protocol::ids::SessionId;
use wolli_runtime::dialogs::Rail;

use super::query::percent_decode;

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Health,
    Reference,
    ControlStream,
    Sessions,
    SessionStream(SessionId),
    Entries(SessionId),
    Control(SessionId),
    DialogAnswer(SessionId, Rail),
    /// Below `/sessions/`, or a known path with another method: answered as unknown, to bearers alone.
    UnknownGuarded,
    Unknown,
}

/// One route of the daemon.
#[derive(Clone, Copy, Debug)]
pub struct Endpoint {
    /// `GET` or `POST`; `HEAD` asks for what `GET` asks for.
    pub method: &'static str,
    /// The path; `{id}` stands for one percent-coded segment that is not empty.
    pub path: &'static str,
    /// Whether it wants the agent's token.
    pub needs_token: bool,
    /// Makes the route; those without an id in their path get an empty one.
    route: fn(SessionId) -> Route,
}

const fn open(method: &'static str, path: &'static str, route: fn(SessionId) -> Route) -> Endpoint {
    Endpoint { method, path, needs_token: false, route }
}

const fn guarded(method: &'static str, path: &'static str, route: fn(SessionId) -> Route) -> Endpoint {
    Endpoint { method, path, needs_token: true, route }
}

/// All routes, the busiest first.
pub const ENDPOINTS: &[Endpoint] = &[
    guarded("POST", "/sessions/{id}/control", Route::Control),
    guarded("GET", "/sessions/{id}/events", Route::SessionStream),
    guarded("GET", "/sessions/{id}/entries", Route::Entries),
    guarded("POST", "/sessions/{id}/ui-response", |id| Route::DialogAnswer(id, Rail::Ui)),
    guarded("POST", "/sessions/{id}/login-response", |id| Route::DialogAnswer(id, Rail::Login)),
    open("GET", "/health", |_| Route::Health),
    guarded("GET", "/sessions", |_| Route::Sessions),
    guarded("GET", "/events", |_| Route::ControlStream),
    guarded("GET", "/openapi.json", |_| Route::Reference),
];

/// Below this everything wants the token, existing or not.
const GUARDED_BELOW: &str = "/sessions/";

impl Endpoint {
    /// The part of `path` that stands for the id, still coded; empty for a path without one.
    fn matches<'a>(&self, path: &'a str) -> Option<&'a str> {
        let Some((before, behind)) = self.path.split_once("{id}") else {
            return (path == self.path).then_some("");
        };
        let id = path.strip_prefix(before)?.strip_suffix(behind)?;
        (!id.is_empty() && !id.contains('/')).then_some(id)
    }
}

impl Route {
    /// `HEAD` asks for what `GET` asks for.
    pub(crate) fn of(method: &Method, path: &str) -> Self {
        let method = if method == Method::HEAD { Method::GET.as_str() } else { method.as_str() };
        let mut guarded = path.starts_with(GUARDED_BELOW);
        for endpoint in ENDPOINTS {
            let Some(id) = endpoint.matches(path) else { continue };
            if endpoint.method == method {
                return (endpoint.route)(SessionId::from(percent_decode(id, false)));
            }
            guarded |= endpoint.needs_token;
        }
        if guarded { Self::UnknownGuarded } else { Self::Unknown }
    }

    /// Default-deny: only what is listed here is open.
    pub(crate) fn needs_token(&self) -> bool {
        !matches!(self, Self::Health | Self::Unknown)
    }

    /// True if the answer is a stream of events, which is neither attached nor counted for `HEAD`.
    pub(crate) fn is_stream(&self) -> bool {
        matches!(self, Self::ControlStream | Self::SessionStream(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn routes() {
        let id = || SessionId::from("a b");
        for (method, path, route) in [
            (Method::GET, "/health", Route::Health),
            (Method::HEAD, "/health", Route::Health),
            (Method::POST, "/health", Route::Unknown),
            (Method::OPTIONS, "/health", Route::Unknown),
            (Method::GET, "/health/", Route::Unknown),
            (Method::GET, "/Health", Route::Unknown),
            (Method::GET, "/", Route::Unknown),
            (Method::GET, "", Route::Unknown),
            (Method::OPTIONS, "*", Route::Unknown),
            (Method::GET, "/events", Route::ControlStream),
            (Method::HEAD, "/events", Route::ControlStream),
            (Method::POST, "/events", Route::UnknownGuarded),
            (Method::GET, "/events/", Route::Unknown),
            (Method::GET, "/sessions", Route::Sessions),
            (Method::OPTIONS, "/sessions", Route::UnknownGuarded),
            (Method::GET, "/sessions/", Route::UnknownGuarded),
            (Method::GET, "/sessions//events", Route::UnknownGuarded),
            (Method::GET, "/sessions/a", Route::UnknownGuarded),
            (Method::GET, "/sessions/a%20b/events", Route::SessionStream(id())),
            (Method::POST, "/sessions/a%20b/events", Route::UnknownGuarded),
            (Method::GET, "/sessions/a%20b/events/", Route::UnknownGuarded),
            (Method::GET, "/sessions/a/b/events", Route::UnknownGuarded),
            (Method::GET, "/sessions/a%2Fb/events", Route::SessionStream("a/b".into())),
            (Method::GET, "/sessions/a+b/entries", Route::Entries("a+b".into())),
            (Method::POST, "/sessions/a%20b/control", Route::Control(id())),
            (Method::GET, "/sessions/a%20b/control", Route::UnknownGuarded),
            (Method::POST, "/sessions/a%20b/ui-response", Route::DialogAnswer(id(), Rail::Ui)),
            (Method::POST, "/sessions/a%20b/login-response", Route::DialogAnswer(id(), Rail::Login)),
            (Method::GET, "/sessions/a/ui-response", Route::UnknownGuarded),
            (Method::GET, "/sessionsx", Route::Unknown),
            (Method::GET, "/openapi.json", Route::Reference),
            (Method::POST, "/openapi.json", Route::UnknownGuarded),
            (Method::GET, "/sessions/events", Route::UnknownGuarded),
            (Method::GET, "/sessions/{id}/events", Route::SessionStream("{id}".into())),
            (Method::GET, "//sessions", Route::Unknown),
        ] {
            assert_eq!(Route::of(&method, path), route, "{method} {path}");
        }
    }

    #[test]
    fn the_table_says_who_needs_a_token() {
        for endpoint in ENDPOINTS {
            let method = Method::from_bytes(endpoint.method.as_bytes()).unwrap();
            let route = Route::of(&method, endpoint.path);
            assert!(!matches!(route, Route::Unknown | Route::UnknownGuarded), "{endpoint:?}");
            assert_eq!(route.needs_token(), endpoint.needs_token, "{endpoint:?}");
        }
    }
}
