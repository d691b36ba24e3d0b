//! The system prompt. Built once when a session becomes resident and then frozen, so that every call of the
//! session starts with the same bytes and the provider's cache serves them. It never holds the time of day.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use wolli_protocol::resource::ContextInfo;
use wolli_protocol::text::utf16_len;

use super::memory::{MemoryFiles, read_lossy};
use crate::tools::{Stage, ToolSet};

/// What the prompt is made of.
#[derive(Debug)]
pub struct SystemPrompt<'a> {
    pub agent: &'a str,
    pub purpose: &'a str,
    pub stage: Stage,
    pub home: &'a Path,
    pub memory: &'a MemoryFiles,
    pub tools: &'a ToolSet,
    /// The part about skills, which says where their files are; absent if there are none for the model.
    pub skills: Option<&'a str>,
    /// How commands are confined, for the model to know what it can expect.
    pub confinement: &'a str,
    /// `APPEND_SYSTEM.md`, verbatim.
    pub appendix: Option<&'a str>,
}

const FORMING: &str = "\
## You are still forming
You have not been deployed yet. Until your human deploys you, you may not act on your own: you only work in this conversation.
- Find out what you are for. Ask one question at a time and listen.
- Record lasting facts with the memory tool as you learn them.
- Before you deploy, make sure that your purpose can be achieved: that the programs, files and connections it needs are there.
- Do not write SOUL.md by hand. When purpose and character are agreed, call the deploy tool once with a one-line purpose and your full SOUL.md.
- Your human can also ask for it with /deploy, and has the last word.";

impl SystemPrompt<'_> {
    /// The text.
    #[must_use]
    pub fn render(&self) -> String {
        let mut text = String::new();
        let purpose = if self.purpose.trim().is_empty() { "(no purpose recorded)" } else { self.purpose.trim() };
        push(
            &mut text,
            &format!(
                "You are {}, a persistent agent that lives on its human's own machine: you keep your memory, your files and your purpose \
                 between conversations.\nYour purpose: {purpose}",
                self.agent
            ),
        );
        push(
            &mut text,
            "## Your curated files\n\
             SOUL.md says who you are, MEMORY.md what you have learned, USER.md what you know about your human. What follows is a snapshot \
             taken when this session began; edits take effect in the next session.\n\
             Change MEMORY.md and USER.md with the memory tool. SOUL.md is written when you deploy; afterwards you may change it yourself with \
             the file tools.",
        );
        for (name, content) in [("SOUL.md", &self.memory.soul), ("MEMORY.md", &self.memory.memory), ("USER.md", &self.memory.user)] {
            let content = content.trim();
            push(&mut text, &format!("### {name}\n{}", if content.is_empty() { "(empty)" } else { content }));
        }
        push(&mut text, &self.tools_part());
        push(&mut text, &self.place_part());
        if self.stage == Stage::Forming {
            push(&mut text, FORMING);
        }
        if let Some(skills) = self.skills {
            push(&mut text, skills);
        }
        if let Some(appendix) = self.appendix.filter(|appendix| !appendix.is_empty()) {
            text.push('\n');
            text.push_str(appendix);
        }
        text
    }

    fn tools_part(&self) -> String {
        let mut part = "## Your tools".to_owned();
        for tool in self.tools.specs() {
            let _ = write!(part, "\n- {}: {}", tool.name, tool.snippet);
        }
        let mut guidelines: Vec<&str> = Vec::new();
        for guideline in self.tools.specs().flat_map(|tool| &tool.guidelines) {
            if !guidelines.contains(&guideline.as_str()) {
                guidelines.push(guideline);
            }
        }
        if !guidelines.is_empty() {
            part.push_str("\nGuidelines:");
            for guideline in guidelines {
                let _ = write!(part, "\n- {guideline}");
            }
        }
        part
    }

    fn place_part(&self) -> String {
        let confinement = if self.confinement == "none" {
            "Commands run directly on this machine with your human's own rights. Be careful with everything outside your home."
        } else {
            "Commands run in a sandbox in which your home can be written."
        };
        format!(
            "## Where you are\nYour home, where relative paths start and commands run: {}\nOperating system: {} ({})\n{confinement}",
            self.home.display(),
            std::env::consts::OS,
            std::env::consts::ARCH
        )
    }
}

fn push(text: &mut String, part: &str) {
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str(part);
}

/// The context files of an agent, for the listing: the curated ones (0 characters when absent), then the first project
/// file of the home and of each folder above it, from the root down. Blocking.
#[must_use]
pub fn project_contexts(home: &Path) -> Vec<ContextInfo> {
    let info = |name: &str, kind: &str, text: &str| ContextInfo { name: name.into(), kind: kind.into(), chars: utf16_len(text) as u64 };
    let mut contexts: Vec<ContextInfo> =
        ["SOUL.md", "MEMORY.md", "USER.md"].iter().map(|name| info(name, "memory", &read_lossy(&home.join(name)))).collect();
    let mut folders: Vec<PathBuf> = home.ancestors().skip(1).map(Path::to_owned).collect();
    folders.reverse();
    for folder in std::iter::once(home.to_owned()).chain(folders) {
        let names = ["AGENTS.md", "AGENTS.MD", "CLAUDE.md", "CLAUDE.MD"];
        if let Some(name) = names.iter().find(|name| folder.join(name).is_file()) {
            contexts.push(info(name, "project", &read_lossy(&folder.join(name))));
        }
    }
    contexts
}
