//! One prompt, one answer, the end: `--print`, and `wolli prompt` when it waits.
//!
//! Invariants: stdout gets the answer and nothing else; the status is 0 only if there is an answer; a run that was started here is
//! aborted when nobody waits for it any more, one that was there before is left alone.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, sleep_until, timeout};
use wolli_client::{Agent, ClientError, LinkState, Notice, Prompt, SessionHandle};
use wolli_protocol::dialog::DialogAnswer;
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::DialogId;
use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, StopReason};

use super::connect::{self, Which};
use super::questions::{self, Questions};
use super::render::plain;
use super::signals::{Signals, Stop};
use crate::console::Console;
use crate::failure::Failure;

/// The daemon says "idle" on one connection and the last events on another; how long these may take after that.
const LAST_EVENTS: Duration = Duration::from_secs(5);
/// How long an abort may take before the program ends without it.
const ABORT_LIMIT: Duration = Duration::from_secs(10);

/// What is to be said, and how the answer is wanted.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) message: String,
    pub(crate) json: bool,
    pub(crate) limit: Option<Duration>,
    pub(crate) questions: Questions,
}

/// Says it and prints the answer. The limit counts from here, the start of a daemon included.
pub(crate) async fn run(agent: &Agent, which: Which, job: &Job, console: &Console) -> Result<(), Failure> {
    let deadline = job.limit.and_then(|limit| Instant::now().checked_add(limit));
    let mut signals = Signals::new().map_err(Failure::Start)?;
    let session = tokio::select! {
        biased;
        failure = stopped(&mut signals, deadline, job) => return Err(failure),
        session = connect::open(agent, which) => session?,
    };
    for complaint in connect::complaints(&session).await {
        console.complain(&plain(&complaint));
    }
    let mut exchange = Exchange::default();
    let outcome = tokio::select! {
        biased;
        failure = stopped(&mut signals, deadline, job) => Err(failure),
        outcome = exchange.run(&session, job, console) => outcome,
    };
    if let Err(failure @ (Failure::Interrupted | Failure::Terminated | Failure::TimedOut(_) | Failure::Output(_))) = outcome {
        if exchange.begun && !exchange.ended {
            // Whatever comes of it, the reason to end is the first one.
            drop(timeout(ABORT_LIMIT, session.abort()).await);
        }
        return Err(failure);
    }
    outcome
}

/// Waits for a reason to give up.
async fn stopped(signals: &mut Signals, deadline: Option<Instant>, job: &Job) -> Failure {
    let too_late = async {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        stop = signals.next() => match stop {
            Stop::Interrupt => Failure::Interrupted,
            Stop::Terminate => Failure::Terminated,
        },
        () = too_late => Failure::TimedOut(job.limit.unwrap_or_default()),
    }
}

/// How far the exchange is.
#[derive(Default)]
struct Exchange {
    /// Our message is in the conversation.
    begun: bool,
    /// The run with it is over.
    ended: bool,
    /// Questions that were answered as cancelled.
    cancelled: Vec<DialogId>,
    /// The answers on their way.
    answers: FuturesUnordered<BoxFuture<'static, ()>>,
}

