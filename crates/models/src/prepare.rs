//! A stored history as the turns that any provider accepts.
//!
//! Every history is made sendable here, whatever is wrong with it: failed answers are left out, calls and results are
//! paired, blank texts and empty messages vanish, images that cannot be sent become notes, thinking goes only to the model
//! that thought it. Lone surrogates, which JavaScript must strip, cannot occur in a Rust string. The stored history is
//! only borrowed, so it can never be changed here.
//!
//! Not here: the shape of a wire kind.

mod image_limits;
mod image_size;
mod images;
mod pairing;
mod roles;
mod tools;

use std::borrow::Cow;
use std::sync::Arc;

use wolli_protocol::message::{AssistantBlock, AssistantMessage, JsonObject, Message, UserBlock, UserContent};
use wolli_protocol::model::Model;

use crate::refused::{Fingerprint, Known};

pub(crate) use image_limits::ImageLimits;
pub(crate) use images::{ImageRule, REFUSED_NOTE};
pub(crate) use tools::{ToolNames, WireTool, wire_tools};

/// Result of a call whose real result is not in the history.
pub(crate) const NO_RESULT: &str = "No result provided";
/// Stands where a tool returned nothing: an empty result is refused by some providers and puzzles models.
pub(crate) const NO_OUTPUT: &str = "(no output)";
/// Opens a history that would begin with an answer, which no provider takes.
pub(crate) const MISSING_START: &str = "(the beginning of the conversation is not available)";
/// Stands between two answers in a row, and closes a history that ends with one: several providers refuse both. Answers
/// cannot be joined instead, since thinking must stay at the beginning of its own.
pub(crate) const CONTINUE: &str = "(continue)";
/// Stands for a request without anything in it.
pub(crate) const EMPTY_REQUEST: &str = "(empty message)";

/// What a person or a tool says.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part<'a> {
    /// Never blank.
    Text(Cow<'a, str>),
    Image {
        mime_type: &'static str,
        data: &'a str,
    },
}

/// What a model said.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Said<'a> {
    /// Never blank.
    Text(&'a str),
    /// Thinking of the target model itself.
    Thinking {
        text: &'a str,
        signature: Option<&'a str>,
    },
    /// Thinking of the target model itself that only the provider can read.
    Redacted {
        data: &'a str,
    },
    Call {
        id: String,
        name: String,
        arguments: &'a JsonObject,
        thought_signature: Option<&'a str>,
    },
}

