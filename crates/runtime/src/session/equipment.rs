//! What a session works with besides its history: its tools, the record of its model, and the models that it switches between.
//!
//! A change counts from the next turn on; the system prompt is never part of it.

use std::sync::Arc;

use wolli_protocol::entry::EntryBody;
use wolli_protocol::event::{ModelSource, SessionEvent};
use wolli_protocol::state::ScopedModel;

use super::actor::Actor;
use super::append::NewEntry;
use super::handle::Reply;
use crate::tools::ToolSet;

impl Actor {
    /// Takes what a reload brought. Only what really differs becomes an entry or an event.
    pub(super) fn equip(&mut self, tools: Arc<ToolSet>, reply: Reply<()>) {
        let mut entries = Vec::new();
        if !self.tools.names().eq(tools.names()) {
            let active_tool_names = tools.names().map(str::to_owned).collect();
            entries.push(NewEntry::new(EntryBody::ActiveToolsChange { active_tool_names }));
        }
        self.tools = tools;
        entries.extend(self.renew_model());
        if entries.is_empty() {
            let _ = reply.send(Ok(()));
        } else {
            self.store_silently(entries, reply, ());
        }
    }

    /// The same model, as the files describe it now; one that is gone from them stays as it was known. Gives the entry of a level that
    /// had to change with it.
    fn renew_model(&mut self) -> Option<NewEntry> {
        let registry = self.services.registry.get();
        let known = &self.settings.model;
        let model = registry.find(&known.provider, &known.id).filter(|model| *model != known)?.clone();
        let previous = std::mem::replace(&mut self.settings.model, model.clone());
        let previous_level = self.settings.level;
        let level = model.clamp(previous_level);
        self.hub.publish(&SessionEvent::ModelUpdate { model, previous_model: Some(previous), source: ModelSource::Restore });
        if level == previous_level {
            return None;
        }
        self.settings.level = level;
        self.hub.publish(&SessionEvent::ThinkingLevelUpdate { level, previous_level });
        Some(NewEntry::new(EntryBody::ThinkingLevelChange { thinking_level: level }))
    }

    pub(super) fn set_scoped_models(&self, scoped_models: Vec<ScopedModel>, reply: Reply<()>) {
        self.hub.publish(&SessionEvent::ScopedModelsUpdate { scoped_models });
        let _ = reply.send(Ok(()));
    }

    pub(super) fn tell_tools(&self, reply: Reply<Arc<ToolSet>>) {
        let _ = reply.send(Ok(Arc::clone(&self.tools)));
    }
}
