//! What can be done to a stored session without a handle of it: its stream is not attached.

use serde_json::Value;
use wolli_protocol::answer::UsageTotals;
use wolli_protocol::command::Command;
use wolli_protocol::ids::SessionId;

use super::Agent;
use crate::error::ClientError;
use crate::session::{self, read_entries};

impl Agent {
    /// Names a session; an empty name takes its name away.
    ///
    /// # Errors
    /// When there is no such session, and when the daemon cannot be reached.
    pub async fn rename_session(&self, id: &SessionId, name: &str) -> Result<(), ClientError> {
        let command = Command::RenameSession { target_session_id: id.clone(), session_name: name.into() };
        let place = self.place_beside(id).await?;
        session::command::<Value>(&self.0.transport, &place, &command, true, None).await.map(|_| ())
    }

    /// Deletes a session and its file. One that is at work is aborted first by the daemon, or refused.
    ///
    /// # Errors
    /// The daemon's, and [`ClientError::Interrupted`] when the connection broke before the answer.
    pub async fn delete_session(&self, id: &SessionId) -> Result<(), ClientError> {
        let command = Command::DeleteSession { target_session_id: id.clone() };
        let place = self.place_beside(id).await?;
        session::command::<Value>(&self.0.transport, &place, &command, false, None).await.map(|_| ())
    }

    /// The entries of a session's active branch, oldest first, each as the JSON object that the daemon has: kinds that this version
    /// does not know are whole. The session does not become live.
    ///
    /// # Errors
    /// When there is no such session, and when the daemon cannot be reached.
    pub async fn read_entries(&self, id: &SessionId) -> Result<Vec<Value>, ClientError> {
        read_entries(&self.0.transport, id, None).await
    }

    /// Tokens and money of a session, of the agent today, and of the agent in all.
    ///
    /// # Errors
    /// When there is no such session, and when the daemon cannot be reached.
    pub async fn usage(&self, id: &SessionId) -> Result<UsageTotals, ClientError> {
        session::command(&self.0.transport, id, &Command::GetUsage, true, None).await
    }

    /// A session to post a command to that concerns another one. That one may be damaged, and need not be opened.
    async fn place_beside(&self, id: &SessionId) -> Result<SessionId, ClientError> {
        let sessions = self.list_sessions().await?;
        let other = sessions.into_iter().map(|session| session.session_id).find(|other| other != id);
        Ok(other.unwrap_or_else(|| id.clone()))
    }
}
