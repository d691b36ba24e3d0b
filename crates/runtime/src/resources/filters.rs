//! The lists `skills` and `prompts` of the settings: plain entries name files and folders, the others filter.
//!
//! `!glob` excludes, `+path` takes back in, `-path` excludes whatever else is said. An entry with `*` or `?` picks from what the plain
//! entries name. Globs are tested against the path below the home, the name, and the whole path; for a `SKILL.md` also against its
//! folder. Pure: no file is touched.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

/// Longer globs filter nothing; the bound keeps hostile ones cheap.
const GLOB_MAX_BYTES: usize = 4096;

/// One list of the settings, read.
#[derive(Debug, Default)]
pub(super) struct Filters {
    /// Files and folders, as they were written.
    pub(super) plain: Vec<String>,
    includes: Vec<GlobMatcher>,
    excludes: Vec<GlobMatcher>,
    exactly_in: Vec<String>,
    exactly_out: Vec<String>,
    /// Globs that cannot be read, with the reason.
    pub(super) problems: Vec<String>,
}

impl Filters {
    pub(super) fn new<'a>(entries: impl IntoIterator<Item = &'a str>) -> Self {
        let mut filters = Self::default();
        for entry in entries {
            if let Some(path) = entry.strip_prefix('+') {
                filters.exactly_in.push(exact(path));
            } else if let Some(path) = entry.strip_prefix('-') {
                filters.exactly_out.push(exact(path));
            } else if let Some(text) = entry.strip_prefix('!') {
                let glob = filters.glob(text);
                filters.excludes.extend(glob);
            } else if entry.contains(['*', '?']) {
                let glob = filters.glob(entry);
                filters.includes.extend(glob);
            } else {
                filters.plain.push(entry.to_owned());
            }
        }
        filters
    }

    fn glob(&mut self, text: &str) -> Option<GlobMatcher> {
        if text.len() > GLOB_MAX_BYTES {
            self.problems.push(format!("a glob is longer than {GLOB_MAX_BYTES} bytes; it is ignored"));
            return None;
        }
        match GlobBuilder::new(text).literal_separator(true).build() {
            Ok(glob) => Some(glob.compile_matcher()),
            Err(error) => {
                self.problems.push(format!("glob \"{text}\" is ignored: {}", error.kind()));
                None
            }
        }
    }

    /// Whether a file that a plain entry names is taken.
    pub(super) fn takes_listed(&self, file: &Path, home: &Path) -> bool {
        let names = Names::of(file, home);
        let picked = self.includes.is_empty() || names.match_any(&self.includes);
        self.decide(&names, picked)
    }

    /// Whether a file that was found without being listed is taken.
    pub(super) fn takes_discovered(&self, file: &Path, home: &Path) -> bool {
        self.decide(&Names::of(file, home), true)
    }

    fn decide(&self, names: &Names<'_>, picked: bool) -> bool {
        let taken = (picked && !names.match_any(&self.excludes)) || names.is_any(&self.exactly_in);
        taken && !names.is_any(&self.exactly_out)
    }
}

fn exact(path: &str) -> String {
    path.strip_prefix("./").unwrap_or(path).trim_end_matches('/').to_owned()
}

/// What a file is called in filters.
struct Names<'a> {
    whole: Vec<&'a Path>,
    base: Vec<&'a Path>,
}

impl<'a> Names<'a> {
    fn of(file: &'a Path, home: &'a Path) -> Self {
        let mut names = Self { whole: Vec::new(), base: Vec::new() };
        let folder = file.parent().filter(|_| file.file_name().is_some_and(|name| name == "SKILL.md"));
        for path in std::iter::once(file).chain(folder) {
            names.whole.push(path);
            names.whole.extend(path.strip_prefix(home).ok());
            names.base.extend(path.file_name().map(Path::new));
        }
        names
    }

    fn match_any(&self, globs: &[GlobMatcher]) -> bool {
        globs.iter().any(|glob| self.whole.iter().chain(&self.base).any(|name| glob.is_match(name)))
    }

    fn is_any(&self, paths: &[String]) -> bool {
        paths.iter().any(|path| self.whole.contains(&Path::new(path)))
    }
}

/// A plain entry as a path: relative to the agent's home, `~` is the user's.
pub(super) fn resolve(entry: &str, home: &Path, user_home: Option<&Path>) -> PathBuf {
    match (entry.strip_prefix('~'), user_home) {
        (Some(""), Some(user)) => user.to_owned(),
        (Some(rest), Some(user)) if rest.starts_with('/') => user.join(rest.trim_start_matches('/')),
        _ => {
            let entry = entry.strip_prefix("./").unwrap_or(entry);
            home.join(entry.trim_end_matches('/'))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_by_their_kinds() {
        let home = Path::new("/h");
        let skill = "/h/skills/old/SKILL.md";
        for (entries, file, listed, discovered) in [
            (&[][..], skill, true, true),
            (&["dir"], skill, true, true),
            (&["!skills/old/*"], skill, false, false),
            (&["!skills/old"], skill, false, false),
            (&["!old"], skill, false, false),
            (&["!SKILL.md"], skill, false, false),
            (&["!/h/skills/**"], skill, false, false),
            // `*` stays within a folder; the folder of a skill counts as a name.
            (&["!skills/*"], skill, false, false),
            (&["!skills/*"], "/h/skills/a/b.md", true, true),
            (&["!skills/new*"], skill, true, true),
            (&["*.md"], "/h/prompts/a.md", true, true),
            (&["b*"], "/h/prompts/a.md", false, true),
            (&["prompts/?.md"], "/h/prompts/a.md", true, true),
            (&["!**", "+prompts/a.md"], "/h/prompts/a.md", true, true),
            (&["!**", "+./skills/old/"], skill, true, true),
            (&["!**", "+a.md"], "/h/prompts/a.md", false, false),
            (&["+prompts/a.md", "-prompts/a.md"], "/h/prompts/a.md", false, false),
            (&["-/h/prompts/a.md"], "/h/prompts/a.md", false, false),
            (&["-a.md"], "/h/prompts/a.md", true, true),
            (&["-skills/old"], skill, false, false),
            (&["b*", "+prompts/a.md"], "/h/prompts/a.md", true, true),
            (&["!*.md"], "/elsewhere/x.md", false, false),
            (&["![z-a]"], skill, true, true),
        ] {
            let filters = Filters::new(entries.iter().copied());
            let found = (filters.takes_listed(Path::new(file), home), filters.takes_discovered(Path::new(file), home));
            assert_eq!(found, (listed, discovered), "{entries:?} {file}");
        }
        let filters = Filters::new(["a", "[z-a]", "![z-a]", "./b/"]);
        assert_eq!(filters.plain, ["a", "[z-a]", "./b/"]);
        assert_eq!(filters.problems, ["glob \"[z-a]\" is ignored: invalid range; 'z' > 'a'"]);
        let long = "*".repeat(GLOB_MAX_BYTES + 1);
        assert_eq!(Filters::new([long.as_str()]).problems.len(), 1);
    }

    #[test]
    fn plain_entries_are_paths() {
        let (home, user) = (Path::new("/h"), Some(Path::new("/u")));
        for (entry, path) in [("a/b", "/h/a/b"), ("./a/", "/h/a"), ("/x/y", "/x/y"), ("~", "/u"), ("~/a", "/u/a"), ("~a", "/h/~a")] {
            assert_eq!(resolve(entry, home, user), Path::new(path), "{entry}");
        }
        assert_eq!(resolve("~/a", home, None), Path::new("/h/~/a"));
    }
}
