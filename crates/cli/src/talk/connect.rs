//! From an agent's name to an open session: finds the daemon or starts it, and picks the session.

use wolli_client::{Agent, ClientError, DaemonProgram, SessionHandle, Wolli};
use wolli_home::environment::Environment;
use wolli_protocol::ids::SessionId;
use wolli_protocol::resource::ResourceDiagnostic;
use wolli_protocol::state::SessionSummary;

use crate::failure::Failure;
use crate::session_ids::{self, NotFound};

/// The session to talk in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Which {
    Latest,
    New,
    Named(String),
}

impl Which {
    /// What `--session` and `--new` ask for.
    pub(crate) fn of(session: Option<String>, new: bool) -> Self {
        match session {
            Some(id) => Self::Named(id),
            None if new => Self::New,
            None => Self::Latest,
        }
    }
}

/// The agent, without a connection yet. Daemons are started as this very program.
pub(crate) fn agent(environment: &Environment, name: &str) -> Result<Agent, Failure> {
    let program = std::env::current_exe().map_err(Failure::Start)?;
    let wolli = Wolli::with_program(environment.clone(), Some(DaemonProgram::new(program)))?;
    wolli.get(name)?.ok_or_else(|| Failure::UnknownAgent(name.to_owned()))
}

/// Connects to the agent's daemon and attaches to the session.
pub(crate) async fn open(agent: &Agent, which: Which) -> Result<SessionHandle, Failure> {
    agent.connect().await?;
    Ok(match which {
        Which::Latest => match agent.latest_session().await {
            // Every one was deleted.
            Err(ClientError::NoSession(_)) => new(agent).await?,
            latest => latest?,
        },
        Which::New => new(agent).await?,
        Which::Named(typed) => {
            let sessions = agent.list_sessions().await?;
            let id = find_session(agent, &sessions, &typed)?.session_id.clone();
            agent.session(&id).await?
        }
    })
}

/// The session with that id, or the only one whose id begins like that.
pub(crate) fn find_session<'a>(agent: &Agent, sessions: &'a [SessionSummary], typed: &str) -> Result<&'a SessionSummary, Failure> {
    session_ids::find(sessions, typed).map_err(|problem| match problem {
        NotFound::Unknown => ClientError::UnknownSession { agent: agent.name().clone(), session: SessionId::from(typed) }.into(),
        NotFound::Several(lines) => Failure::Ambiguous { typed: typed.to_owned(), lines },
    })
}

async fn new(agent: &Agent) -> Result<SessionHandle, Failure> {
    let created = agent.create_session().await?;
    Ok(agent.session(&created.session_id).await?)
}

/// What the daemon found wrong while it loaded the agent and the session: a model that cannot be used, a file that is broken. A
/// daemon that cannot say is no reason to stop.
pub(crate) async fn complaints(session: &SessionHandle) -> Vec<String> {
    let Ok(summary) = session.resource_summary().await else { return Vec::new() };
    let line = |diagnostic: &ResourceDiagnostic| match &diagnostic.path {
        Some(path) if !diagnostic.message.contains(path.as_str()) => format!("wolli: {} ({path})", diagnostic.message),
        _ => format!("wolli: {}", diagnostic.message),
    };
    summary.diagnostics.iter().map(line).collect()
}
