//! What a path argument means.
//!
//! Models copy paths from anywhere: with a leading `@`, as a `file://` URL, with `~`, with no-break spaces. Everything becomes an absolute path
//! without `.` and `..`; nothing here decides whether it may be used.

use std::path::{Component, Path, PathBuf};

use unicode_normalization::UnicodeNormalization;

use super::context::ToolContext;

/// Resolves a path argument against the home.
pub(super) fn resolve(argument: &str, context: &ToolContext) -> PathBuf {
    let user_home = context.environment.get("HOME").map(Path::new);
    absolute(&plain_spaces(argument), &context.home, user_home)
}

/// As [`resolve`], and if nothing is there, other spellings of the same name that exist.
pub(super) fn resolve_existing(argument: &str, context: &ToolContext) -> PathBuf {
    let path = resolve(argument, context);
    if path.symlink_metadata().is_ok() {
        return path;
    }
    let user_home = context.environment.get("HOME").map(Path::new);
    let as_written = absolute(argument, &context.home, user_home);
    let others = path.to_str().map(spellings).unwrap_or_default();
    let mut candidates = std::iter::once(as_written).chain(others.into_iter().map(PathBuf::from));
    candidates.find(|candidate| candidate.symlink_metadata().is_ok()).unwrap_or(path)
}

/// The path without symbolic links, as far as it exists: what two spellings of one file have in common.
pub(super) fn real(path: &Path) -> PathBuf {
    /// The system follows no longer chains either.
    const MAX_LINKS: usize = 40;

    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        if let Ok(real) = path.canonicalize() {
            return real;
        }
        // A link to a file that is not there yet.
        let Ok(target) = path.read_link() else { break };
        path = normalize(&path.parent().unwrap_or(Path::new("/")).join(target));
    }
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => real(parent).join(name),
        _ => path,
    }
}

fn plain_spaces(argument: &str) -> String {
    let plain = |character| match character {
        '\u{a0}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}' => ' ',
        other => other,
    };
    argument.chars().map(plain).collect()
}

fn absolute(argument: &str, home: &Path, user_home: Option<&Path>) -> PathBuf {
    let argument = argument.strip_prefix('@').unwrap_or(argument);
    let from_url = file_url(argument);
    let argument = from_url.as_deref().unwrap_or(argument);
    let path = match (argument.strip_prefix('~'), user_home) {
        (Some(""), Some(user_home)) => user_home.to_owned(),
        (Some(rest), Some(user_home)) if rest.starts_with('/') => user_home.join(rest.trim_start_matches('/')),
        _ => home.join(argument),
    };
    normalize(&path)
}

/// The path of a `file://` URL of this machine.
fn file_url(argument: &str) -> Option<String> {
    let rest = argument.strip_prefix("file://")?;
    let path = rest.strip_prefix("localhost").filter(|path| path.starts_with('/')).unwrap_or(rest);
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let decoded = after.get(..2).and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        match decoded {
            Some(decoded) if byte == b'%' => {
                bytes.push(decoded);
                rest = after.get(2..).unwrap_or_default();
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8(bytes).ok()
}

/// Takes out `.` and `..` by text, as shells and Node programs do.
fn normalize(path: &Path) -> PathBuf {
    let mut result = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                result.pop();
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => result.push(component),
        }
    }
    result
}

/// How macOS may have written the name: screenshots have a narrow no-break space before AM and PM, names are decomposed, apostrophes are curly.
fn spellings(path: &str) -> [String; 4] {
    let mut narrow = path.to_owned();
    for mark in ["AM.", "PM.", "am.", "pm."] {
        narrow = narrow.replace(&format!(" {mark}"), &format!("\u{202f}{mark}"));
    }
    let decomposed: String = path.nfd().collect();
    let curly = path.replace('\'', "\u{2019}");
    let both = decomposed.replace('\'', "\u{2019}");
    [narrow, decomposed, curly, both]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tools::testing::Home;

    #[test]
    fn table() {
        for (argument, expected) in [
            ("a.txt", "/home/agent/a.txt"),
            ("", "/home/agent"),
            (".", "/home/agent"),
            ("./a/../b", "/home/agent/b"),
            ("../x", "/home/x"),
            ("../../../../x", "/x"),
            ("/etc/hosts", "/etc/hosts"),
            ("@a.txt", "/home/agent/a.txt"),
            ("@@a.txt", "/home/agent/@a.txt"),
            ("@/etc/hosts", "/etc/hosts"),
            ("~", "/home/user"),
            ("~/a b", "/home/user/a b"),
            ("~//a", "/home/user/a"),
            ("@~/x", "/home/user/x"),
            ("~other/x", "/home/agent/~other/x"),
            ("file:///a%20b/%C3%A9", "/a b/é"),
            ("file://localhost/x", "/x"),
            ("file://elsewhere/x", "/home/agent/file:/elsewhere/x"),
            ("file:///a%zz%", "/a%zz%"),
            ("a\u{a0}b\u{202f}c\u{3000}d", "/home/agent/a b c d"),
        ] {
            let resolved = absolute(&plain_spaces(argument), Path::new("/home/agent"), Some(Path::new("/home/user")));
            assert_eq!(resolved, Path::new(expected), "{argument:?}");
        }
    }

    #[test]
    fn other_spellings_are_found() {
        let home = Home::new();
        for name in
            ["Shot 1.00\u{202f}PM.png", "caf\u{65}\u{301}.txt", "it\u{2019}s.txt", "l\u{65}\u{301}a\u{2019}s.txt", "no\u{a0}break.txt"]
        {
            home.write(name, "x");
        }
        for (argument, found) in [
            ("Shot 1.00 PM.png", "Shot 1.00\u{202f}PM.png"),
            ("café.txt", "caf\u{65}\u{301}.txt"),
            ("it's.txt", "it\u{2019}s.txt"),
            ("léa's.txt", "l\u{65}\u{301}a\u{2019}s.txt"),
            ("no\u{a0}break.txt", "no\u{a0}break.txt"),
            ("missing.txt", "missing.txt"),
        ] {
            assert_eq!(resolve_existing(argument, &home.context()), home.path(found), "{argument:?}");
        }
    }

    #[test]
    fn links_are_followed_even_to_nothing() {
        let home = Home::new();
        home.write("dir/file", "x");
        for (link, target) in [("link", "dir/file"), ("far", "link"), ("dangling", "dir/new"), ("loop", "loop"), ("linked", "dir")] {
            std::os::unix::fs::symlink(target, home.path(link)).unwrap();
        }
        let base = home.path("").canonicalize().unwrap();
        for (path, expected) in [
            ("link", "dir/file"),
            ("far", "dir/file"),
            ("dangling", "dir/new"),
            ("linked/none/x", "dir/none/x"),
            ("dir/file", "dir/file"),
            ("loop", "loop"),
        ] {
            assert_eq!(real(&home.path(path)), base.join(expected), "{path}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]
        #[test]
        fn always_absolute_and_without_dots(argument in "[@~a./% \u{a0}é\\PC]{0,30}|file://[a-z/%0-9.]{0,20}") {
            let resolved = absolute(&plain_spaces(&argument), Path::new("/h/a"), Some(Path::new("/u")));
            prop_assert!(resolved.is_absolute());
            prop_assert!(resolved.components().all(|part| !matches!(part, Component::ParentDir | Component::CurDir)));
            // Resolving what was resolved changes nothing, unless it looks like one of the special forms again.
            prop_assert_eq!(absolute(resolved.to_str().unwrap(), Path::new("/h/a"), None), resolved);
        }
    }
}
