//! Putting together what an agent has, in the order of precedence: what the settings list, then what lies in its folders.
//!
//! The first of a name wins, and a file that two ways lead to counts once.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};
use wolli_protocol::resource::{Collision, ConfiguredPlugin, DiagnosticKind, ResourceDiagnostic, Skill, SlashCommandInfo, SourceInfo};

use super::filters::{self, Filters};
use super::scan::{FILES_MAX, Kind, Scan, is_markdown};
use super::template::Template;
use super::{plugins, skill, template, unsupported};

#[cfg(test)]
mod tests;

/// Diagnostics of one load that are kept; the rest is counted.
const DIAGNOSTICS_MAX: usize = 200;

/// Where things are looked for.
#[derive(Clone, Debug)]
pub(crate) struct Places {
    /// The agent's home.
    pub(crate) home: PathBuf,
    /// What `~` means.
    pub(crate) user_home: Option<PathBuf>,
}

/// Skills, templates, and what was wrong with them.
#[derive(Debug, Default)]
pub(crate) struct Resources {
    pub(super) skills: Vec<Skill>,
    pub(super) templates: Vec<Template>,
    plugins: Vec<ConfiguredPlugin>,
    diagnostics: Vec<ResourceDiagnostic>,
}

impl Resources {
    /// Reads everything. Blocking; takes a moment at most, whatever is in the folders.
    pub(crate) fn load(places: &Places, settings: &Map<String, Value>) -> Self {
        let mut loader = Loader { places, settings, scan: Scan::new(), resources: Self::default() };
        loader.skills();
        loader.templates();
        loader.unsupported();
        let mut resources = loader.resources;
        let beyond = resources.diagnostics.len().saturating_sub(DIAGNOSTICS_MAX);
        if beyond > 0 {
            resources.diagnostics.truncate(DIAGNOSTICS_MAX);
            resources.diagnostics.push(warning(format!("{beyond} more problems with skills and templates are not listed"), None));
        }
        resources
    }

    pub(crate) fn skills(&self) -> &[Skill] {
        &self.skills
    }

    pub(crate) fn template_count(&self) -> usize {
        self.templates.len()
    }

    pub(crate) fn plugins(&self) -> &[ConfiguredPlugin] {
        &self.plugins
    }

    pub(crate) fn diagnostics(&self) -> &[ResourceDiagnostic] {
        &self.diagnostics
    }

    /// What can be called with a slash: templates, then skills.
    pub(crate) fn commands(&self) -> Vec<SlashCommandInfo> {
        let templates = self.templates.iter().map(|template| SlashCommandInfo {
            name: template.name.clone(),
            description: template.description.clone(),
            source: "prompt".into(),
            source_info: template.source_info.clone(),
        });
        let skills = self.skills.iter().map(|skill| SlashCommandInfo {
            name: format!("skill:{}", skill.name),
            description: Some(skill.description.clone()),
            source: "skill".into(),
            source_info: skill.source_info.clone(),
        });
        templates.chain(skills).collect()
    }

    /// What the system prompt says about skills, if anything.
    pub(crate) fn prompt_part(&self) -> Option<String> {
        skill::prompt_part(&self.skills)
    }
}

fn warning(message: String, path: Option<&Path>) -> ResourceDiagnostic {
    ResourceDiagnostic::new(DiagnosticKind::Warning, message, path)
}

struct Loader<'a> {
    places: &'a Places,
    settings: &'a Map<String, Value>,
    scan: Scan,
    resources: Resources,
}

/// One kind of resource: its list in the settings, its folder, and its word in messages.
struct Sort {
    list: &'static str,
    word: &'static str,
    listed: Kind,
    discovered: Kind,
}

const SKILLS: Sort = Sort { list: "skills", word: "skill", listed: Kind::Skill, discovered: Kind::Skill };
const TEMPLATES: Sort =
    Sort { list: "prompts", word: "prompt", listed: Kind::Template { recursive: true }, discovered: Kind::Template { recursive: false } };

