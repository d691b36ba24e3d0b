//! What a prompt that begins with a slash stands for. Only skills and templates of the agent are meant; everything else is text.

use std::io;

use wolli_protocol::resource::Skill;

use super::Resources;
use super::placeholders::EXPANDED_MAX_BYTES;
use super::skill;
use super::template::{self, ExpandError, Template};

/// A skill or template with the text behind its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    Skill { skill: Skill, arguments: String },
    Template { template: Template, arguments: String },
}

/// Why an invocation gives no prompt. The texts go to clients; that of wolli 0.0.2 is kept.
#[derive(Debug, thiserror::Error)]
pub enum InvocationError {
    #[error("Unknown skill: {0}")]
    UnknownSkill(String),
    #[error("cannot read the skill \"{name}\" at {path}: {source}")]
    Skill { name: String, path: String, source: io::Error },
    #[error("cannot read the prompt template \"/{name}\" at {path}: {source}")]
    Template { name: String, path: String, source: io::Error },
    #[error("the prompt of \"/{name}\" would be larger than {} MiB", EXPANDED_MAX_BYTES >> 20)]
    TooLarge { name: String },
}

impl Resources {
    /// What `text` calls; nothing if it is plain text. Reads no file.
    ///
    /// # Errors
    /// It names a skill that there is not.
    pub(crate) fn invocation(&self, text: &str) -> Result<Option<Invocation>, InvocationError> {
        let Some(call) = text.strip_prefix('/') else { return Ok(None) };
        if let Some(call) = call.strip_prefix("skill:") {
            // What begins so is no text for the model, so a line break may end the name as well.
            let (name, arguments) = call.split_once(char::is_whitespace).unwrap_or((call, ""));
            let found = self.skills.iter().find(|skill| skill.name == name);
            let skill = found.ok_or_else(|| InvocationError::UnknownSkill(name.to_owned()))?.clone();
            return Ok(Some(Invocation::Skill { skill, arguments: arguments.to_owned() }));
        }
        let (name, arguments) = call.split_once(' ').unwrap_or((call, ""));
        let found = self.templates.iter().find(|template| template.name == name);
        Ok(found.map(|template| Invocation::Template { template: template.clone(), arguments: arguments.to_owned() }))
    }
}

impl Invocation {
    /// The prompt, with what its file says now. Blocking.
    ///
    /// # Errors
    /// The file is gone or cannot be read, or the prompt would be too large.
    pub(crate) fn expand(&self) -> Result<String, InvocationError> {
        match self {
            Self::Skill { skill, arguments } => skill::invoke(skill, arguments).map_err(|source| InvocationError::Skill {
                name: skill.name.clone(),
                path: skill.file_path.clone(),
                source,
            }),
            Self::Template { template, arguments } => template::invoke(template, arguments).map_err(|error| match error {
                ExpandError::Read(source) => {
                    InvocationError::Template { name: template.name.clone(), path: template.path.to_string_lossy().into_owned(), source }
                }
                ExpandError::TooLarge => InvocationError::TooLarge { name: template.name.clone() },
            }),
        }
    }
}
