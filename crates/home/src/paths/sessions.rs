//! The name of the folder that holds the sessions of one workspace.
//!
//! Invariant: the name is one plain path component of at most 255 bytes, and for every path that wolli 0.0.2 can store it is
//! the one that wolli 0.0.2 gives.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use ring::digest;

use crate::token::hex;

/// Longest name that common file systems store.
const NAME_MAX_BYTES: usize = 255;
/// What is kept of a path that is too long; the rest is told apart by a hash.
const KEPT_BYTES: usize = 200;

/// Encodes an absolute workspace path: one leading separator is dropped, every `/`, `\` and `:` becomes `-`, and `--` goes around.
pub fn session_folder_name(workspace: &Path) -> String {
    let text = workspace.to_string_lossy();
    let text = text.strip_prefix(['/', '\\']).unwrap_or(&text);
    let encoded = text.replace(['/', '\\', ':'], "-");
    let name = format!("--{encoded}--");
    if name.len() <= NAME_MAX_BYTES {
        return name;
    }
    let hash = digest::digest(&digest::SHA256, workspace.as_os_str().as_bytes());
    let kept = &encoded[..encoded.floor_char_boundary(KEPT_BYTES)];
    format!("--{kept}-{}--", &hex(hash.as_ref())[..16])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_names() {
        for (path, name) in [
            ("/home/u/.wolli/agents/scribe/workspace", "--home-u-.wolli-agents-scribe-workspace--"),
            ("/", "----"),
            ("//a", "---a--"),
            ("\\a\\b", "--a-b--"),
            ("/a:b/c d", "--a-b-c d--"),
            ("/ä", "--ä--"),
        ] {
            assert_eq!(session_folder_name(Path::new(path)), name);
        }
    }

    #[test]
    fn long_paths_are_shortened_and_stay_apart() {
        let long = |end: &str| session_folder_name(Path::new(&format!("/{}{end}", "ä/".repeat(200))));
        assert_ne!(long("a"), long("b"));
        assert!(long("a").len() <= NAME_MAX_BYTES);
        assert!(long("a").starts_with("--ä-ä-") && long("a").ends_with("--"));
    }

    proptest! {
        #[test]
        fn always_one_plain_component(path in "\\PC{0,300}") {
            let name = session_folder_name(Path::new(&path));
            prop_assert!(name.len() <= NAME_MAX_BYTES);
            prop_assert!(!name.contains('/'));
            prop_assert!(name.starts_with("--") && name.ends_with("--"));
        }
    }
}
