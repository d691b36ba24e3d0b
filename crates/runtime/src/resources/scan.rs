//! Finding skills and templates in folders: `SKILL.md` ends a branch, ignore files count, links are followed once.
//!
//! Invariant: ends soon, whatever is in the tree: entries, depth and files are bounded, and a folder is looked at once however many
//! links lead to it. Nothing is opened but ignore files. Not here: what is in the files.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::ignored::{Ignored, is_hidden};

/// Entries of folders that one scan looks at. Homes have dozens; a tree of a hundred thousand is there by mistake.
const ENTRIES_MAX: usize = 20_000;

/// Folders below each other.
const DEPTH_MAX: usize = 16;

/// Skills, and templates, that are taken.
pub(super) const FILES_MAX: usize = 1000;

/// What is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Skill,
    /// Of the folder itself, or of all folders below it, too.
    Template {
        recursive: bool,
    },
}

/// What one scan may still do, and what it has to tell. Shared by all folders of one load.
#[derive(Debug)]
pub(super) struct Scan {
    entries_left: usize,
    /// It was told that nothing more is looked at below the present root.
    ended: bool,
    /// Folders of the present root, by device and number.
    seen: HashSet<(u64, u64)>,
    /// Texts with the path that they are about.
    pub(super) problems: Vec<(String, PathBuf)>,
}

struct Entry {
    name: String,
    path: PathBuf,
    is_folder: bool,
    is_file: bool,
}

impl Scan {
    pub(super) fn new() -> Self {
        Self { entries_left: ENTRIES_MAX, ended: false, seen: HashSet::new(), problems: Vec::new() }
    }

    /// The files below `root`, sorted by path. Blocking.
    pub(super) fn folder(&mut self, root: &Path, kind: Kind) -> Vec<PathBuf> {
        let mut found = Vec::new();
        self.seen.clear();
        self.ended = false;
        self.walk(root, kind, 0, &mut Ignored::default(), &mut found);
        found
    }

    fn walk(&mut self, folder: &Path, kind: Kind, depth: usize, ignored: &mut Ignored, found: &mut Vec<PathBuf>) {
        let Ok(metadata) = std::fs::metadata(folder) else { return };
        if !self.seen.insert((metadata.dev(), metadata.ino())) {
            return;
        }
        if depth > DEPTH_MAX {
            self.problems.push((format!("folders more than {DEPTH_MAX} levels deep are not looked at"), folder.to_owned()));
            return;
        }
        let has_rules = ignored.enter(folder);
        self.look(folder, kind, depth, ignored, found);
        if has_rules {
            ignored.leave();
        }
    }

    fn look(&mut self, folder: &Path, kind: Kind, depth: usize, ignored: &mut Ignored, found: &mut Vec<PathBuf>) {
        if kind == Kind::Skill {
            let skill = folder.join("SKILL.md");
            match std::fs::metadata(&skill) {
                Ok(metadata) if metadata.is_file() && !ignored.matches(&skill, false) => return found.push(skill),
                Ok(metadata) if !metadata.is_file() => self.problems.push(("skill path is not a regular file".to_owned(), skill)),
                _ => {}
            }
        }
        for entry in self.entries(folder) {
            if is_hidden(&entry.name) || ignored.matches(&entry.path, entry.is_folder) {
                continue;
            }
            if found.len() >= FILES_MAX {
                return;
            }
            if entry.is_folder {
                if kind != (Kind::Template { recursive: false }) {
                    self.walk(&entry.path, kind, depth + 1, ignored, found);
                }
            } else if entry.is_file && is_markdown(&entry.path) && (kind != Kind::Skill || depth == 0) {
                found.push(entry.path);
            }
        }
    }

