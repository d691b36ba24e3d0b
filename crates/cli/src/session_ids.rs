//! From what a person typed to one session: an id, or its beginning. Pure.
//!
//! Invariant: a shortened id that fits several sessions is an error, never a guess.

use std::fmt::Write as _;

use wolli_protocol::state::SessionSummary;

/// Sessions that an error names.
const NAMED: usize = 5;

/// Why nothing was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NotFound {
    Unknown,
    /// Lines with the sessions that it may be.
    Several(String),
}

/// The session with that id, or the only one whose id begins like that.
pub(crate) fn find<'a>(sessions: &'a [SessionSummary], typed: &str) -> Result<&'a SessionSummary, NotFound> {
    if let Some(session) = sessions.iter().find(|session| session.session_id.as_str() == typed) {
        return Ok(session);
    }
    let found: Vec<&SessionSummary> =
        sessions.iter().filter(|session| !typed.is_empty() && session.session_id.as_str().starts_with(typed)).collect();
    match found.as_slice() {
        [] => Err(NotFound::Unknown),
        [session] => Ok(session),
        several => {
            let mut lines: String = several.iter().take(NAMED).map(|session| line(session)).collect();
            if several.len() > NAMED {
                let _ = write!(lines, "\n  and {} more", several.len() - NAMED);
            }
            Err(NotFound::Several(lines))
        }
    }
}

fn line(session: &SessionSummary) -> String {
    let name = session.session_name.as_deref().unwrap_or_default().replace(char::is_control, " ");
    format!("\n  {}  {name}", session.session_id).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_or_its_beginning() {
        let session = |id: &str, name: Option<&str>| SessionSummary {
            session_id: id.into(),
            session_name: name.map(str::to_owned),
            created_at: None,
            is_streaming: false,
            live: false,
            tags: std::collections::BTreeMap::new(),
        };
        let sessions = [session("01a2-1", None), session("01a2-12", Some("mi\nnutes")), session("01b3", None)];
        let find = |typed: &str| super::find(&sessions, typed).map(|session| session.session_id.as_str());
        for (typed, found) in [("01b", "01b3"), ("01b3", "01b3"), ("01a2-1", "01a2-1"), ("01a2-12", "01a2-12")] {
            assert_eq!(find(typed), Ok(found), "{typed}");
        }
        for typed in ["", "x", "01b34", "1b3"] {
            assert_eq!(find(typed), Err(NotFound::Unknown), "{typed}");
        }
        assert_eq!(find("01a"), Err(NotFound::Several("\n  01a2-1\n  01a2-12  mi nutes".into())));
        let many: Vec<SessionSummary> = (0..7).map(|n| session(&format!("a{n}"), None)).collect();
        assert_eq!(super::find(&many, "a"), Err(NotFound::Several("\n  a0\n  a1\n  a2\n  a3\n  a4\n  and 2 more".into())));
    }
}
