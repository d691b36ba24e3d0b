//! What wolli 0.0.2 would load as code, and we do not: in-process extensions and integrations. Each is told, none is opened. Accounts of
//! integrations are only looked at for being readable.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::filters;
use super::ignored::is_hidden;

/// Entries of one folder that are told.
const TOLD_MAX: usize = 50;

/// Texts with the path that they are about. Blocking.
pub(super) fn problems(home: &Path, user_home: Option<&Path>, settings: &Map<String, Value>) -> Vec<(String, PathBuf)> {
    let mut problems = Vec::new();
    for (key, word) in [("extensions", "extension"), ("integrations", "integration")] {
        let listed = settings.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        let listed = listed.filter(|entry| !entry.starts_with(['!', '+', '-']) && !entry.contains(['*', '?']));
        let listed = listed.map(|entry| filters::resolve(entry, home, user_home));
        let mut found: Vec<PathBuf> = listed.take(TOLD_MAX).collect();
        found.extend(code_in(&home.join(key)));
        let text = format!("{word} is not loaded: code within the process is not supported");
        problems.extend(found.into_iter().map(|path| (text.clone(), path)));
    }
    problems.extend(accounts_problem(home));
    problems
}

fn accounts_problem(home: &Path) -> Option<(String, PathBuf)> {
    let path = home.join("integrations.json");
    let problem = match wolli_home::reading::read(&path) {
        Ok(Some(content)) if !content.iter().all(u8::is_ascii_whitespace) => {
            serde_json::from_slice::<Map<String, Value>>(&content).err()?.to_string()
        }
        Ok(_) => return None,
        Err(error) => error.to_string(),
    };
    Some((format!("integrations.json cannot be used: {problem}"), path))
}

/// The files and folders that would be loaded, in the order of their names.
fn code_in(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
    let named = entries.flatten().take(10 * TOLD_MAX).filter(|entry| !is_hidden(&entry.file_name().to_string_lossy()));
    let code = named.map(|entry| entry.path()).filter(|path| {
        let is_script = path.extension().is_some_and(|extension| ["ts", "js", "mjs", "cjs"].iter().any(|known| extension == *known));
        let is_package = || ["index.ts", "index.js", "package.json"].iter().any(|name| path.join(name).is_file());
        is_script || is_package()
    });
    let mut found: Vec<PathBuf> = code.take(TOLD_MAX).collect();
    found.sort();
    found
}