    /// The entries of a folder in the order of their names, as far as the scan may go.
    fn entries(&mut self, folder: &Path) -> Vec<Entry> {
        let listed = match std::fs::read_dir(folder) {
            Ok(listed) => listed,
            Err(error) => {
                self.problems.push((format!("the folder cannot be read: {error}"), folder.to_owned()));
                return Vec::new();
            }
        };
        let mut entries = Vec::new();
        for entry in listed.flatten() {
            let Some(left) = self.entries_left.checked_sub(1) else {
                // Every folder that is left has the same to say.
                if !self.ended {
                    self.problems.push((format!("only {ENTRIES_MAX} files and folders are looked at"), folder.to_owned()));
                }
                self.ended = true;
                break;
            };
            self.entries_left = left;
            let (path, Ok(mut file_type)) = (entry.path(), entry.file_type()) else { continue };
            if file_type.is_symlink() {
                // A link to nothing, or to itself, is nothing.
                let Ok(target) = std::fs::metadata(&path) else { continue };
                file_type = target.file_type();
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            entries.push(Entry { name, path, is_folder: file_type.is_dir(), is_file: file_type.is_file() });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        entries
    }
}

pub(super) fn is_markdown(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use super::*;

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        folder
    }

    fn found(folder: &tempfile::TempDir, kind: Kind) -> (Vec<String>, Vec<(String, PathBuf)>) {
        let mut scan = Scan::new();
        let files = scan.folder(folder.path(), kind);
        let below = |path: PathBuf| path.strip_prefix(folder.path()).unwrap().to_string_lossy().into_owned();
        let problems = scan.problems.into_iter().map(|(text, path)| (text, below(path).into())).collect();
        (files.into_iter().map(below).collect(), problems)
    }

    #[test]
    fn a_skill_ends_its_branch_and_loose_files_count_at_the_top() {
        let folder = tree(&[
            "loose.md",
            "notes.txt",
            "greet/SKILL.md",
            "greet/more/SKILL.md",
            "greet/other.md",
            "group/one/SKILL.md",
            "group/two/SKILL.md",
            "group/not-loose.md",
            ".hidden/SKILL.md",
            "node_modules/x/SKILL.md",
            "skipped/SKILL.md",
            "group/out/SKILL.md",
            "md/x.MD",
        ]);
        std::fs::write(folder.path().join(".gitignore"), "skipped/\n").unwrap();
        std::fs::write(folder.path().join("group/.ignore"), "out\n").unwrap();
        let expected = ["greet/SKILL.md", "group/one/SKILL.md", "group/two/SKILL.md", "loose.md"];
        assert_eq!(found(&folder, Kind::Skill), (expected.map(str::to_owned).into(), Vec::new()));
        std::fs::write(folder.path().join("SKILL.md"), "x").unwrap();
        assert_eq!(found(&folder, Kind::Skill).0, ["SKILL.md"]);
        let direct = found(&folder, Kind::Template { recursive: false }).0;
        assert_eq!(direct, ["SKILL.md", "loose.md"]);
        let all = found(&folder, Kind::Template { recursive: true }).0;
        assert_eq!(all.len(), 8, "{all:?}");
    }

    #[test]
    fn links_are_followed_once() {
        let folder = tree(&["a/one/SKILL.md", "z/SKILL.md"]);
        let path = |name: &str| folder.path().join(name);
        symlink(folder.path(), path("a/up")).unwrap();
        symlink("loop-b", path("loop-a")).unwrap();
        symlink("loop-a", path("loop-b")).unwrap();
        symlink("nowhere", path("SKILL.md")).unwrap();
        symlink(path("z"), path("b")).unwrap();
        symlink(path("z/SKILL.md"), path("linked.md")).unwrap();
        // `b` and `z` are one folder; the first way to it counts.
        assert_eq!(found(&folder, Kind::Skill), (vec!["a/one/SKILL.md".into(), "b/SKILL.md".into(), "linked.md".into()], Vec::new()));
    }

    #[test]
    fn the_end_of_a_scan_is_told_once_for_each_root() {
        let folder = tree(&["a/x", "b/x", "c/x", "d/x"]);
        let mut scan = Scan { entries_left: 4, ..Scan::new() };
        for told in [1, 2] {
            assert_eq!(scan.folder(folder.path(), Kind::Skill), [""; 0].map(PathBuf::from));
            assert_eq!(scan.problems.len(), told, "{:?}", scan.problems);
        }
    }

    #[test]
    fn hostile_trees_end_soon() {
        let folder = tree(&[]);
        let mut deep = folder.path().to_owned();
        for _ in 0..40 {
            deep.push("d");
        }
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("SKILL.md"), "x").unwrap();
        let pipe = folder.path().join("piped");
        std::fs::create_dir(&pipe).unwrap();
        assert!(std::process::Command::new("mkfifo").args([pipe.join("SKILL.md"), pipe.join(".gitignore")]).status().unwrap().success());
        let (files, problems) = found(&folder, Kind::Skill);
        assert_eq!(files, [""; 0]);
        let texts: Vec<&str> = problems.iter().map(|(text, _)| text.as_str()).collect();
        assert_eq!(texts, ["folders more than 16 levels deep are not looked at", "skill path is not a regular file"]);

        let many = tree(&[]);
        // One that is beyond the bound costs nothing, so that a hundred thousand take as long as these.
        for number in 0..ENTRIES_MAX + 2000 {
            std::fs::File::create(many.path().join(format!("{number}.md"))).unwrap();
        }
        let started = Instant::now();
        let (files, problems) = found(&many, Kind::Skill);
        assert_eq!((files.len(), problems.len()), (FILES_MAX, 1));
        assert_eq!(problems[0].0, "only 20000 files and folders are looked at");
        assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    }
}