/// One turn of the conversation. The first is `User`, the last is not `Assistant`, no two `Assistant`s stand side by side, and the results of an assistant's calls
/// follow it at once, in the order of the calls, one each.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Turn<'a> {
    /// Never empty.
    User(Vec<Part<'a>>),
    /// Has text or a call.
    Assistant(Vec<Said<'a>>),
    /// Never empty.
    Result { call_id: String, name: String, parts: Vec<Part<'a>>, is_error: bool },
}

/// What the target takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules<'a> {
    pub(crate) model: &'a Model,
    pub(crate) images: ImageRule,
    /// Leave all thinking out, also as text: the provider refused it.
    pub(crate) drop_thinking: bool,
    /// What the provider refused before.
    pub(crate) known: &'a Known,
    /// A call id of the model itself as the target takes it; those of other models are made plain besides.
    pub(crate) call_id: fn(&str) -> String,
    /// Longest call id.
    pub(crate) call_id_limit: usize,
}

/// The turns of a history, ready to be written for the target.
pub(crate) fn turns<'a>(history: &'a [Arc<Message>], rules: &Rules<'_>) -> Vec<Turn<'a>> {
    let kept: Vec<&'a Message> = history.iter().map(Arc::as_ref).filter(|message| !is_failure(message)).collect();
    let answers = pairing::answers(&kept);
    let mut ids = pairing::CallIds::new(rules.call_id_limit);
    let mut turns = Vec::with_capacity(kept.len() + 2);
    for (position, message) in kept.iter().enumerate() {
        match message {
            Message::Assistant(answer) => push_answer(&mut turns, answer, rules, &mut ids, |block| {
                answers.get(&(position, block)).and_then(|result| kept.get(*result).copied())
            }),
            // Sent right behind its call; without one it is not sent at all.
            Message::ToolResult(_) => {}
            Message::User(_)
            | Message::BashExecution(_)
            | Message::Custom(_)
            | Message::BranchSummary(_)
            | Message::CompactionSummary(_) => {
                let parts = roles::as_user(message, rules.images);
                if !parts.is_empty() {
                    turns.push(Turn::User(parts));
                }
            }
        }
    }
    if let ImageRule::Send(limits) = &rules.images {
        images::leave_out(&mut turns, |data| rules.known.has(|| Fingerprint::image(&rules.model.provider, data)));
        image_limits::fit(&mut turns, limits);
    }
    close(turns)
}

/// Adds an answer and the results of its calls.
fn push_answer<'a>(
    turns: &mut Vec<Turn<'a>>,
    answer: &'a AssistantMessage,
    rules: &Rules<'_>,
    ids: &mut pairing::CallIds,
    result_of: impl Fn(usize) -> Option<&'a Message>,
) {
    let own = is_own(answer, rules.model);
    // Thinking is one whole: a part of it is refused as well.
    let drop_thinking = rules.drop_thinking
        || (own && signatures(answer).any(|signature| rules.known.has(|| Fingerprint::thinking(&rules.model.provider, signature))));
    let mut said = Vec::with_capacity(answer.content.len());
    let mut results = Vec::new();
    for (block_index, block) in answer.content.iter().enumerate() {
        match block {
            AssistantBlock::Text(text) if text.text.trim().is_empty() => {}
            AssistantBlock::Text(text) => said.push(Said::Text(&text.text)),
            AssistantBlock::Thinking(_) if drop_thinking => {}
            AssistantBlock::Thinking(thinking) => {
                let signature = thinking.thinking_signature.as_deref().filter(|signature| !signature.is_empty());
                let blank = thinking.thinking.trim().is_empty();
                if thinking.redacted == Some(true) {
                    said.extend(signature.filter(|_| own).map(|data| Said::Redacted { data }));
                } else if own && (signature.is_some() || !blank) {
                    said.push(Said::Thinking { text: &thinking.thinking, signature });
                } else if !blank {
                    said.push(Said::Text(&thinking.thinking));
                }
            }
            AssistantBlock::ToolCall(call) => {
                let id = (rules.call_id)(&call.id);
                let id = ids.assign(if own { id } else { plain_id(&id, rules.call_id_limit) });
                let name = tools::wire_name(&call.name);
                results.push(answer_to_call(&id, &name, result_of(block_index), rules));
                let thought_signature = call.thought_signature.as_deref().filter(|_| own);
                said.push(Said::Call { id, name, arguments: &call.arguments, thought_signature });
            }
        }
    }
    if said.iter().any(|block| matches!(block, Said::Text(_) | Said::Call { .. })) {
        if matches!(turns.last(), Some(Turn::Assistant(_))) {
            turns.push(note(CONTINUE));
        }
        turns.push(Turn::Assistant(said));
        turns.append(&mut results);
    }
}

/// Letters, digits, `_` and `-`, at most so many: an id that every provider takes.
pub(crate) fn plain_id(id: &str, longest: usize) -> String {
    id.chars().take(longest).map(|it| if it.is_ascii_alphanumeric() || matches!(it, '_' | '-') { it } else { '_' }).collect()
}

fn is_own(answer: &AssistantMessage, model: &Model) -> bool {
    answer.provider == model.provider && answer.api == model.api && answer.model == model.id
}

fn signatures(answer: &AssistantMessage) -> impl Iterator<Item = &str> {
    answer.content.iter().filter_map(|block| match block {
        AssistantBlock::Thinking(thinking) => thinking.thinking_signature.as_deref().filter(|signature| !signature.is_empty()),
        AssistantBlock::Text(_) | AssistantBlock::ToolCall(_) => None,
    })
}

