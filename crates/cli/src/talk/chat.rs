//! A chat of lines: what is typed goes to the session, what happens in the session is shown.
//!
//! Invariants: whatever any client says or the agent does appears once, in order, over broken connections too; nothing here waits for
//! a command, so Ctrl+C always works. Without a terminal the lines of stdin are given one after the other, each when the
//! one before is done with. Not here: how things look ([`render`](super::render)).

mod dialog;
mod line;
mod login;
mod requests;

use std::collections::VecDeque;
use std::future::pending;
use std::io;
use std::time::Duration;

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};
use wolli_client::{Agent, ClientError, LinkState, Notice, Prompt, SessionHandle, Subscription};
use wolli_protocol::dialog::{DialogAnswer, DialogMethod, DialogRequest};
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::{DialogId, EntryId};
use wolli_protocol::message::Message;
use wolli_protocol::state::WaitingKind;

use super::connect::{self, Which};
use super::echo::Echo;
use super::input;
use super::print::{failure_of, link_error};
use super::questions;
use super::render::{Renderer, plain};
use super::signals::{Signals, Stop};
use crate::console::Console;
use crate::failure::Failure;
use dialog::Shown;
use line::{DEPLOY_PROMPT, HELP, LOGIN_HINT, Line};

/// What a new agent says first.
const BIRTH_OPENER: &str = "What is my purpose?";
/// The daemon says "idle" on one connection and the last events on another; how long these may take after that.
const LAST_EVENTS: Duration = Duration::from_secs(5);

/// A command that was sent, when its answer is there.
enum Done {
    Prompt(Result<(), ClientError>),
    /// Text to show.
    Text(Result<String, ClientError>),
    /// Another session takes the place of this one.
    Session(Result<SessionHandle, ClientError>),
    Aborted(Result<(), ClientError>),
    /// A login has ended, with what to say about it.
    LoggedIn(Result<String, ClientError>),
}

/// What the next line answers.
enum Question {
    Daemon(DialogRequest),
    Deploy,
}

struct Chat<'a> {
    console: &'a Console,
    agent: Agent,
    session: SessionHandle,
    notices: Subscription,
    link: watch::Receiver<LinkState>,
    renderer: Renderer,
    /// The newest entry that is on the screen.
    last_entry: Option<EntryId>,
    running: bool,
    /// The connection was lost, and that has been said.
    lost: bool,
    /// Ctrl+C was pressed once in this run.
    stopping: bool,
    /// A login of ours goes on.
    logging_in: bool,
    questions: VecDeque<Question>,
    echo: Echo,
    /// Questions that were answered as cancelled, since nobody is at the keyboard.
    cancelled: Vec<DialogId>,
    commands: FuturesUnordered<BoxFuture<'static, Done>>,
    /// The end of the run with our prompt was not seen yet, although the daemon is idle; wait until then.
    last_events: Option<Instant>,
    /// A run has ended since the last prompt.
    ended: bool,
    /// The newest answer failed, like this.
    failed: Option<Failure>,
    /// The agent has described itself and may be deployed.
    deployable: bool,
}

/// Opens the session and chats in it until somebody leaves.
pub(crate) async fn run(agent: Agent, which: Which, console: &Console) -> Result<(), Failure> {
    let mut signals = Signals::new().map_err(Failure::Start)?;
    let session = tokio::select! {
        biased;
        stop = signals.next() => return Err(stopped(stop)),
        session = connect::open(&agent, which) => session?,
    };
    let (notices, link) = (session.subscribe(), session.watch_link());
    let mut chat = Chat {
        console,
        agent,
        session,
        notices,
        link,
        renderer: Renderer::new(console.styled),
        last_entry: None,
        running: false,
        lost: false,
        stopping: false,
        logging_in: false,
        questions: VecDeque::new(),
        echo: Echo::default(),
        cancelled: Vec::new(),
        commands: FuturesUnordered::new(),
        last_events: None,
        ended: false,
        failed: None,
        deployable: false,
    };
    chat.open().await?;
    let lines = input::lines().map_err(Failure::Start)?;
    chat.go_on(lines, signals).await
}

fn stopped(stop: Stop) -> Failure {
    match stop {
        Stop::Interrupt => Failure::Interrupted,
        Stop::Terminate => Failure::Terminated,
    }
}

