//! The plugins that the settings list. None is loaded; they are told, and can be taken off the list.
//!
//! Two sources mean one plugin if they have one identity: versions and refs do not count. Pure: no file is touched.

use std::path::Path;

use serde_json::Value;
use wolli_protocol::resource::ConfiguredPlugin;

use super::filters;

/// The list as clients see it; entries that are none are left out.
pub(super) fn configured(list: &[Value]) -> Vec<ConfiguredPlugin> {
    let plugin = |entry: &Value| {
        Some(ConfiguredPlugin {
            source: source_of(entry)?.to_owned(),
            scope: "user".into(),
            filtered: entry.is_object(),
            installed_path: None,
        })
    };
    list.iter().filter_map(plugin).collect()
}

fn source_of(entry: &Value) -> Option<&str> {
    entry.as_str().or_else(|| entry.get("source")?.as_str())
}

/// The list without the plugin that `source` means; nothing if it is not on it.
pub(crate) fn without(list: &[Value], source: &str, home: &Path) -> Option<Vec<Value>> {
    let wanted = identity(source, home);
    let kept: Vec<Value> =
        list.iter().filter(|entry| source_of(entry).is_none_or(|known| identity(known, home) != wanted)).cloned().collect();
    (kept.len() < list.len()).then_some(kept)
}

/// Whether a source is a path of this machine.
pub(crate) fn is_local(source: &str) -> bool {
    !source.starts_with("npm:") && repository(source).is_none()
}

/// The listed source that somebody means who left out its prefix.
pub(crate) fn suggestion<'a>(listed: &'a [ConfiguredPlugin], source: &str, home: &Path) -> Option<&'a str> {
    let wanted = source.trim();
    listed.iter().map(|plugin| plugin.source.as_str()).find(|known| {
        let known_identity = identity(known, home);
        let bare = |text: &str| text.split_once(':').is_some_and(|(_, rest)| rest == wanted);
        bare(known) || (!known_identity.starts_with("local:") && bare(&known_identity))
    })
}

/// One for all ways to write one plugin.
pub(crate) fn identity(source: &str, home: &Path) -> String {
    let source = source.trim();
    if let Some(spec) = source.strip_prefix("npm:") {
        // The first `@` of `@scope/name@1.0` belongs to the name.
        let at = spec.char_indices().skip(1).find(|(_, letter)| *letter == '@').map_or(spec.len(), |(at, _)| at);
        return format!("npm:{}", &spec[..at]);
    }
    if let Some(repository) = repository(source) {
        return format!("git:{repository}");
    }
    let path = source.strip_prefix("file://").unwrap_or(source);
    format!("local:{}", filters::resolve(path, home, None).display())
}

/// `<host>/<path>` of a repository, without its ref.
fn repository(source: &str) -> Option<String> {
    let rest = match source.strip_prefix("git:") {
        Some(rest) => rest,
        None => ["https://", "http://", "ssh://"].into_iter().find_map(|scheme| source.starts_with(scheme).then_some(source))?,
    };
    let rest = rest.split_once("://").map_or(rest, |(_, rest)| rest);
    let (rest, scp) = rest.strip_prefix("git@").map_or((rest, false), |rest| (rest, true));
    let rest = rest.split(['#', '@']).next().unwrap_or_default();
    let rest = if scp { rest.replacen(':', "/", 1) } else { rest.to_owned() };
    let plain = rest.trim_end_matches('/');
    let plain = plain.strip_suffix(".git").unwrap_or(plain);
    let hostile = plain.contains("..") || plain.contains(['\\', '\0', '%']);
    (!hostile && plain.split('/').filter(|part| !part.is_empty()).count() >= 3).then(|| plain.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn identities_leave_versions_out() {
        let home = Path::new("/h");
        for (source, expected) in [
            ("npm:tools", "npm:tools"),
            ("npm:tools@1.2", "npm:tools"),
            ("npm:@acme/tools@^2", "npm:@acme/tools"),
            ("git:host.org/a/b@v1", "git:host.org/a/b"),
            ("git:git@host.org:a/b.git@v1", "git:host.org/a/b"),
            ("https://host.org/a/b.git#main", "git:host.org/a/b"),
            ("ssh://git@host.org/a/b", "git:host.org/a/b"),
            ("https://host.org/../a/b", "local:/h/https://host.org/../a/b"),
            ("./dir", "local:/h/dir"),
            ("/dir/", "local:/dir"),
            ("word", "local:/h/word"),
            ("file:///dir", "local:/dir"),
        ] {
            assert_eq!(identity(source, home), expected, "{source}");
        }
    }

    #[test]
    fn lists_are_read_and_shortened() {
        let home = Path::new("/h");
        let list = [json!("npm:tools@1"), json!({"source": "git:host.org/a/b", "skills": []}), json!(7), json!({"other": 1})];
        let plugins = configured(&list);
        let shown: Vec<(&str, bool)> = plugins.iter().map(|plugin| (plugin.source.as_str(), plugin.filtered)).collect();
        assert_eq!(shown, [("npm:tools@1", false), ("git:host.org/a/b", true)]);
        assert_eq!(without(&list, "npm:other", home), None);
        assert_eq!(without(&list, "npm:tools@2", home).unwrap(), list[1..]);
        assert_eq!(without(&list, "https://host.org/a/b@x", home).unwrap().len(), 3);
        assert_eq!(suggestion(&plugins, "tools", home), Some("npm:tools@1"));
        assert_eq!(suggestion(&plugins, "host.org/a/b", home), Some("git:host.org/a/b"));
        assert_eq!(suggestion(&plugins, "nothing", home), None);
        assert!(is_local("./x") && is_local("x") && !is_local("npm:x") && !is_local("git:h/a/b"));
    }
}
