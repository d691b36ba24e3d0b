//! What a session's entries say about it. Pure.

use std::fmt::Write as _;

use serde_json::{Value, json};
use wolli_protocol::entry::{Entry, EntryBody};
use wolli_protocol::message::Message;
use wolli_protocol::state::SessionSummary;

/// What `wolli sessions show` tells.
#[derive(Debug, Default)]
pub(super) struct Facts {
    /// `provider/id` of the newest answer, or of the newest change.
    model: Option<String>,
    /// ISO time of the newest entry.
    updated: Option<String>,
    pub(super) messages: Vec<Message>,
    /// Where the newest prompt is in them.
    pub(super) last_prompt: Option<usize>,
    prompts: usize,
    compactions: usize,
}

impl Facts {
    /// Of the entries of the active branch, oldest first.
    pub(super) fn of(entries: &[Entry]) -> Self {
        let mut facts = Self { updated: entries.last().map(|entry| entry.timestamp.clone()), ..Self::default() };
        for entry in entries {
            match &entry.body {
                EntryBody::ModelChange { provider, model_id } => facts.model = Some(format!("{provider}/{model_id}")),
                EntryBody::Compaction { .. } => facts.compactions += 1,
                _ => {}
            }
            let Some(message) = super::message(entry) else { continue };
            match &message {
                Message::User(_) => {
                    facts.prompts += 1;
                    facts.last_prompt = Some(facts.messages.len());
                }
                // What was seeded has no model.
                Message::Assistant(answer) if !answer.provider.is_empty() && answer.usage.total_tokens > 0 => {
                    facts.model = Some(format!("{}/{}", answer.provider, answer.model));
                }
                _ => {}
            }
            facts.messages.push(message);
        }
        facts
    }

    /// A name and a value each; facts that are not there are left out.
    pub(super) fn rows(&self, session: &SessionSummary, state: &str) -> Vec<[String; 2]> {
        let count = |count: usize, one: &str| format!("{count} {one}{}", if count == 1 { "" } else { "s" });
        let mut messages = format!("{} ({})", self.messages.len(), count(self.prompts, "prompt"));
        if self.compactions > 0 {
            let _ = write!(messages, ", compacted {}", count(self.compactions, "time"));
        }
        let tags: Vec<String> = session.tags.iter().map(|(tag, value)| format!("{tag}={value}")).collect();
        let rows = [
            ("session", Some(session.session_id.to_string())),
            ("name", session.session_name.clone()),
            ("state", Some(state.to_owned())),
            ("model", self.model.clone()),
            ("created", session.created_at.clone()),
            ("updated", self.updated.clone()),
            ("messages", Some(messages)),
            ("tags", Some(tags.join(" ")).filter(|tags| !tags.is_empty())),
        ];
        let shown = |(name, value): (&str, Option<String>)| Some([name.to_owned(), super::one_line(&value?)]);
        rows.into_iter().filter_map(shown).collect()
    }

    pub(super) fn to_json(&self, agent: &str, session: &SessionSummary) -> Value {
        let mut value = json!({ "agent": agent });
        if let (Some(object), Value::Object(summary)) = (value.as_object_mut(), json!(session)) {
            object.extend(summary);
            let optional = [("model", &self.model), ("updatedAt", &self.updated)];
            object.extend(optional.into_iter().filter_map(|(key, fact)| Some((key.to_owned(), fact.clone()?.into()))));
            let counts = [("messages", self.messages.len()), ("prompts", self.prompts), ("compactions", self.compactions)];
            object.extend(counts.into_iter().map(|(key, count)| (key.to_owned(), count.into())));
        }
        value
    }
}
