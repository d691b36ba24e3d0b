//! Rules that hold for the frames of every session: their order and their shapes.

use serde_json::Value;

/// How frames are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    Delta,
    Full,
}

/// Types of the frames, repeated ones once.
pub(crate) fn types(frames: &[Value]) -> Vec<String> {
    let mut types: Vec<String> = frames.iter().map(kind).collect();
    types.dedup();
    types
}

fn kind(frame: &Value) -> String {
    frame["type"].as_str().unwrap_or("?").to_owned()
}

/// Names of an object's fields, in their order.
fn fields(value: &Value) -> Vec<&str> {
    value.as_object().map(|object| object.keys().map(String::as_str).collect()).unwrap_or_default()
}

/// Messages whose end the frames tell, in order.
pub(crate) fn ended_messages(frames: &[Value]) -> Vec<Value> {
    frames.iter().filter(|frame| frame["type"] == "message_end").map(|frame| frame["message"].clone()).collect()
}

/// Entry ids of the messages whose end the frames tell, in order.
pub(crate) fn ended_ids(frames: &[Value]) -> Vec<String> {
    let ended = frames.iter().filter(|frame| frame["type"] == "message_end");
    ended.filter_map(|frame| Some(frame["entryId"].as_str()?.to_owned())).collect()
}

/// Where one stream of frames stands.
#[derive(Debug, Default)]
struct Order {
    run: bool,
    turn: bool,
    /// Role of the message that has begun.
    message: Option<String>,
    /// Kind and index of each block that has begun and not ended.
    open: Vec<(String, u64)>,
    blocks: u64,
    /// The provider of this answer ends all blocks together, at the end of its stream.
    ends_together: bool,
    /// Tool calls of the last answer, in order.
    calls: Vec<String>,
    started: usize,
    ended: Vec<String>,
    results: usize,
}

/// Checks that the frames of whole runs come in the order that clients rely on.
#[track_caller]
pub(crate) fn check_order(frames: &[Value]) {
    let mut order = Order::default();
    for (number, frame) in frames.iter().enumerate() {
        if let Err(broken) = order.take(frame) {
            let before = &frames[number.saturating_sub(6)..=number];
            panic!("{broken} at frame {number}: {before:#?}");
        }
    }
    assert!(!order.run, "the last run has no end: {:?}", types(frames));
}

impl Order {
    fn take(&mut self, frame: &Value) -> Result<(), &'static str> {
        let must = |condition: bool, rule: &'static str| if condition { Ok(()) } else { Err(rule) };
        let kind = kind(frame);
        match kind.as_str() {
            "agent_start" => {
                must(!self.run, "a run begins inside another")?;
                *self = Self { run: true, ..Self::default() };
            }
            "agent_end" => {
                must(self.run && !self.turn && self.message.is_none(), "a run ends in the middle of a turn")?;
                self.run = false;
            }
            "turn_start" => {
                must(self.run && !self.turn, "a turn begins outside of a run or inside another")?;
                *self = Self { run: true, turn: true, ..Self::default() };
            }
            "turn_end" => {
                must(self.turn && self.message.is_none(), "a turn ends in the middle of a message")?;
                must(self.ended.len() == self.started, "a turn ends before its tools")?;
                must(self.results == self.started, "a turn ends without all tool results")?;
                let named = frame["toolResults"].as_array().map_or(0, Vec::len);
                must(named == self.results, "a turn names other tool results than it had")?;
                self.turn = false;
            }
            "message_start" => self.message_start(frame)?,
            "message_update" => self.update(&frame["assistantMessageEvent"])?,
            "message_end" => self.message_end(frame)?,
            "tool_execution_start" => {
                must(self.turn && self.message.is_none(), "a tool starts inside a message")?;
                let id = frame["toolCallId"].as_str().unwrap_or_default();
                must(self.calls.get(self.started).is_some_and(|next| next == id), "tools do not start in the order of their calls")?;
                self.started += 1;
            }
            "tool_execution_update" | "tool_execution_end" => {
                let id = frame["toolCallId"].as_str().unwrap_or_default().to_owned();
                must(self.calls[..self.started].contains(&id), "a tool that did not start tells something")?;
                must(!self.ended.contains(&id), "a tool tells something after its end")?;
                if kind == "tool_execution_end" {
                    self.ended.push(id);
                }
            }
            "queue_update" | "model_update" | "thinking_level_update" | "scoped_models_update" => {}
            _ => return Err("a frame that nobody asked for"),
        }
        Ok(())
    }

    fn message_start(&mut self, frame: &Value) -> Result<(), &'static str> {
        if !self.turn || self.message.is_some() {
            return Err("a message begins outside of a turn or inside another");
        }
        let message = &frame["message"];
        let role = message["role"].as_str().unwrap_or_default().to_owned();
        if role == "toolResult" {
            let id = message["toolCallId"].as_str().unwrap_or_default().to_owned();
            if self.calls.get(self.results) != Some(&id) || !self.ended.contains(&id) {
                return Err("tool results do not come in the order of the calls, after their tools");
            }
            self.results += 1;
        }
        self.open.clear();
        self.blocks = 0;
        self.ends_together = message["api"] == "openai-completions";
        self.message = Some(role);
        Ok(())
    }

    fn update(&mut self, step: &Value) -> Result<(), &'static str> {
        if self.message.as_deref() != Some("assistant") {
            return Err("an update without an answer");
        }
        let kind = step["type"].as_str().unwrap_or_default();
        let index = step["contentIndex"].as_u64().unwrap_or(u64::MAX);
        let Some((block, what)) = kind.rsplit_once('_') else { return Err("an update of no kind") };
        let this = (block.to_owned(), index);
        let is_open = self.open.contains(&this);
        match what {
            "start" if index == self.blocks && (self.open.is_empty() || self.ends_together) => {
                self.open.push(this);
                self.blocks += 1;
            }
            "delta" if is_open => {}
            "end" if is_open => self.open.retain(|open| *open != this),
            _ => return Err("blocks do not nest"),
        }
        Ok(())
    }

    fn message_end(&mut self, frame: &Value) -> Result<(), &'static str> {
        let message = &frame["message"];
        if self.message.take().as_deref() != message["role"].as_str() {
            return Err("another message ends than began");
        }
        if message["role"] == "assistant" {
            let failed = matches!(message["stopReason"].as_str(), Some("error" | "aborted"));
            if !self.open.is_empty() && !failed {
                return Err("an answer ends in the middle of a block");
            }
            let calls = message["content"].as_array().into_iter().flatten().filter(|block| block["type"] == "toolCall");
            self.calls = if failed { Vec::new() } else { calls.map(|call| call["id"].as_str().unwrap_or_default().to_owned()).collect() };
            (self.started, self.results) = (0, 0);
            self.ended.clear();
        }
        Ok(())
    }
}

