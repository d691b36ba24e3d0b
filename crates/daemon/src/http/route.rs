//! From method and path to what is asked for. Paths are exact: case counts, and so does a slash at the end. Pure.

use http::Method;
use wolli_protocol::ids::SessionId;
use wolli_runtime::dialogs::Rail;

use super::query::percent_decode;

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    Health,
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

impl Route {
    /// `HEAD` asks for what `GET` asks for.
    pub(crate) fn of(method: &Method, path: &str) -> Self {
        let get = method == Method::GET || method == Method::HEAD;
        match path {
            "/health" if get => return Self::Health,
            "/events" => return if get { Self::ControlStream } else { Self::UnknownGuarded },
            "/sessions" => return if get { Self::Sessions } else { Self::UnknownGuarded },
            _ => {}
        }
        let Some(below) = path.strip_prefix("/sessions/") else { return Self::Unknown };
        let Some((id, action)) = below.split_once('/').filter(|(id, _)| !id.is_empty()) else { return Self::UnknownGuarded };
        let id = || SessionId::from(percent_decode(id, false));
        match action {
            "events" if get => Self::SessionStream(id()),
            "entries" if get => Self::Entries(id()),
            "control" if method == Method::POST => Self::Control(id()),
            "ui-response" if method == Method::POST => Self::DialogAnswer(id(), Rail::Ui),
            "login-response" if method == Method::POST => Self::DialogAnswer(id(), Rail::Login),
            _ => Self::UnknownGuarded,
        }
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
            (Method::GET, "//sessions", Route::Unknown),
        ] {
            assert_eq!(Route::of(&method, path), route, "{method} {path}");
        }
    }
}
