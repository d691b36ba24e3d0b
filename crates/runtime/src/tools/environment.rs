//! Which variables programs of a tool see: an allow list, so that no key and no token of the daemon reaches a model. Pure.

use std::collections::BTreeMap;
use std::path::Path;

/// Names that pass.
const ALLOWED: [&str; 9] = ["HOME", "PATH", "LANG", "TERM", "TZ", "TMPDIR", "USER", "LOGNAME", "SHELL"];

/// Beginnings of names that pass.
const ALLOWED_PREFIXES: [&str; 2] = ["LC_", "XDG_"];

/// Tells programs that an agent runs them.
const MARKER: (&str, &str) = ("WOLLI_CODING_AGENT", "true");

/// Where programs are looked for if nothing is set.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// The environment of tools, out of the daemon's. `bin` (the folder of helper programs that agents share) comes first on `PATH`.
#[must_use]
pub fn tool_environment<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>, bin: Option<&Path>) -> BTreeMap<String, String> {
    let passes = |name: &str| ALLOWED.contains(&name) || ALLOWED_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    let mut environment: BTreeMap<String, String> =
        variables.into_iter().filter(|(name, _)| passes(name)).map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    environment.insert(MARKER.0.to_owned(), MARKER.1.to_owned());
    let path = environment.entry("PATH".to_owned()).or_insert_with(|| USUAL_PATH.to_owned());
    if let Some(bin) = bin.and_then(Path::to_str) {
        *path = format!("{bin}:{path}");
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_list_passes() {
        let variables = [
            ("HOME", "/home/u"),
            ("PATH", "/bin"),
            ("LC_ALL", "C"),
            ("XDG_CONFIG_HOME", "/c"),
            ("ANTHROPIC_API_KEY", "sk"),
            ("WOLLI_DAEMON_TOKEN", "t"),
            ("GITHUB_TOKEN", "g"),
            ("LD_PRELOAD", "x.so"),
            ("LCD", "x"),
            ("WOLLI_CODING_AGENT", "maybe"),
        ];
        let seen: Vec<String> = tool_environment(variables, Some(Path::new("/shared/bin")))
            .into_iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        assert_eq!(seen, ["HOME=/home/u", "LC_ALL=C", "PATH=/shared/bin:/bin", "WOLLI_CODING_AGENT=true", "XDG_CONFIG_HOME=/c"]);
        assert_eq!(tool_environment([], None)["PATH"], USUAL_PATH);
    }
}
