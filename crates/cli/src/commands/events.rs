//! `wolli events`: follows a session as lines of JSON, until it is told to stop.
//!
//! Invariant: whatever breaks in between, each numbered event is one line, once and in order; if the daemon no longer has some of them,
//! stderr says so, and the line of the `hello` that follows describes the session as it is.

use std::future::pending;

use wolli_client::{Agent, ClientError, Frame, FrameOptions, LinkState};
use wolli_home::environment::Environment;
use wolli_protocol::ids::SessionId;

use crate::agents;
use crate::arguments::requests::Events;
use crate::console::Console;
use crate::failure::Failure;
use crate::talk::connect;
use crate::talk::render::plain;
use crate::talk::signals::{Signals, Stop};

pub(crate) fn run(events: Events, environment: &Environment, console: &Console) -> Result<(), Failure> {
    let agent = agents::connectable(environment, &events.agent, console)?;
    crate::talk::runtime()?.block_on(async {
        let mut signals = Signals::new().map_err(Failure::Start)?;
        tokio::select! {
            biased;
            stop = signals.next() => Err(match stop {
                Stop::Interrupt => Failure::Interrupted,
                Stop::Terminate => Failure::Terminated,
            }),
            failure = follow(&agent, events, console) => Err(failure),
        }
    })
}

/// Prints frames until something ends that for good; gives what it was.
async fn follow(agent: &Agent, events: Events, console: &Console) -> Failure {
    let session = match session(agent, events.session.as_deref()).await {
        Ok(session) => session,
        Err(failure) => return failure,
    };
    let options = FrameOptions { view: Some(events.view.as_str().to_owned()), include: events.include, after: events.after };
    let mut frames = agent.frames(&session, options);
    let mut link = frames.watch_link();
    let mut lost = false;
    loop {
        let changed = async {
            // A link that is gone has ended, which the frames tell.
            if link.changed().await.is_err() {
                pending::<()>().await;
            }
        };
        tokio::select! {
            biased;
            frame = frames.next() => match frame {
                Some(frame) => {
                    if let Err(failure) = print(&frame, console) {
                        return failure;
                    }
                }
                None => return frames.problem().into(),
            },
            () = changed => {
                let state = link.borrow_and_update().clone();
                match state {
                    LinkState::Waiting { problem, .. } if !lost => {
                        lost = true;
                        console.complain(&format!("connection lost, trying again: {}", plain(&problem)));
                    }
                    LinkState::Live if lost => {
                        lost = false;
                        console.complain("connected again");
                    }
                    LinkState::Connecting | LinkState::Live | LinkState::Waiting { .. } | LinkState::Ended(_) => {}
                }
            }
        }
    }
}

async fn session(agent: &Agent, typed: Option<&str>) -> Result<SessionId, Failure> {
    agent.connect().await?;
    let sessions = agent.list_sessions().await?;
    match typed {
        Some(typed) => Ok(connect::find_session(agent, &sessions, typed)?.session_id.clone()),
        None => match sessions.into_iter().next() {
            Some(session) => Ok(session.session_id),
            None => Err(ClientError::NoSession(agent.name().clone()).into()),
        },
    }
}

fn print(frame: &Frame, console: &Console) -> Result<(), Failure> {
    if frame.gap {
        console.complain("warning: events are missing here, for the daemon no longer has them");
    }
    Ok(console.line(&line(frame))?)
}

/// The frame's JSON with its number as `frameId`, and `hello` with a type like all others.
fn line(frame: &Frame) -> String {
    let Some(rest) = frame.data.strip_prefix('{') else { return frame.data.clone() };
    let comma = if rest.trim_start().starts_with('}') { "" } else { "," };
    match frame.id {
        _ if frame.name == "hello" => format!("{{\"type\":\"hello\"{comma}{rest}"),
        Some(id) => format!("{{\"frameId\":{id}{comma}{rest}"),
        None => frame.data.clone(),
    }
}

#[cfg(test)]
mod tests {
    use wolli_protocol::ids::FrameId;

    use super::*;

    #[test]
    fn lines() {
        for (name, id, data, expected) in [
            ("message", Some(7), r#"{"type":"agent_start"}"#, r#"{"frameId":7,"type":"agent_start"}"#),
            ("message", None, r#"{"type":"waiting","waiting":null}"#, r#"{"type":"waiting","waiting":null}"#),
            ("hello", None, r#"{"sessionId":"s"}"#, r#"{"type":"hello","sessionId":"s"}"#),
            ("hello", None, "{}", r#"{"type":"hello"}"#),
            ("message", Some(1), "[]", "[]"),
        ] {
            let frame = Frame { name: name.into(), id: id.map(FrameId), data: data.into(), gap: false };
            assert_eq!(line(&frame), expected);
        }
    }
}