impl Exchange {
    async fn run(&mut self, session: &SessionHandle, job: &Job, console: &Console) -> Result<(), Failure> {
        let mut notices = session.subscribe();
        if job.json {
            console.line(&serde_json::json!({"type": "session", "sessionId": session.id()}).to_string())?;
        }
        let prompt = Prompt::from(job.message.as_str()).or_follow_up();
        let mut done = pin!(async {
            session.prompt(prompt).await?;
            session.wait_for_idle().await
        });
        let mut last_events: Option<Instant> = None;
        loop {
            let limit = async {
                match last_events {
                    Some(at) => sleep_until(at).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                notice = notices.next() => match notice {
                    Some(notice) => {
                        self.take(notice, job, console)?;
                        self.settle_question(session, job, console)?;
                    }
                    None => return Err(link_error(session).into()),
                },
                Some(()) = self.answers.next(), if !self.answers.is_empty() => {}
                result = &mut done, if last_events.is_none() => {
                    result?;
                    last_events = Some(Instant::now() + LAST_EVENTS);
                }
                () = limit => break,
            }
            if self.ended && last_events.is_some() {
                break;
            }
        }
        let answer = session.read(|view| {
            let messages: Vec<&Message> = view.transcript.iter().map(|item| &item.message).collect();
            answer_to(&job.message, &messages).cloned()
        })?;
        let answer = match answer {
            Some(answer) => Some(answer),
            // The stream did not bring it; the file has it.
            None if !self.ended => {
                let messages = session.messages().await?;
                answer_to(&job.message, &messages.iter().collect::<Vec<_>>()).cloned()
            }
            None => None,
        };
        self.ended = true;
        let texts = texts_of(answer)?;
        if !job.json {
            for text in texts {
                console.line(&if console.shown { plain(&text) } else { text })?;
            }
        }
        Ok(())
    }

    /// Answers what our run asks, or leaves it to a person.
    fn settle_question(&mut self, session: &SessionHandle, job: &Job, console: &Console) -> Result<(), Failure> {
        if !self.begun || self.ended {
            return Ok(());
        }
        let Some(dialog) = session.read(|view| questions::asked(view).cloned())? else { return Ok(()) };
        if self.cancelled.contains(&dialog.id) {
            return Ok(());
        }
        if job.questions == Questions::Leave {
            let question = questions::title(&dialog.method);
            let agent = session.agent().to_string();
            return Err(Failure::Waits { agent, session: session.id().to_string(), question });
        }
        console.complain(&questions::cancelled(&dialog.method));
        self.cancelled.push(dialog.id.clone());
        let session = session.clone();
        self.answers.push(Box::pin(async move {
            let answer = DialogAnswer { cancelled: Some(true), ..DialogAnswer::default() };
            // One that is not settled by this is by the end of this program.
            drop(session.respond(&dialog.id, answer).await);
        }));
        Ok(())
    }

    fn take(&mut self, notice: Notice, job: &Job, console: &Console) -> Result<(), Failure> {
        match notice {
            Notice::Event { event, .. } => {
                match &*event {
                    SessionEvent::MessageEnd { message: Message::User(user), .. } if user.content.joined_text() == job.message => {
                        (self.begun, self.ended) = (true, false);
                    }
                    SessionEvent::AgentStart => self.ended = false,
                    SessionEvent::AgentEnd { .. } => self.ended = self.begun,
                    _ => {}
                }
                if job.json {
                    let line = serde_json::to_string(&*event).map_err(|e| Failure::Output(e.into()))?;
                    console.line(&line)?;
                }
            }
            Notice::Unknown { data, .. } if job.json => console.line(&data)?,
            Notice::Missed(count) if job.json => console.complain(&format!("warning: {count} events were too fast for this reader")),
            Notice::Rebuilt if job.json => console.complain("warning: of a time without connection only the messages that ended are told"),
            Notice::Unknown { .. } | Notice::Missed(_) | Notice::Rebuilt => {}
        }
        Ok(())
    }
}

/// Why a stream ended for good.
pub(super) fn link_error(session: &SessionHandle) -> ClientError {
    match &*session.watch_link().borrow() {
        LinkState::Ended(error) => error.clone(),
        LinkState::Connecting | LinkState::Live | LinkState::Waiting { .. } => ClientError::Closed,
    }
}

/// The last answer after the newest message with our words, or if there is none (the daemon may put other words in their place)
/// the last answer of all.
fn answer_to<'a>(prompt: &str, messages: &[&'a Message]) -> Option<&'a AssistantMessage> {
    let ours = |message: &&Message| matches!(message, Message::User(user) if user.content.joined_text() == prompt);
    let start = messages.iter().rposition(ours).map_or(0, |place| place + 1);
    messages.get(start..)?.iter().rev().find_map(|message| match message {
        Message::Assistant(answer) => Some(answer),
        _ => None,
    })
}

