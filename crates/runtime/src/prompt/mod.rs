//! What the model is told before the conversation: the system prompt, from the agent's own files.

mod memory;
mod system;

pub use memory::{MEMORY_BUDGET, MemoryFiles};
pub use system::{SystemPrompt, project_contexts};
