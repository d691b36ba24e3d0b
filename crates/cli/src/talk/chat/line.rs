//! What a typed line asks for. Pure.

/// A line of a chat, understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Nothing,
    Quit,
    Help,
    Abort,
    /// Make a session and go there.
    New,
    /// List the sessions, or go to one.
    Sessions(Option<String>),
    /// Show the models, or switch to one.
    Model(Option<String>),
    /// Show the thinking levels, or set one.
    Thinking(Option<String>),
    /// Shorten the conversation, with an eye on this.
    Compact(Option<String>),
    Reload,
    /// Give the session a name.
    Rename(Option<String>),
    Usage,
    Deploy,
    /// Show the providers, or store a key for one.
    Login(Option<String>),
    /// Show what is stored, or remove it for one provider.
    Logout(Option<String>),
    /// Everything else, slashes that are the daemon's included.
    Prompt(String),
}

/// What `/help` prints.
pub(crate) const HELP: &str = "\
/quit             leave; the agent goes on (also Ctrl+D, or Ctrl+C when it is idle)
/abort            stop what is being said or done (also Ctrl+C)
/new              a new session
/sessions [id]    list the sessions, or go to one; the beginning of its id will do
/rename <name>    give this session a name
/model [p/id]     list the models, or use one
/thinking [level] list the thinking levels, or set one
/compact [about]  replace the earlier conversation by a summary
/usage            tokens and money of this session, of today and in all
/reload           read skills, templates, settings and files of the agent anew
/skill:<name>     use a skill; templates and skills are called like commands
/deploy           ask a forming agent to finish
/login [p]        list the providers, or store a key for one
/logout [p]       list the stored keys, or remove one
A line that ends in \\ goes on in the next one. While the agent is at work, a line is given to it as soon as possible.
";

/// What `/login` says where nobody can be asked.
pub(crate) const LOGIN_HINT: &str = "\
A login asks for the key, which takes a terminal. Without one, set the provider's variable (such as ANTHROPIC_API_KEY) where the daemon
is started, or put the key into auth.json of wolli's shared folder: { \"anthropic\": { \"type\": \"api_key\", \"key\": \"...\" } }.
";

/// What `/deploy` says to the agent.
pub(crate) const DEPLOY_PROMPT: &str =
    "If you know enough about what you are for, call your deploy tool now. Otherwise say what is missing.";

impl Line {
    pub(crate) fn parse(text: &str) -> Self {
        let trimmed = text.trim();
        let (word, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
        match (word, rest.trim()) {
            ("", _) => Self::Nothing,
            ("/quit" | "/exit", "") => Self::Quit,
            ("/help", "") => Self::Help,
            ("/abort", "") => Self::Abort,
            ("/new", "") => Self::New,
            ("/sessions", session) => Self::Sessions(named(session)),
            ("/thinking", level) => Self::Thinking(named(level)),
            ("/compact", instructions) => Self::Compact(named(instructions)),
            ("/reload", "") => Self::Reload,
            ("/rename", name) => Self::Rename(named(name)),
            ("/usage", "") => Self::Usage,
            ("/deploy", "") => Self::Deploy,
            ("/login", provider) => Self::Login(named(provider)),
            ("/logout", provider) => Self::Logout(named(provider)),
            ("/model", model) => Self::Model(named(model)),
            _ => Self::Prompt(text.to_owned()),
        }
    }
}

/// What was named, if anything was.
fn named(rest: &str) -> Option<String> {
    Some(rest).filter(|rest| !rest.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::{HELP, Line};

    #[test]
    fn lines() {
        for (text, line) in [
            ("", Line::Nothing),
            (" \t", Line::Nothing),
            ("/quit", Line::Quit),
            (" /quit ", Line::Quit),
            ("/quit now", Line::Prompt("/quit now".into())),
            ("/model", Line::Model(None)),
            ("/model  echo/demo ", Line::Model(Some("echo/demo".into()))),
            ("/login", Line::Login(None)),
            ("/login  anthropic ", Line::Login(Some("anthropic".into()))),
            ("/logout", Line::Logout(None)),
            ("/logout groq", Line::Logout(Some("groq".into()))),
            ("/logins", Line::Prompt("/logins".into())),
            ("/sessions", Line::Sessions(None)),
            ("/sessions 01a2", Line::Sessions(Some("01a2".into()))),
            ("/compact  keep the names ", Line::Compact(Some("keep the names".into()))),
            ("/thinking high", Line::Thinking(Some("high".into()))),
            ("/rename Minutes of Monday", Line::Rename(Some("Minutes of Monday".into()))),
            ("/usage now", Line::Prompt("/usage now".into())),
            ("/reload", Line::Reload),
            ("/skill:greet", Line::Prompt("/skill:greet".into())),
            ("/etc is a folder", Line::Prompt("/etc is a folder".into())),
            ("  indented", Line::Prompt("  indented".into())),
            ("/abort\nthen more", Line::Prompt("/abort\nthen more".into())),
        ] {
            assert_eq!(Line::parse(text), line, "{text:?}");
        }
    }

    #[test]
    fn help_names_every_command() {
        for word in [
            "/quit",
            "/abort",
            "/new",
            "/sessions",
            "/rename",
            "/model",
            "/thinking",
            "/compact",
            "/usage",
            "/reload",
            "/deploy",
            "/login",
            "/logout",
        ] {
            assert!(HELP.contains(word) && Line::parse(word) != Line::Prompt(word.into()), "{word}");
        }
    }
}