/// How an answer failed, if it did.
pub(super) fn failure_of(answer: &AssistantMessage) -> Option<Failure> {
    let reason = |or: &str| answer.error_message.clone().filter(|text| !text.trim().is_empty()).unwrap_or_else(|| or.to_owned());
    match answer.stop_reason {
        StopReason::Error => Some(Failure::Model(reason("Request error"))),
        StopReason::Aborted => Some(Failure::Aborted(reason("Request aborted"))),
        StopReason::Stop | StopReason::Length | StopReason::ToolUse => None,
    }
}

/// The blocks of text in an answer; an answer that failed, or that says nothing, is a failure.
fn texts_of(answer: Option<AssistantMessage>) -> Result<Vec<String>, Failure> {
    let Some(answer) = answer else { return Err(Failure::NoAnswer) };
    if let Some(failure) = failure_of(&answer) {
        return Err(failure);
    }
    let texts: Vec<String> = answer
        .content
        .into_iter()
        .filter_map(|block| match block {
            AssistantBlock::Text(text) if !text.text.is_empty() => Some(text.text),
            AssistantBlock::Text(_) | AssistantBlock::Thinking(_) | AssistantBlock::ToolCall(_) => None,
        })
        .collect();
    if texts.is_empty() { Err(Failure::NoAnswer) } else { Ok(texts) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(json: &str) -> Message {
        serde_json::from_str(json).unwrap()
    }

    fn user(text: &str) -> Message {
        message(&format!(r#"{{"role":"user","content":[{{"type":"text","text":"{text}"}}],"timestamp":1}}"#))
    }

    fn answer(text: &str, stop: &str, error: &str) -> Message {
        message(&format!(
            r#"{{"role":"assistant","content":[{{"type":"thinking","thinking":"hm"}},{{"type":"text","text":"{text}"}}],"api":"a","provider":"p","model":"m",
            "usage":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,"cost":{{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}}},
            "stopReason":"{stop}","timestamp":1{error}}}"#
        ))
    }

    fn result() -> Message {
        message(r#"{"role":"toolResult","toolCallId":"c","toolName":"ls","content":[],"isError":false,"timestamp":1}"#)
    }

    fn said(prompt: &str, messages: &[Message]) -> Result<Vec<String>, String> {
        let all: Vec<&Message> = messages.iter().collect();
        texts_of(answer_to(prompt, &all).cloned()).map_err(|e| e.to_string())
    }

    #[test]
    fn the_answer_is_the_last_one_after_our_words() {
        let stop = |text: &str| answer(text, "stop", "");
        let nothing = Err(Failure::NoAnswer.to_string());
        for (messages, expected) in [
            (vec![user("a"), stop("one"), user("p"), stop("two")], Ok(vec!["two".to_owned()])),
            (vec![user("p"), answer("call", "toolUse", ""), result(), stop("two")], Ok(vec!["two".to_owned()])),
            (vec![user("p"), stop("one"), result()], Ok(vec!["one".to_owned()])),
            (vec![user("p"), stop("old"), user("p"), stop("new")], Ok(vec!["new".to_owned()])),
            (vec![stop("old"), user("p")], nothing.clone()),
            (vec![user("other words"), stop("two")], Ok(vec!["two".to_owned()])),
            (vec![user("p"), stop("")], nothing.clone()),
            (vec![], nothing),
        ] {
            assert_eq!(said("p", &messages), expected, "{messages:?}");
        }
    }

    #[test]
    fn a_failed_answer_is_its_reason() {
        for (stop, error, expected) in [
            ("error", r#","errorMessage":"no credit""#, "no credit"),
            ("error", "", "Request error"),
            ("error", r#","errorMessage":" ""#, "Request error"),
            ("aborted", "", "Request aborted"),
        ] {
            assert_eq!(said("p", &[user("p"), answer("half", stop, error)]), Err(expected.to_owned()));
        }
    }
}
