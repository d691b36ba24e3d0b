//! One skill: a Markdown file that tells the model how to do something, and what is asked of its header.

use std::fmt::Write as _;
use std::io;
use std::path::Path;

use wolli_protocol::resource::{Skill, SourceInfo};
use wolli_protocol::text::{utf16_len, utf16_prefix};

use super::front_matter::{self, HEADER_MAX_BYTES, Header};
use super::text::{TEXT_MAX_BYTES, read_at_most, read_whole, too_large};

const NAME_MAX: usize = 64;
const DESCRIPTION_MAX: usize = 1024;

/// Enough of a file for its header and the lines around it.
const HEAD_BYTES: u64 = HEADER_MAX_BYTES as u64 + 4096;

/// A file that was read for its header, and what is wrong with it.
#[derive(Debug)]
pub(super) struct Loaded {
    /// Absent if it cannot be used.
    pub(super) skill: Option<Skill>,
    pub(super) warnings: Vec<String>,
}

/// Reads the header of a skill. Blocking.
pub(super) fn load(path: &Path, source_info: SourceInfo) -> Loaded {
    match header(path) {
        Ok((header, _)) => check(path, header, source_info),
        Err(problem) => Loaded { skill: None, warnings: vec![problem] },
    }
}

/// The header of a skill or template, and the beginning of its body. Blocking.
pub(super) fn header(path: &Path) -> Result<(Header, String), String> {
    let (text, size) = read_at_most(path, HEAD_BYTES).map_err(|error| format!("the file cannot be read: {error}"))?;
    if size > TEXT_MAX_BYTES {
        return Err(too_large().to_string());
    }
    let parts = front_matter::split(&text);
    let Some(yaml) = parts.yaml else {
        if size > HEAD_BYTES && text.starts_with("---") {
            return Err(format!("the front matter is larger than {} KiB", HEADER_MAX_BYTES / 1024));
        }
        return Ok((Header::default(), parts.body));
    };
    front_matter::parse(&yaml).map(|header| (header, parts.body))
}

fn check(path: &Path, header: Header, source_info: SourceInfo) -> Loaded {
    let folder = path.parent().unwrap_or(path);
    let name = header.name.unwrap_or_else(|| folder.file_name().unwrap_or_default().to_string_lossy().into_owned());
    let mut warnings = Vec::new();
    match &header.description {
        None => warnings.push("description is required".to_owned()),
        Some(description) => {
            let length = utf16_len(description);
            if length > DESCRIPTION_MAX {
                warnings.push(format!("description exceeds {DESCRIPTION_MAX} characters ({length})"));
            }
        }
    }
    let length = utf16_len(&name);
    if length > NAME_MAX {
        warnings.push(format!("name exceeds {NAME_MAX} characters ({length})"));
    }
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-') {
        warnings.push("name contains invalid characters (must be lowercase a-z, 0-9, hyphens only)".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        warnings.push("name must not start or end with a hyphen".to_owned());
    }
    if name.contains("--") {
        warnings.push("name must not contain consecutive hyphens".to_owned());
    }
    let skill = header.description.map(|description| Skill {
        name,
        description,
        file_path: path.to_string_lossy().into_owned(),
        base_dir: folder.to_string_lossy().into_owned(),
        source_info,
        disable_model_invocation: header.disable_model_invocation,
    });
    Loaded { skill, warnings }
}

/// What the system prompt says about the skills that the model may use by itself; nothing if there are none.
pub(super) fn prompt_part(skills: &[Skill]) -> Option<String> {
    let mut visible = skills.iter().filter(|skill| !skill.disable_model_invocation).peekable();
    visible.peek()?;
    let mut part = "\n\
        Skills give instructions for specific tasks.\n\
        When a task matches the description of a skill, load its file with the read tool before you begin.\n\
        When a skill's file names a relative path, resolve it against the folder of that file, and use the absolute path.\n\n\
        <available_skills>"
        .to_owned();
    for skill in visible {
        // A description that is too long was warned of; the prompt stays within reason all the same.
        let description = utf16_prefix(&skill.description, DESCRIPTION_MAX);
        let _ = write!(
            part,
            "\n  <skill>\n    <name>{}</name>\n    <description>{}</description>\n    <location>{}</location>\n  </skill>",
            escape(&skill.name),
            escape(description),
            escape(&skill.file_path)
        );
    }
    part.push_str("\n</available_skills>");
    Some(part)
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            letter => escaped.push(letter),
        }
    }
    escaped
}

