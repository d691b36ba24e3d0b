//! The `PATH` of a service: what the user's own shell has after a login, since that is where the user installs programs.
//!
//! A service manager starts programs with a few system folders only, and the shell that installs the service may have less or more
//! than a login gives. The shell is asked once, with a limit on time and output; start-up files may print, ask, hang or fail.

use std::path::{Path, PathBuf};
use std::time::Duration;

use wolli_exec::{Ending, Program, RunSettings};
use wolli_home::environment::Environment;

/// How long the login shell may take. Version managers in start-up files are slow; a prompt waits for ever.
const SHELL_LIMIT: Duration = Duration::from_secs(5);

/// What stands before and after the value among everything else that start-up files print.
const MARK: &str = "__wolli_path__";

/// Where programs are when nobody knows better.
const SYSTEM_FOLDERS: &[&str] = &["/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"];

/// Below the user's home, in the order of their likelihood.
const USER_FOLDERS: &[&str] = &[".local/bin", ".cargo/bin", "bin"];

/// A `PATH`, and how it was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SearchPath {
    pub value: String,
    /// Why it is not the login shell's; `None` if it is.
    pub fallback: Option<String>,
}

/// Asks the login shell; if it does not say, takes the `PATH` of this environment. Folders in `writable` (and below) are left out: what an
/// agent can write must not stand in for a program. Cancel-safe: dropping it ends the shell.
pub async fn search_path(environment: &Environment, writable: &[PathBuf]) -> SearchPath {
    let (found, fallback) = match ask_shell(environment).await {
        Ok(value) => (value, None),
        Err(problem) => (environment.search_path().map(|value| value.to_string_lossy().into_owned()).unwrap_or_default(), Some(problem)),
    };
    SearchPath { value: assemble(&found, environment.user_home(), writable, Path::is_dir), fallback }
}

async fn ask_shell(environment: &Environment) -> Result<String, String> {
    let shell = environment.variable("SHELL").filter(|shell| Path::new(shell).is_absolute()).ok_or("SHELL is not set")?;
    let home = environment.user_home().ok_or("HOME is not set")?;
    let kept = ["HOME", "USER", "LOGNAME", "SHELL", "LANG", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "ZDOTDIR"];
    let variables = kept.iter().filter_map(|name| Some(((*name).to_owned(), environment.variable(name)?.to_owned())));
    let folder = if home.is_dir() { home } else { Path::new("/") };
    let script = format!("printf %s {MARK}; printenv PATH; printf %s {MARK}");
    let program = Program::new(shell, folder)
        .arguments(["-l", "-i", "-c", &script])
        .environment(variables)
        .environment([("TERM", "dumb"), ("PATH", "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin")]);
    let settings = RunSettings { time_limit: Some(SHELL_LIMIT), ..RunSettings::default() };
    let finished = wolli_exec::run(program, settings, None).await.map_err(|error| format!("{shell} did not start: {error}"))?;
    if finished.ending != Ending::Exited {
        return Err(format!("{shell} did not answer within {} s", SHELL_LIMIT.as_secs()));
    }
    marked(finished.output.head()).ok_or_else(|| format!("{shell} did not say its PATH"))
}

/// The value between the last two marks; start-up files may print anything before.
fn marked(output: &str) -> Option<String> {
    let (before, _) = output.rsplit_once(MARK)?;
    let (_, value) = before.rsplit_once(MARK)?;
    Some(value.trim_end_matches(['\r', '\n']).to_owned()).filter(|value| !value.is_empty() && !value.contains('\n'))
}

/// Absolute folders that exist, each once, without those that an agent can write; then the usual ones.
fn assemble(found: &str, home: Option<&Path>, writable: &[PathBuf], exists: impl Fn(&Path) -> bool) -> String {
    let mut folders: Vec<PathBuf> = Vec::new();
    let users = home.into_iter().flat_map(|home| USER_FOLDERS.iter().map(move |folder| home.join(folder)));
    let all = found.split(':').map(PathBuf::from).chain(users).chain(SYSTEM_FOLDERS.iter().map(PathBuf::from));
    for folder in all {
        let usable = folder.is_absolute() && !writable.iter().any(|writable| folder.starts_with(writable)) && exists(&folder);
        if usable && !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    let names: Vec<String> = folders.iter().map(|folder| folder.to_string_lossy().into_owned()).collect();
    names.join(":")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_value_is_found_among_other_output() {
        for (output, value) in [
            (format!("{MARK}/a:/b\n{MARK}"), Some("/a:/b")),
            (format!("Welcome!\r\n{MARK}x\n{MARK}/a\r\n{MARK}"), Some("/a")),
            (format!("{MARK}\n{MARK}"), None),
            (format!("{MARK}/a\n/b\n{MARK}"), None),
            (MARK.to_owned(), None),
            (String::new(), None),
        ] {
            assert_eq!(marked(&output).as_deref(), value, "{output}");
        }
    }

    #[test]
    fn folders_are_checked() {
        let exists = |folder: &Path| folder != Path::new("/gone") && folder != Path::new("/h/bin");
        let path = assemble("/x:relative::/gone:/x:/root/agents/a/bin:/bin", Some(Path::new("/h")), &["/root".into()], exists);
        assert_eq!(path, "/x:/bin:/h/.local/bin:/h/.cargo/bin:/usr/local/bin:/usr/bin:/usr/local/sbin:/usr/sbin:/sbin");
    }

    /// A shell of the test's own, as a script.
    fn shell(folder: &Path, script: &str) -> Environment {
        let path = folder.join("shell");
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let folder = folder.to_str().unwrap();
        Environment::new([("SHELL", path.to_str().unwrap()), ("HOME", folder), ("PATH", "/bin")], "/")
    }

    #[tokio::test]
    async fn the_login_shell_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        std::fs::create_dir(&own).unwrap();
        let script = format!("echo hello; PATH={}:$PATH; export PATH; eval \"$4\"", own.display());
        let found = search_path(&shell(folder.path(), &script), &[]).await;
        assert_eq!(found.fallback, None);
        assert!(found.value.starts_with(&format!("{}:/usr/local/bin", own.display())), "{}", found.value);
    }

    #[tokio::test]
    async fn a_shell_that_fails_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        for (script, problem) in [("exit 3", "did not say its PATH"), ("echo something else", "did not say its PATH")] {
            let found = search_path(&shell(folder.path(), script), &[]).await;
            assert!(found.fallback.as_deref().is_some_and(|text| text.contains(problem)), "{found:?}");
            assert!(found.value.starts_with("/bin:"), "{}", found.value);
        }
        let unset = search_path(&Environment::new([("PATH", "/bin")], "/"), &[]).await;
        assert_eq!(unset.fallback.as_deref(), Some("SHELL is not set"));
    }
}