impl Loader<'_> {
    fn warn(&mut self, message: String, path: Option<&Path>) {
        self.resources.diagnostics.push(warning(message, path));
    }

    fn skills(&mut self) {
        for (path, source_info) in self.files(&SKILLS) {
            let loaded = skill::load(&path, source_info);
            for message in loaded.warnings {
                self.warn(message, Some(&path));
            }
            let Some(skill) = loaded.skill else { continue };
            match self.resources.skills.iter().find(|known| known.name == skill.name) {
                None => self.resources.skills.push(skill),
                Some(known) => {
                    let winner = known.file_path.clone();
                    self.collide("skill", &skill.name, format!("name \"{}\" collision", skill.name), winner, skill.file_path);
                }
            }
        }
    }

    fn templates(&mut self) {
        for (path, source_info) in self.files(&TEMPLATES) {
            let template = match template::load(&path, source_info) {
                Ok(template) => template,
                Err(message) => {
                    self.warn(message, Some(&path));
                    continue;
                }
            };
            match self.resources.templates.iter().find(|known| known.name == template.name) {
                None => self.resources.templates.push(template),
                Some(known) => {
                    let (winner, loser) = (known.path.to_string_lossy().into_owned(), path.to_string_lossy().into_owned());
                    self.collide("prompt", &template.name, format!("name \"/{}\" collision", template.name), winner, loser);
                }
            }
        }
    }

    fn collide(&mut self, resource_type: &str, name: &str, message: String, winner_path: String, loser_path: String) {
        let collision = Collision {
            resource_type: resource_type.to_owned(),
            name: name.to_owned(),
            winner_path,
            loser_path: loser_path.clone(),
            winner_source: None,
            loser_source: None,
        };
        let diagnostic =
            ResourceDiagnostic { kind: DiagnosticKind::Collision, message, path: Some(loser_path), collision: Some(collision) };
        self.resources.diagnostics.push(diagnostic);
    }

    /// The files of one sort with where they come from, each once.
    fn files(&mut self, sort: &Sort) -> Vec<(PathBuf, SourceInfo)> {
        let places = self.places;
        let list = self.list(sort.list);
        let filters = Filters::new(list.iter().map(String::as_str));
        for problem in &filters.problems {
            self.warn(format!("setting {}: {problem}", sort.list), None);
        }
        let mut found = Vec::new();
        for entry in &filters.plain {
            let path = filters::resolve(entry, &places.home, places.user_home.as_deref());
            let files = self.listed(sort, &path).into_iter();
            found.extend(files.filter(|file| filters.takes_listed(file, &places.home)).map(|file| (file, "local")));
        }
        let folder = places.home.join(sort.list);
        if folder.is_dir() {
            let files = self.scan.folder(&folder, sort.discovered).into_iter();
            found.extend(files.filter(|file| filters.takes_discovered(file, &places.home)).map(|file| (file, "auto")));
        }
        for (message, path) in std::mem::take(&mut self.scan.problems) {
            self.warn(message, Some(&path));
        }
        let mut seen = HashSet::new();
        found.retain(|(path, _)| seen.insert(path.canonicalize().unwrap_or_else(|_| path.clone())));
        if found.len() > FILES_MAX {
            self.warn(format!("only {FILES_MAX} {}s are loaded; there are more", sort.word), Some(&folder));
            found.truncate(FILES_MAX);
        }
        found.into_iter().map(|(path, source)| (path.clone(), self.source_info(&path, source))).collect()
    }

    fn source_info(&self, path: &Path, source: &str) -> SourceInfo {
        SourceInfo {
            path: path.to_string_lossy().into_owned(),
            source: source.to_owned(),
            scope: "user".into(),
            origin: "top-level".into(),
            base_dir: Some(self.places.home.to_string_lossy().into_owned()),
        }
    }

    /// The files that one plain entry names.
    fn listed(&mut self, sort: &Sort, path: &Path) -> Vec<PathBuf> {
        match std::fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => return self.scan.folder(path, sort.listed),
            Ok(metadata) if metadata.is_file() && is_markdown(path) => return vec![path.to_owned()],
            Ok(_) => self.warn(format!("{} path is not a markdown file", sort.word), Some(path)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                self.warn(format!("{} path does not exist", sort.word), Some(path));
            }
            Err(error) => self.warn(format!("{} path cannot be read: {error}", sort.word), Some(path)),
        }
        Vec::new()
    }

    fn list(&mut self, key: &str) -> Vec<String> {
        let Some(value) = self.settings.get(key).filter(|value| !value.is_null()) else { return Vec::new() };
        let texts: Option<Vec<String>> =
            value.as_array().and_then(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
        if texts.is_none() {
            self.warn(format!("setting {key} must be a list of strings; it is ignored"), None);
        }
        texts.unwrap_or_default()
    }

    fn unsupported(&mut self) {
        for (message, path) in unsupported::problems(&self.places.home, self.places.user_home.as_deref(), self.settings) {
            self.warn(message, Some(&path));
        }
        let list = self.settings.get("plugins").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        self.resources.plugins = plugins::configured(list);
        let told: Vec<String> = self.resources.plugins.iter().map(|plugin| plugin.source.clone()).collect();
        for source in told {
            self.warn(format!("plugin \"{source}\" is not loaded: this version of wolli loads no plugins"), None);
        }
    }
}