/// The user message of `/skill:<name> <arguments>`. Clients recognise this shape, from its first character to its last. Blocking.
pub(super) fn invoke(skill: &Skill, arguments: &str) -> io::Result<String> {
    let body = front_matter::split(&read_whole(Path::new(&skill.file_path))?).body;
    let mut message = format!(
        "<skill name=\"{}\" location=\"{}\">\nReferences are relative to {}.\n\n{body}\n</skill>",
        skill.name, skill.file_path, skill.base_dir
    );
    let arguments = arguments.trim();
    if !arguments.is_empty() {
        message.push_str("\n\n");
        message.push_str(arguments);
    }
    Ok(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source() -> SourceInfo {
        SourceInfo { path: "p".into(), source: "auto".into(), scope: "user".into(), origin: "top-level".into(), base_dir: None }
    }

    #[test]
    fn headers_are_checked_with_the_known_texts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("from-folder/SKILL.md");
        std::fs::create_dir(path.parent().unwrap()).unwrap();
        let long_name = "n".repeat(65);
        let long = "d".repeat(1025);
        for (content, name, warnings) in [
            ("---\ndescription: d\n---\nbody".to_owned(), Some("from-folder"), &[][..]),
            ("---\nname: greet\ndescription: d\n---".into(), Some("greet"), &[]),
            ("no front matter".into(), None, &["description is required"]),
            ("---\nname: greet\ndescription: '  '\n---".into(), None, &["description is required"]),
            (format!("---\ndescription: {long}\n---"), Some("from-folder"), &["description exceeds 1024 characters (1025)"]),
            (format!("---\nname: {long_name}\ndescription: d\n---"), Some(&*long_name), &["name exceeds 64 characters (65)"]),
            (
                "---\nname: -A b--\ndescription: d\n---".into(),
                Some("-A b--"),
                &[
                    "name contains invalid characters (must be lowercase a-z, 0-9, hyphens only)",
                    "name must not start or end with a hyphen",
                    "name must not contain consecutive hyphens",
                ],
            ),
        ] {
            std::fs::write(&path, &content).unwrap();
            let loaded = load(&path, source());
            assert_eq!(loaded.skill.as_ref().map(|skill| skill.name.as_str()), name, "{content}");
            assert_eq!(loaded.warnings, warnings, "{content}");
        }
        std::fs::write(&path, "---\nname: [\n---").unwrap();
        let loaded = load(&path, source());
        assert!(loaded.skill.is_none() && loaded.warnings.len() == 1, "{loaded:?}");
        std::fs::write(&path, format!("---\nname: {}", "x".repeat(200 << 10))).unwrap();
        assert_eq!(load(&path, source()).warnings, ["the front matter is larger than 16 KiB"]);
        std::fs::write(&path, format!("---\nname: {}\n---", "x".repeat(10 << 20))).unwrap();
        assert_eq!(load(&path, source()).warnings, ["the file is larger than 1 MiB"]);
    }

    #[test]
    fn the_prompt_lists_what_the_model_may_use() {
        let skill = |name: &str, hidden| Skill {
            name: name.into(),
            description: "says \"<hello>\" & 'bye'".into(),
            file_path: format!("/h/skills/{name}/SKILL.md"),
            base_dir: format!("/h/skills/{name}"),
            source_info: source(),
            disable_model_invocation: hidden,
        };
        assert_eq!(prompt_part(&[skill("a", true)]), None);
        let part = prompt_part(&[skill("a", true), skill("b", false)]).unwrap();
        let expected = "<available_skills>\n  <skill>\n    <name>b</name>\n    <description>says &quot;&lt;hello&gt;&quot; &amp; \
                        &apos;bye&apos;</description>\n    <location>/h/skills/b/SKILL.md</location>\n  </skill>\n</available_skills>";
        assert_eq!(part.split_once("\n\n").unwrap().1, expected);
        assert_eq!(part.split_once("\n\n").unwrap().0.trim_start().lines().count(), 3);
    }

    #[test]
    fn an_invocation_has_the_shape_that_clients_draw() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("SKILL.md");
        std::fs::write(&path, "---\ndescription: d\n---\n\n# Do it\r\nnow\n\n").unwrap();
        let skill = load(&path, source()).skill.unwrap();
        let (file, base) = (path.to_str().unwrap(), folder.path().to_str().unwrap());
        let block =
            format!("<skill name=\"{}\" location=\"{file}\">\nReferences are relative to {base}.\n\n# Do it\nnow\n</skill>", skill.name);
        assert_eq!(invoke(&skill, " \n").unwrap(), block);
        assert_eq!(invoke(&skill, "  all of it \n").unwrap(), format!("{block}\n\nall of it"));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(invoke(&skill, "").unwrap_err().kind(), io::ErrorKind::NotFound);
    }
}
