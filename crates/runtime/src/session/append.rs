//! New lines of a session file.

use serde::{Deserialize, Serialize};
use wolli_protocol::entry::EntryBody;
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::Message;

use crate::clock::now_iso;

/// An entry that is to be written; its parent is the active position at the moment of writing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewEntry {
    pub id: EntryId,
    /// ISO time.
    pub timestamp: String,
    pub body: EntryBody,
}

impl NewEntry {
    #[must_use]
    pub fn new(body: EntryBody) -> Self {
        Self { id: EntryId::generate(), timestamp: now_iso(), body }
    }

    /// An entry for a message that readers already know under `id`.
    #[must_use]
    pub fn message(id: EntryId, message: Message, idempotency_key: Option<String>) -> Self {
        Self { id, timestamp: now_iso(), body: EntryBody::Message { message, idempotency_key } }
    }

    /// The line with its line break: `type`, `id`, `parentId`, `timestamp`, then the rest.
    pub(super) fn line(&self, parent: Option<&str>) -> Result<Vec<u8>, serde_json::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Common<'a> {
            id: &'a EntryId,
            parent_id: Option<&'a str>,
            timestamp: &'a str,
        }
        let body = serde_json::to_string(&self.body)?;
        let common = serde_json::to_string(&Common { id: &self.id, parent_id: parent, timestamp: &self.timestamp })?;
        // The body starts with its tag, `{"type":"..."`; the common fields go behind it.
        let tag_end = body[r#"{"type":""#.len()..].find('"').map_or(body.len() - 1, |quote| r#"{"type":""#.len() + quote + 1);
        let mut line = String::with_capacity(body.len() + common.len() + 2);
        line.push_str(&body[..tag_end]);
        line.push(',');
        line.push_str(&common[1..common.len() - 1]);
        line.push_str(&body[tag_end..]);
        line.push('\n');
        Ok(line.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use wolli_protocol::entry::EntryBody;
    use wolli_protocol::message::{Message, UserMessage};

    use super::NewEntry;

    #[test]
    fn lines_have_the_order_of_the_format() {
        let entry = NewEntry {
            id: "e2".into(),
            timestamp: "2026-06-28T19:10:01.000Z".into(),
            body: EntryBody::Message {
                message: Message::User(UserMessage::new("hello", Vec::new(), 1_782_673_801_000)),
                idempotency_key: None,
            },
        };
        assert_eq!(
            String::from_utf8(entry.line(Some("e1")).unwrap()).unwrap(),
            "{\"type\":\"message\",\"id\":\"e2\",\"parentId\":\"e1\",\"timestamp\":\"2026-06-28T19:10:01.000Z\",\"message\":{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\"hello\"}],\"timestamp\":1782673801000}}\n"
        );
        let change = NewEntry { body: EntryBody::ModelChange { provider: "p".into(), model_id: "m".into() }, ..entry };
        assert_eq!(
            String::from_utf8(change.line(None).unwrap()).unwrap(),
            "{\"type\":\"model_change\",\"id\":\"e2\",\"parentId\":null,\"timestamp\":\"2026-06-28T19:10:01.000Z\",\"provider\":\"p\",\"modelId\":\"m\"}\n"
        );
    }
}
