//! `POST /sessions/:id/control`: one command in, one envelope out.
//!
//! A command that changes something runs in a task of its own, so that a client that hangs up has asked all the same. One that takes
//! long is answered piece by piece: headers at once, white space while it works, then the JSON.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;
use wolli_protocol::command::{Command, CommandError};
use wolli_protocol::ids::SessionId;

use super::opening::{self, Opening};
use super::{commands, envelope};
use crate::http::answer::{self, Answer};
use crate::server::limits::Timing;
use crate::stop::Stop;

/// Bytes of a body that are read at once, in less than a millisecond. A larger one is read on a thread for blocking work, since all
/// streams would wait for it.
pub(super) const LIGHT_BODY: usize = 256 * 1024;

/// White space that keeps a connection in use; JSON may begin with it.
const WAITING: &[u8] = b" ";

/// Answers the command in `body`.
pub(crate) async fn answer(opening: &watch::Receiver<Opening>, id: SessionId, body: Bytes, timing: &Timing, stop: &Stop) -> Answer {
    let light = if body.len() <= LIGHT_BODY { Some(read(&body)) } else { None };
    if matches!(light, Some(None)) {
        return answer::json(envelope::MALFORMED);
    }
    let runtime = match opening::wait(opening, timing.loading).await {
        Ok(runtime) => runtime,
        Err(unavailable) => return unavailable.answer(),
    };
    let request = match light {
        Some(request) => request,
        None => match runtime.tasks().spawn_blocking(move || read(&body)).await {
            Ok(request) => request,
            Err(_) => return answer::internal_error(),
        },
    };
    let Some((request, command)) = request else { return answer::json(envelope::MALFORMED) };
    let pace = command.as_ref().map_or(Pace::Read, pace);
    let stop = stop.clone();
    let execute = {
        let runtime = Arc::clone(&runtime);
        async move {
            let result = commands::run(&runtime, &id, command, &stop).await;
            envelope::answer(&request, &result)
        }
    };
    match pace {
        Pace::Read => answer::json(execute.await),
        Pace::Change => match runtime.tasks().spawn("command", execute).await {
            Ok(text) => answer::json(text),
            Err(_) => answer::internal_error(),
        },
        Pace::Wait => in_pieces(Box::pin(execute), timing).await,
        Pace::ChangeAndWait => {
            let task = runtime.tasks().spawn("command", execute);
            // A panic was logged where it happened; the client gets an end of the answer that is no JSON.
            in_pieces(Box::pin(async { task.await.unwrap_or_default() }), timing).await
        }
    }
}

/// The request and the command in it; nothing if it is no JSON.
fn read(body: &[u8]) -> Option<(Value, Result<Command, CommandError>)> {
    let request = envelope::parse(body)?;
    let command = Command::from_json(&request);
    Some((request, command))
}

/// How a command is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Done at once and changes nothing: not worth a task.
    Read,
    /// Goes on when the client has gone.
    Change,
    /// May take as long as a run; ends with the client.
    Wait,
    ChangeAndWait,
}

fn pace(command: &Command) -> Pace {
    match command {
        Command::GetState
        | Command::GetMessages
        | Command::GetCommands
        | Command::GetEntries
        | Command::GetResourceSummary
        | Command::GetToolInfo
        | Command::GetIntegrationInfo
        | Command::GetSkills
        | Command::GetPlugins
        | Command::GetContextInfo
        | Command::GetAvailableModels
        | Command::GetLoginProviders { .. }
        | Command::GetLogoutProviders
        | Command::GetDialogs
        | Command::GetUsage => Pace::Read,
        Command::WaitForIdle => Pace::Wait,
        Command::Abort
        | Command::Deploy
        | Command::Compact { .. }
        | Command::Reload
        | Command::InstallPlugin { .. }
        | Command::RemovePlugin { .. }
        | Command::UpdatePlugins { .. }
        | Command::OnboardPlugin { .. }
        | Command::Login { .. } => Pace::ChangeAndWait,
        Command::Prompt { .. }
        | Command::Steer { .. }
        | Command::FollowUp { .. }
        | Command::AbortCompaction
        | Command::ClearQueue
        | Command::CreateSession
        | Command::Shutdown
        | Command::SeedAssistantMessage { .. }
        | Command::AppendMessage { .. }
        | Command::SetThinkingLevel { .. }
        | Command::SetModel { .. }
        | Command::SetScopedModels { .. }
        | Command::SetEnabledModels { .. }
        | Command::LoginCancel
        | Command::Logout { .. }
        | Command::RenameSession { .. }
        | Command::DeleteSession { .. } => Pace::Change,
    }
}

/// A whole answer if it is quick, else one that begins at once.
async fn in_pieces(mut work: BoxFuture<'static, Bytes>, timing: &Timing) -> Answer {
    match tokio::time::timeout(timing.quick_answer, work.as_mut()).await {
        Ok(text) => answer::json(text),
        Err(_) => answer::slow_json(waiting(work, timing.keepalive)),
    }
}

fn waiting(work: Pin<Box<dyn Future<Output = Bytes> + Send>>, pause: Duration) -> impl Stream<Item = Bytes> + Send {
    futures_util::stream::unfold(Some(work), move |work| async move {
        let mut work = work?;
        match tokio::time::timeout(pause, work.as_mut()).await {
            Ok(text) => Some((text, None)),
            Err(_) => Some((Bytes::from_static(WAITING), Some(work))),
        }
    })
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_slow_answer_is_preceded_by_one_space_every_15_seconds() {
        let started = tokio::time::Instant::now();
        let work = Box::pin(async {
            tokio::time::sleep(Duration::from_secs(50)).await;
            Bytes::from_static(b"{}")
        });
        let pieces: Vec<(u64, Bytes)> =
            waiting(work, Duration::from_secs(15)).map(|piece| (started.elapsed().as_secs(), piece)).collect().await;
        let space = || Bytes::from_static(b" ");
        assert_eq!(pieces, [(15, space()), (30, space()), (45, space()), (50, Bytes::from_static(b"{}"))]);
    }
}