/// Fingerprints of all thinking, and of all images, that the repairs leave out of a request.
pub(crate) fn left_out(history: &[Arc<Message>], model: &Model, thinking: bool, images: bool) -> Vec<Fingerprint> {
    let mut parts = Vec::new();
    for message in history {
        if let (true, Message::Assistant(answer)) = (thinking, message.as_ref())
            && is_own(answer, model)
        {
            parts.extend(signatures(answer).map(|signature| Fingerprint::thinking(&model.provider, signature)));
        }
        if images {
            parts.extend(images::data(message).map(|data| Fingerprint::image(&model.provider, data)));
        }
    }
    parts
}

fn answer_to_call<'a>(id: &str, name: &str, result: Option<&'a Message>, rules: &Rules<'_>) -> Turn<'a> {
    let (parts, is_error) = match result {
        Some(Message::ToolResult(result)) => {
            let parts = images::parts(&result.content, rules.images, images::Place::ToolResult);
            (if parts.is_empty() { vec![Part::Text(NO_OUTPUT.into())] } else { parts }, result.is_error)
        }
        _ => (vec![Part::Text(NO_RESULT.into())], true),
    };
    Turn::Result { call_id: id.to_owned(), name: name.to_owned(), parts, is_error }
}

fn note(text: &'static str) -> Turn<'static> {
    Turn::User(vec![Part::Text(text.into())])
}

/// Puts notes where a history begins or ends in a way that providers refuse.
fn close(mut turns: Vec<Turn<'_>>) -> Vec<Turn<'_>> {
    if turns.is_empty() {
        return vec![note(EMPTY_REQUEST)];
    }
    if !matches!(turns.first(), Some(Turn::User(_))) {
        turns.insert(0, note(MISSING_START));
    }
    if matches!(turns.last(), Some(Turn::Assistant(_))) {
        turns.push(note(CONTINUE));
    }
    turns
}

/// What a message of a person, or one that is sent in a person's name, says; images are notes. Empty for answers and tool results.
#[must_use]
pub fn spoken_text(message: &Message) -> String {
    let parts = roles::as_user(message, ImageRule::TextOnly);
    let texts: Vec<&str> = parts
        .iter()
        .filter_map(|part| match part {
            Part::Text(text) => Some(text.as_ref()),
            Part::Image { .. } => None,
        })
        .collect();
    texts.join("\n")
}

/// Roughly how many bytes a history takes when it is written.
pub(crate) fn weight(history: &[Arc<Message>]) -> usize {
    let block = |block: &UserBlock| match block {
        UserBlock::Text(text) => text.text.len(),
        UserBlock::Image(image) => image.data.len(),
    };
    let content = |content: &UserContent| match content {
        UserContent::Text(text) => text.len(),
        UserContent::Blocks(blocks) => blocks.iter().map(block).sum(),
    };
    let said = |said: &AssistantBlock| match said {
        AssistantBlock::Text(text) => text.text.len(),
        AssistantBlock::Thinking(thinking) => thinking.thinking.len() + thinking.thinking_signature.as_ref().map_or(0, String::len),
        // Large arguments are long texts on the first level.
        AssistantBlock::ToolCall(call) => call.arguments.values().filter_map(|value| value.as_str()).map(str::len).sum(),
    };
    history
        .iter()
        .map(|message| match message.as_ref() {
            Message::User(user) => content(&user.content),
            Message::Custom(custom) => content(&custom.content),
            Message::Assistant(answer) => answer.content.iter().map(said).sum(),
            Message::ToolResult(result) => result.content.iter().map(block).sum(),
            Message::BashExecution(run) => run.output.len(),
            Message::BranchSummary(branch) => branch.summary.len(),
            Message::CompactionSummary(compaction) => compaction.summary.len(),
        })
        .sum()
}

fn is_failure(message: &Message) -> bool {
    matches!(message, Message::Assistant(answer) if answer.stop_reason.is_failure())
}

/// Text parts of blocks, blank ones left out.
fn text_part(block: &UserBlock) -> Option<Part<'_>> {
    match block {
        UserBlock::Text(text) if !text.text.trim().is_empty() => Some(Part::Text(Cow::Borrowed(&text.text))),
        UserBlock::Text(_) | UserBlock::Image(_) => None,
    }
}

#[cfg(test)]
mod tests;