/// Checks the fields of every frame, and their order.
#[track_caller]
pub(crate) fn check_shapes(frames: &[Value], view: View) {
    for frame in frames {
        let full = view == View::Full;
        let expected: &[&str] = match kind(frame).as_str() {
            "agent_start" | "turn_start" => &["type"],
            "agent_end" => &["type", "messages"],
            "turn_end" => &["type", "message", "toolResults"],
            "message_start" | "message_end" => &["type", "message", "entryId"],
            "message_update" if full => &["type", "assistantMessageEvent", "message"],
            "message_update" => &["type", "assistantMessageEvent"],
            "tool_execution_start" => &["type", "toolCallId", "toolName", "args"],
            "tool_execution_update" if full => &["type", "toolCallId", "toolName", "args", "partialResult"],
            "tool_execution_update" => &["type", "toolCallId", "toolName", "appended"],
            "tool_execution_end" => &["type", "toolCallId", "toolName", "result", "isError"],
            "queue_update" => &["type", "steer", "followUp", "nextTurn"],
            other => panic!("a frame of type {other}"),
        };
        assert_eq!(fields(frame), expected, "{view:?}: {frame}");
        check_references(frame, view);
        if frame["type"] == "message_update" {
            check_step(&frame["assistantMessageEvent"], &frame["message"], view);
        }
    }
}

/// Ends of turns and runs hold whole messages in view `full`, and entry ids in view `delta`.
#[track_caller]
fn check_references(frame: &Value, view: View) {
    let lists = [&frame["messages"], &frame["toolResults"]].into_iter().filter_map(Value::as_array).flatten();
    let single = (frame["type"] == "turn_end").then_some(&frame["message"]);
    for message in lists.chain(single) {
        match view {
            View::Delta => assert_eq!(fields(message), ["entryId"], "{frame}"),
            View::Full => assert!(message["role"].is_string() && message["content"].is_array(), "{frame}"),
        }
    }
}

#[track_caller]
fn check_step(step: &Value, message: &Value, view: View) {
    let kind = step["type"].as_str().unwrap_or_default();
    let mut expected = vec!["type", "contentIndex"];
    expected.extend(match (kind, view) {
        ("text_start" | "thinking_start", _) | ("toolcall_start", View::Full) => &[][..],
        ("toolcall_start", View::Delta) => &["toolCallId", "toolName"],
        ("text_delta" | "thinking_delta" | "toolcall_delta", _) => &["delta"],
        ("text_end" | "thinking_end", _) => &["content"],
        ("toolcall_end", _) => &["toolCall"],
        _ => panic!("a step of type {kind}"),
    });
    if view == View::Full {
        expected.push("partial");
        assert_eq!(&step["partial"], message);
        assert_eq!(message["role"], "assistant", "{message}");
        let index = step["contentIndex"].as_u64().unwrap_or(u64::MAX);
        assert!(message["content"].as_array().is_some_and(|blocks| (blocks.len() as u64) > index), "{step}");
    }
    assert_eq!(fields(step), expected, "{view:?}: {step}");
}
