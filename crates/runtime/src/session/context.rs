//! What the model sees of a session: entries turned into messages. Plain data.

use std::sync::Arc;

use wolli_protocol::entry::EntryBody;
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::{BranchSummaryMessage, CompactionSummaryMessage, CustomMessage, Message};
use wolli_protocol::time::millis_from_iso;

/// One visible message and the entry that it comes from.
#[derive(Clone, Debug)]
pub struct ContextMessage {
    pub entry_id: EntryId,
    pub message: Arc<Message>,
}

/// The message that an entry adds to the context, if it adds one.
pub(crate) fn context_message(entry_id: &EntryId, timestamp: &str, body: &EntryBody) -> Option<ContextMessage> {
    let at = millis_from_iso(timestamp).unwrap_or(0);
    let message = match body {
        EntryBody::Message { message, .. } => message.clone(),
        EntryBody::Compaction { summary, tokens_before, .. } => {
            Message::CompactionSummary(CompactionSummaryMessage { summary: summary.clone(), tokens_before: *tokens_before, timestamp: at })
        }
        EntryBody::BranchSummary { from_id, summary, .. } if !summary.is_empty() => {
            Message::BranchSummary(BranchSummaryMessage { summary: summary.clone(), from_id: from_id.clone(), timestamp: at })
        }
        EntryBody::CustomMessage { custom_type, content, display, details } => Message::Custom(CustomMessage {
            custom_type: custom_type.clone(),
            content: content.clone(),
            display: *display,
            details: details.clone(),
            timestamp: at,
        }),
        EntryBody::BranchSummary { .. }
        | EntryBody::ThinkingLevelChange { .. }
        | EntryBody::ModelChange { .. }
        | EntryBody::ActiveToolsChange { .. }
        | EntryBody::Custom { .. }
        | EntryBody::Label { .. }
        | EntryBody::SessionInfo { .. }
        | EntryBody::Tags { .. }
        | EntryBody::Leaf { .. }
        | EntryBody::Unknown => return None,
    };
    Some(ContextMessage { entry_id: entry_id.clone(), message: Arc::new(message) })
}

/// The messages alone, as a model request takes them.
#[must_use]
pub fn to_model_messages(context: &[ContextMessage]) -> Vec<Arc<Message>> {
    context.iter().map(|item| Arc::clone(&item.message)).collect()
}
