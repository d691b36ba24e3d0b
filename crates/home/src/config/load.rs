//! Reading the files, the agent's over the root's.
//!
//! Invariant: reading never fails as a whole; whatever is wrong becomes a diagnostic, and what protects something fails closed.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::diagnostic::{ConfigError, Diagnostic};
use super::keys::{KEYS, STRICT_SECTIONS, sections, strictest};
use super::schema::Config;
use crate::reading;

/// Where a value comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Nobody set it.
    Default,
    /// This file sets it.
    File(PathBuf),
    /// This file has a fault that may have meant it, and it protects something.
    Strictest(PathBuf),
}

/// The configuration in effect.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// The values.
    pub values: Config,
    /// What is wrong in the files, in the order of files and lines.
    pub diagnostics: Vec<Diagnostic>,
    /// One for each of [`KEYS`].
    pub(super) origins: Vec<Origin>,
}

/// Reads the files in the order given, later ones over earlier ones; absent files are empty. For the daemon, which starts anyway.
pub fn load<'a>(files: impl IntoIterator<Item = &'a Path>) -> Configuration {
    let mut configuration =
        Configuration { values: Config::default(), diagnostics: Vec::new(), origins: vec![Origin::Default; KEYS.len()] };
    for path in files {
        let mut file = File { path, text: String::new(), configuration: &mut configuration, set: vec![false; KEYS.len()] };
        file.load();
    }
    configuration
}

/// Reads like [`load`], but any diagnostic is an error. For the command line.
pub fn load_strictly<'a>(files: impl IntoIterator<Item = &'a Path>) -> Result<Configuration, ConfigError> {
    let configuration = load(files);
    if configuration.diagnostics.is_empty() { Ok(configuration) } else { Err(ConfigError(configuration.diagnostics)) }
}

/// One file on its way into the configuration.
struct File<'a> {
    path: &'a Path,
    text: String,
    configuration: &'a mut Configuration,
    /// Which keys this file has set to a valid value.
    set: Vec<bool>,
}

impl File<'_> {
    fn load(&mut self) {
        let content = match reading::read(self.path) {
            Ok(None) => return,
            Ok(Some(content)) => String::from_utf8(content).map_err(|_| "the file is not UTF-8".to_owned()),
            Err(e) => Err(format!("the file cannot be read: {e}")),
        };
        match content {
            Ok(text) => self.text = text,
            Err(message) => {
                self.report_file(None, message);
                return self.harden_all();
            }
        }
        let text = std::mem::take(&mut self.text);
        let first = self.configuration.diagnostics.len();
        let parsed = DeTable::parse(&text);
        self.text.clone_from(&text);
        match parsed {
            Ok(table) => self.take(table.get_ref()),
            Err(e) => {
                self.report_file(e.span().map(|span| span.start), format!("the file is not valid TOML: {}", e.message()));
                self.harden_all();
            }
        }
        if let Some(ours) = self.configuration.diagnostics.get_mut(first..) {
            ours.sort_by_key(|diagnostic| diagnostic.line);
        }
    }

    fn take(&mut self, table: &DeTable<'_>) {
        for (section, content) in table {
            let (name, at) = (section.get_ref().as_ref(), Some(section.span().start));
            if !sections().contains(&name) {
                self.report(at, format!("unknown section [{name}] (sections: {})", sections().join(", ")));
                // A misspelt section may have been one that protects.
                self.harden_all();
            } else if let DeValue::Table(keys) = content.get_ref() {
                self.take_section(name, keys);
            } else {
                self.report(at, format!("{name} must be a section, [{name}]"));
                self.harden(name);
            }
        }
    }

    fn take_section(&mut self, section: &str, keys: &DeTable<'_>) {
        let mut doubtful = false;
        for (key, value) in keys {
            let name = key.get_ref().as_ref();
            let Some((n, known)) = KEYS.iter().enumerate().find(|(_, known)| known.section == section && known.name == name) else {
                let valid: Vec<_> = KEYS.iter().filter(|known| known.section == section).map(|known| known.name).collect();
                self.report(Some(key.span().start), format!("unknown key {section}.{name} (keys of [{section}]: {})", valid.join(", ")));
                doubtful = true;
                continue;
            };
            match (known.set)(&mut self.configuration.values, value.get_ref()) {
                Ok(()) => self.settle(n, Origin::File(self.path.to_owned())),
                Err(expected) => {
                    self.report(Some(value.span().start), format!("{section}.{name} must be {expected}"));
                    doubtful = true;
                }
            }
        }
        if doubtful {
            self.harden(section);
        }
    }

    /// Gives the keys of a section that protects, but for those that this file sets, their strictest value.
    fn harden(&mut self, section: &str) {
        if !STRICT_SECTIONS.contains(&section) {
            return;
        }
        for (n, key) in KEYS.iter().enumerate().filter(|(_, key)| key.section == section) {
            if !self.set.get(n).copied().unwrap_or(false) {
                (key.copy)(&mut self.configuration.values, &strictest());
                if let Some(origin) = self.configuration.origins.get_mut(n) {
                    *origin = Origin::Strictest(self.path.to_owned());
                }
            }
        }
    }

    fn harden_all(&mut self) {
        for section in STRICT_SECTIONS {
            self.harden(section);
        }
    }

    fn settle(&mut self, n: usize, origin: Origin) {
        if let (Some(place), Some(set)) = (self.configuration.origins.get_mut(n), self.set.get_mut(n)) {
            *place = origin;
            *set = true;
        }
    }

    fn report_file(&mut self, offset: Option<usize>, message: String) {
        self.report(offset, message);
        if let Some(last) = self.configuration.diagnostics.last_mut() {
            last.whole_file = true;
        }
    }

    fn report(&mut self, offset: Option<usize>, message: String) {
        let before = offset.and_then(|offset| self.text.as_bytes().get(..offset));
        let line = before.map(|before| before.iter().filter(|byte| **byte == b'\n').count() + 1);
        self.configuration.diagnostics.push(Diagnostic { path: self.path.to_owned(), line, message, whole_file: false });
    }
}
