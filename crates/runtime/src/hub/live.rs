//! What is being produced right now: the growing message and the running tools.
//!
//! Each step costs time in proportion to what it adds. The parts are shared with the frames that speak of
//! them, so that view `full` can show the whole so far without storing it once per frame.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;
use wolli_protocol::event::{AssistantMessageEvent, ToolResult};
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::{AssistantMessage, UserBlock};
use wolli_protocol::output_tail::OutputTail;
use wolli_protocol::reduce::StreamingMessage;
use wolli_protocol::state::{InFlight, RunningTool};

/// An answer that frames in the ring speak of.
#[derive(Debug)]
pub(super) enum LiveMessage {
    Growing(Box<StreamingMessage>),
    /// It is in the session file under this id; its text is not kept here a second time.
    Stored(EntryId),
}

impl LiveMessage {
    fn growing(&mut self) -> Option<&mut StreamingMessage> {
        match self {
            Self::Growing(message) => Some(message),
            Self::Stored(_) => None,
        }
    }
}

/// A tool while it runs.
#[derive(Debug)]
pub(super) struct LiveTool {
    pub(super) tool_call_id: String,
    pub(super) tool_name: String,
    pub(super) args: Value,
    output: Option<OutputTail>,
}

impl LiveTool {
    pub(super) fn partial_result(&self) -> Option<ToolResult> {
        let output = self.output.as_ref()?;
        let text = output.text();
        let content = if text.is_empty() { Vec::new() } else { vec![UserBlock::text(text)] };
        let details = if text.is_empty() { None } else { Some(Value::Object(serde_json::Map::new())) };
        Some(ToolResult { content, details, terminate: None })
    }
}

/// The growing message, if one grows, and the tools that run.
#[derive(Debug, Default)]
pub(super) struct Live {
    message: Option<Arc<Mutex<LiveMessage>>>,
    tools: Vec<Arc<Mutex<LiveTool>>>,
}

/// A poisoned lock here means a panic in the middle of a fold; the data is still the best there is.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Live {
    pub(super) fn begin_message(&mut self, entry_id: EntryId, message: &AssistantMessage) {
        let message = StreamingMessage::begin(Some(entry_id), message);
        self.message = Some(Arc::new(Mutex::new(LiveMessage::Growing(Box::new(message)))));
    }

    pub(super) fn update_message(&mut self, event: &AssistantMessageEvent) -> Option<Arc<Mutex<LiveMessage>>> {
        let message = self.message.clone()?;
        lock(&message).growing()?.apply(event, None);
        Some(message)
    }

    /// `stored` is the entry that holds the message now, if it could be written.
    pub(super) fn end_message(&mut self, stored: Option<&EntryId>) {
        if let (Some(message), Some(entry_id)) = (self.message.take(), stored) {
            *lock(&message) = LiveMessage::Stored(entry_id.clone());
        }
    }

    pub(super) fn begin_tool(&mut self, tool_call_id: String, tool_name: String, args: Value) {
        self.tools.push(Arc::new(Mutex::new(LiveTool { tool_call_id, tool_name, args, output: None })));
    }

    pub(super) fn update_tool(&mut self, tool_call_id: &str, appended: &str, skipped: u64) -> Option<Arc<Mutex<LiveTool>>> {
        let tool = self.tools.iter().find(|tool| lock(tool).tool_call_id == tool_call_id)?.clone();
        lock(&tool).output.get_or_insert_with(OutputTail::default).push(appended, skipped);
        Some(tool)
    }

    pub(super) fn end_tool(&mut self, tool_call_id: &str) {
        self.tools.retain(|tool| lock(tool).tool_call_id != tool_call_id);
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// What `hello` tells a reader that was not there from the start; `None` when nothing is being produced.
    pub(super) fn in_flight(&self) -> Option<InFlight> {
        if self.message.is_none() && self.tools.is_empty() {
            return None;
        }
        let mut in_flight = InFlight::default();
        let mut message = self.message.as_ref().map(|message| lock(message));
        if let Some(message) = message.as_mut().and_then(|message| message.growing()) {
            in_flight.entry_id.clone_from(&message.entry_id);
            in_flight.message = Some(message.message());
            in_flight.argument_texts = message.argument_texts();
        }
        drop(message);
        for tool in &self.tools {
            let tool = lock(tool);
            in_flight.tools.push(RunningTool {
                tool_call_id: tool.tool_call_id.clone(),
                tool_name: tool.tool_name.clone(),
                args: tool.args.clone(),
                partial_result: tool.partial_result(),
            });
        }
        Some(in_flight)
    }
}