impl Chat<'_> {
    async fn go_on(&mut self, lines: mpsc::Receiver<io::Result<String>>, mut signals: Signals) -> Result<(), Failure> {
        let mut lines = Some(lines);
        loop {
            let wants_line = self.console.interactive || !self.is_busy();
            if lines.is_none() && wants_line {
                return self.leave();
            }
            self.update_echo();
            self.show_marker()?;
            let next_line = async {
                match &mut lines {
                    Some(lines) if wants_line => lines.recv().await,
                    Some(_) | None => pending().await,
                }
            };
            let limit = async {
                match self.last_events {
                    Some(at) => sleep_until(at).await,
                    None => pending().await,
                }
            };
            tokio::select! {
                biased;
                stop = signals.next() => {
                    if stop == Stop::Terminate || !self.interrupt()? {
                        return self.end(stop);
                    }
                }
                notice = self.notices.next() => match notice {
                    Some(notice) => {
                        self.take(notice)?;
                        self.cancel_question()?;
                    }
                    None => return Err(link_error(&self.session).into()),
                },
                Ok(()) = self.link.changed() => self.take_link()?,
                Some(done) = self.commands.next(), if !self.commands.is_empty() => self.take_done(done)?,
                () = limit => self.last_events = None,
                line = next_line => match line {
                    Some(Ok(line)) => {
                        if !self.take_line(&line)? {
                            return Ok(());
                        }
                    }
                    Some(Err(e)) => return Err(Failure::Stdin(e)),
                    None => lines = None,
                },
            }
        }
    }

    /// Something is under way that the next line of a script waits for.
    fn is_busy(&self) -> bool {
        !self.commands.is_empty() || self.last_events.is_some()
    }

    /// What a login asks for is not shown as it is typed.
    fn update_echo(&mut self) {
        let asks = matches!(self.questions.front(), Some(Question::Daemon(dialog)) if matches!(dialog.method, DialogMethod::Input { .. }));
        let secret = asks && (self.logging_in || self.waits_for(WaitingKind::Login));
        self.echo.hide(secret && self.console.interactive);
    }

    fn waits_for(&self, kind: WaitingKind) -> bool {
        self.session.read(|view| view.waiting.as_ref().is_some_and(|waiting| waiting.kind == kind)).unwrap_or(false)
    }

    /// What our run asks a script: nobody will answer, so it is cancelled rather than waited for.
    fn cancel_question(&mut self) -> Result<(), Failure> {
        if self.console.interactive || !self.is_busy() {
            return Ok(());
        }
        let Some(dialog) = self.session.read(|view| questions::asked(view).cloned())? else { return Ok(()) };
        if !self.cancelled.contains(&dialog.id) {
            self.console.complain(&questions::cancelled(&dialog.method));
            self.cancelled.push(dialog.id.clone());
            let answer = DialogAnswer { cancelled: Some(true), ..DialogAnswer::default() };
            self.ask_daemon(|session| async move { session.respond(&dialog.id, answer).await.map(|_| String::new()) });
        }
        Ok(())
    }

    fn show(&self, text: &str) -> Result<(), Failure> {
        if text.is_empty() { Ok(()) } else { Ok(self.console.print(text)?) }
    }

    fn note(&mut self, text: &str) -> Result<(), Failure> {
        let text = self.renderer.note(text);
        self.show(&text)
    }

    fn tell(&mut self, text: &str) -> Result<(), Failure> {
        let text = self.renderer.lines(text);
        self.show(&text)
    }

    fn error(&mut self, text: &str) -> Result<(), Failure> {
        let text = self.renderer.error(text);
        self.show(&text)
    }

    /// Invites the person to type, when it is their turn.
    fn show_marker(&mut self) -> Result<(), Failure> {
        if !self.console.interactive || self.running || !self.commands.is_empty() {
            return Ok(());
        }
        let text = self.renderer.marker();
        self.show(&text)
    }

    /// The end of input.
    fn leave(&mut self) -> Result<(), Failure> {
        let text = self.renderer.close();
        self.show(&text)?;
        match self.failed.take() {
            // A script wants to know; a person has seen it.
            Some(failure) if !self.console.interactive => Err(failure),
            Some(_) | None => Ok(()),
        }
    }

    fn end(&mut self, stop: Stop) -> Result<(), Failure> {
        let text = self.renderer.close();
        self.show(&text)?;
        // In a terminal Ctrl+C is a way to leave as good as any.
        if stop == Stop::Interrupt && self.console.interactive { Ok(()) } else { Err(stopped(stop)) }
    }

    /// Ctrl+C: stops what goes on. False if nothing does, or if that was asked for before.
    fn interrupt(&mut self) -> Result<bool, Failure> {
        if self.stopping || !(self.running || self.is_busy()) {
            return Ok(false);
        }
        self.abort()?;
        Ok(true)
    }

    fn abort(&mut self) -> Result<(), Failure> {
        self.stopping = true;
        self.note("(stopping)")?;
        let session = self.session.clone();
        let (login, run) = (self.logging_in, self.running || !self.logging_in);
        // One that was asked for is no run.
        let compaction = self.waits_for(WaitingKind::Compaction);
        self.send(async move {
            let cancelled = if login { session.login_cancel().await } else { Ok(()) };
            let stopped = if compaction { session.abort_compaction().await } else { Ok(()) };
            let aborted = if run { session.abort().await.map(drop) } else { Ok(()) };
            Done::Aborted(cancelled.and(stopped).and(aborted))
        });
        Ok(())
    }

    fn send(&self, command: impl Future<Output = Done> + Send + 'static) {
        self.commands.push(command.boxed());
    }

    /// The first look at a session: who this is, what was said last, and what is being said.
    async fn open(&mut self) -> Result<(), Failure> {
        let state = self.session.read(|view| view.state.clone())?;
        let model = state.model.as_ref().map_or_else(|| "no model".to_owned(), |model| format!("{}/{}", model.provider, model.id));
        self.note(&format!("({}: {model}, session {})", self.agent.name(), state.session_id))?;
        if state.confinement.as_deref() == Some("none") {
            self.note("(commands of this agent run with your own rights)")?;
        }
        for complaint in connect::complaints(&self.session).await {
            self.note(&plain(&complaint))?;
        }
        if self.console.interactive {
            self.note("(/help says what can be typed)")?;
        }
        // What is said at this moment comes from the stream; the history would tell a part of it again.
        if !state.is_streaming && state.message_count > 0 && self.console.interactive {
            let messages = self.session.messages().await?;
            let start = messages.iter().rposition(|message| matches!(message, Message::User(_))).unwrap_or_default();
            let text: String = messages.iter().skip(start).map(|message| self.renderer.message(message)).collect();
            self.show(&text)?;
        } else if state.message_count == 0 && self.console.interactive && self.is_forming() {
            let opener = self.session.seed_assistant_message(BIRTH_OPENER).await?;
            let text = self.renderer.message(&Message::Assistant(opener));
            self.show(&text)?;
        }
        self.catch_up(true)
    }

    fn is_forming(&self) -> bool {
        let deployed = self.agent.state().and_then(|state| Some(state.config.get("deployedAt")?.as_str()?.to_owned()));
        deployed.is_none_or(|at| at.is_empty())
    }

    /// Shows what is in the view and not on the screen, and goes on from there. The view and the notices after it are taken in
    /// one step: the stream's task runs on this very thread, and so not in between.
    fn catch_up(&mut self, first: bool) -> Result<(), Failure> {
        self.notices = self.session.subscribe();
        let last = self.last_entry.clone();
        let (missed, in_flight, dialogs, running) = self.session.read(|view| {
            let shown = last.as_ref().and_then(|last| view.transcript.iter().rposition(|item| item.entry_id.as_ref() == Some(last)));
            let missed = match (shown, first) {
                (Some(place), _) => Some(view.transcript.iter().skip(place + 1).cloned().collect::<Vec<_>>()),
                (None, true) => Some(Vec::new()),
                (None, false) => None,
            };
            let in_flight = view.in_flight.as_ref().map(|streaming| streaming.message());
            (missed, in_flight, view.dialogs.clone(), view.state.is_streaming)
        })?;
        match missed {
            Some(items) => {
                for item in items {
                    let text = self.renderer.message(&item.message);
                    self.show(&text)?;
                    self.last_entry = item.entry_id;
                }
            }
            None => self.note("(a part of what happened meanwhile is not shown)")?,
        }
        if let Some(message) = in_flight {
            let mut text = self.renderer.close();
            text.push_str(&self.renderer.in_flight(&message));
            self.show(&text)?;
        }
        self.questions.retain(|question| matches!(question, Question::Deploy));
        for dialog in dialogs {
            self.ask(dialog)?;
        }
        if self.running && !running {
            self.run_ended();
        }
        self.running = running;
        Ok(())
    }

    fn take(&mut self, notice: Notice) -> Result<(), Failure> {
        let event = match notice {
            Notice::Event { event, .. } => event,
            Notice::Unknown { .. } => return Ok(()),
            Notice::Rebuilt | Notice::Missed(_) => return self.catch_up(false),
        };
        let text = self.renderer.event(&event);
        self.show(&text)?;
        match &*event {
            SessionEvent::AgentStart => self.running = true,
            SessionEvent::AgentEnd { .. } => {
                self.running = false;
                self.run_ended();
                if self.deployable && self.console.interactive {
                    self.deployable = false;
                    self.questions.push_back(Question::Deploy);
                    self.note(&format!("Deploy \"{}\"? y or n:", self.agent.name()))?;
                }
            }
            SessionEvent::MessageEnd { message, entry_id } => {
                if entry_id.is_some() {
                    self.last_entry.clone_from(entry_id);
                }
                if let Message::Assistant(answer) = message {
                    self.failed = failure_of(answer);
                }
            }
            SessionEvent::ToolExecutionEnd { tool_name, result, is_error: false, .. } if tool_name == "deploy" => {
                let applied = result.details.as_ref().and_then(|details| details.get("applied")?.as_bool());
                self.deployable = applied.unwrap_or(true);
            }
            SessionEvent::ExtensionUiRequest(request) => self.ask(request.clone())?,
            SessionEvent::LoginUiRequest(request) => self.ask(request.as_dialog())?,
            SessionEvent::ExtensionUiResolved(resolved) => {
                let open = self.questions.len();
                self.questions.retain(|question| !matches!(question, Question::Daemon(dialog) if dialog.id == resolved.id));
                if self.questions.len() < open {
                    self.note("(this question needs no answer any more)")?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn run_ended(&mut self) {
        self.ended = true;
        self.stopping = false;
        self.last_events = None;
    }

    fn take_link(&mut self) -> Result<(), Failure> {
        let state = self.link.borrow_and_update().clone();
        match state {
            LinkState::Waiting { problem, .. } if !self.lost => {
                self.lost = true;
                self.note(&format!("(connection lost, trying again: {problem})"))
            }
            LinkState::Live if self.lost => {
                self.lost = false;
                self.note("(connected again)")
            }
            LinkState::Ended(error) => Err(error.into()),
            LinkState::Connecting | LinkState::Live | LinkState::Waiting { .. } => Ok(()),
        }
    }

    fn take_done(&mut self, done: Done) -> Result<(), Failure> {
        match done {
            Done::Prompt(Ok(())) => {
                if !self.console.interactive && !self.ended {
                    self.last_events = Some(Instant::now() + LAST_EVENTS);
                }
                Ok(())
            }
            Done::Prompt(Err(error)) => {
                self.renderer.refused();
                self.failed = Some(error.clone().into());
                self.error(&format!("Error: {error}"))
            }
            Done::Text(Ok(text)) => self.tell(&text),
            Done::Session(Ok(session)) => {
                self.link = session.watch_link();
                self.session = session;
                self.last_entry = None;
                self.note(&format!("(session {})", self.session.id()))?;
                self.catch_up(true)
            }
            Done::Aborted(Ok(())) => Ok(()),
            Done::LoggedIn(result) => {
                self.logging_in = false;
                self.take_done(Done::Text(result))
            }
            Done::Text(Err(error)) | Done::Session(Err(error)) | Done::Aborted(Err(error)) => {
                self.stopping = false;
                self.error(&format!("Error: {error}"))
            }
        }
    }

    fn ask(&mut self, dialog: DialogRequest) -> Result<(), Failure> {
        match dialog::show(&dialog.method) {
            Shown::Question(text) => {
                self.questions.push_back(Question::Daemon(dialog));
                // Before anybody can begin to type.
                self.update_echo();
                self.tell(&text)
            }
            Shown::Remark(text) => self.note(&text),
            Shown::Nothing => Ok(()),
        }
    }

    /// What was typed. False to leave.
    fn take_line(&mut self, text: &str) -> Result<bool, Failure> {
        if self.console.interactive {
            self.renderer.entered();
            if let Some(question) = self.questions.pop_front() {
                return self.answer(question, text).map(|()| true);
            }
        }
        match Line::parse(text) {
            Line::Nothing => {}
            Line::Quit => return Ok(false),
            Line::Help => self.tell(HELP)?,
            Line::Login(Some(_)) if !self.console.interactive => self.tell(LOGIN_HINT)?,
            Line::Login(wanted) => {
                let session = self.session.clone();
                self.logging_in = wanted.is_some();
                self.send(async move { Done::LoggedIn(login::login(&session, wanted).await) });
            }
            Line::Logout(wanted) => {
                let session = self.session.clone();
                self.send(async move { Done::Text(login::logout(&session, wanted).await) });
            }
            Line::Abort => self.abort()?,
            Line::Prompt(text) => self.prompt(text),
            Line::Deploy if !self.is_forming() => self.note("Already deployed.")?,
            Line::Deploy => self.prompt(DEPLOY_PROMPT.to_owned()),
            Line::New => {
                let agent = self.agent.clone();
                self.send(async move { Done::Session(requests::new_session(&agent).await) });
            }
            Line::Sessions(Some(typed)) => {
                let agent = self.agent.clone();
                self.send(async move { Done::Session(requests::switch(&agent, &typed).await) });
            }
            Line::Sessions(None) => {
                let agent = self.agent.clone();
                self.send(async move { Done::Text(requests::sessions(&agent).await) });
            }
            Line::Model(wanted) => self.ask_daemon(|session| async move { requests::model(&session, wanted).await }),
            Line::Thinking(wanted) => self.ask_daemon(|session| async move { requests::thinking(&session, wanted).await }),
            Line::Compact(instructions) => self.ask_daemon(|session| async move { requests::compact(&session, instructions).await }),
            Line::Reload if self.running => self.note("The agent is at work; /reload when it is done.")?,
            Line::Reload => self.ask_daemon(|session| async move { requests::reload(&session).await }),
            Line::Rename(None) => self.note("Which name? /rename <name>")?,
            Line::Rename(Some(name)) => self.ask_daemon(|session| async move { requests::rename(&session, &name).await }),
            Line::Usage => self.ask_daemon(|session| async move { requests::usage(&session).await }),
        }
        Ok(true)
    }

    /// Sends a command whose answer is shown as text.
    fn ask_daemon<F>(&self, ask: impl FnOnce(SessionHandle) -> F)
    where
        F: Future<Output = Result<String, ClientError>> + Send + 'static,
    {
        let answer = ask(self.session.clone());
        self.send(async move { Done::Text(answer.await) });
    }

    fn prompt(&mut self, text: String) {
        let session = self.session.clone();
        let prompt = Prompt::from(text.as_str());
        self.ended = false;
        if self.console.interactive {
            self.renderer.typed(&text);
            self.send(async move { Done::Prompt(session.prompt(prompt.or_steer()).await) });
        } else {
            // A script's next line waits until this one is done with.
            self.send(async move {
                let accepted = session.prompt(prompt.or_follow_up()).await;
                Done::Prompt(match accepted {
                    Ok(()) => session.wait_for_idle().await,
                    Err(error) => Err(error),
                })
            });
        }
    }

    fn answer(&mut self, question: Question, text: &str) -> Result<(), Failure> {
        match question {
            Question::Deploy if matches!(text.trim().to_lowercase().as_str(), "y" | "yes") => {
                let agent = self.agent.clone();
                self.send(async move { Done::Session(requests::deploy(&agent).await) });
                Ok(())
            }
            Question::Deploy => self.note("Deploy cancelled — keep forming, or /deploy when ready."),
            Question::Daemon(dialog) => match dialog::answer(&dialog.method, text) {
                Ok(answer) => {
                    let session = self.session.clone();
                    self.send(async move {
                        let receipt = session.respond(&dialog.id, answer).await;
                        Done::Text(receipt.map(|receipt| match receipt.applied {
                            Some(false) => format!("({})\n", receipt.reason.as_deref().unwrap_or("the answer came too late")),
                            Some(true) | None => String::new(),
                        }))
                    });
                    Ok(())
                }
                Err(hint) => {
                    self.questions.push_front(Question::Daemon(dialog));
                    self.note(hint)
                }
            },
        }
    }
}
