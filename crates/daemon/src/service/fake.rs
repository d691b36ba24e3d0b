//! Service managers that are shell scripts on a `PATH` of the test's own: they note what they are told, do what changes the disk, and
//! fail where the test says so.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use wolli_home::environment::Environment;
use wolli_home::paths::{AgentHome, Root, ServiceName};

use super::definition::Definition;

/// Notes its arguments; fails on a line of `fail`, which is a pattern of the shell.
const COMMON: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$(basename "$0") $*" >>"$here/calls"
while read -r pattern; do
  case "$*" in
    $pattern) echo "told to fail" >&2; exit 1 ;;
  esac
done <"$here/fail"
"#;

const SYSTEMCTL: &str = r#"
units=$HOME/.config/systemd/user
for unit; do :; done
case "$*" in
  *" enable "*) mkdir -p "$units/default.target.wants" && ln -sf "../$unit" "$units/default.target.wants/$unit" ;;
  *" disable "*) rm -f "$units/default.target.wants/$unit" ;;
  *"show --property=Version"*) echo Version=252 ;;
  *" show "*)
    state=; [ ! -e "$units/default.target.wants/$unit" ] || state=enabled
    printf 'UnitFileState=%s\nActiveState=inactive\nMainPID=0\n' "$state" ;;
esac
"#;

const LOGINCTL: &str = r#"
case "$*" in
  *enable-linger*) touch "$here/lingers" ;;
  *) if [ -e "$here/lingers" ]; then echo yes; else echo no; fi ;;
esac
"#;

const LAUNCHCTL: &str = r#"
case "$*" in
  bootstrap*) touch "$here/loaded" ;;
  bootout*) rm "$here/loaded" ;;
  print*/com.wolli*)
    [ -e "$here/loaded" ] || { echo "Could not find service" >&2; exit 113; }
    printf 'x = {\n\tstate = running\n\n\tpid = 42\n}\n' ;;
esac
"#;

/// A machine with scripts for service managers.
pub(super) struct Machine {
    folder: TempDir,
    pub(super) environment: Environment,
    pub(super) name: ServiceName,
    pub(super) home: AgentHome,
}

impl Machine {
    pub(super) fn new(manager: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        for (name, script) in [("systemctl", SYSTEMCTL), ("loginctl", LOGINCTL), ("launchctl", LAUNCHCTL)] {
            std::fs::write(bin.join(name), format!("{COMMON}{script}")).unwrap();
            std::fs::set_permissions(bin.join(name), std::fs::Permissions::from_mode(0o755)).unwrap();
        }
        let user = folder.path().join("h");
        std::fs::create_dir(&user).unwrap();
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        let environment = Environment::new(
            [
                ("HOME", text(&user)),
                ("PATH", text(&bin)),
                ("USER", "somebody-of-the-test".to_owned()),
                ("XDG_RUNTIME_DIR", text(folder.path())),
                ("WOLLI_SERVICE_MANAGER", manager.to_owned()),
            ],
            "/",
        );
        let root = Root::of(&environment).unwrap();
        let home = root.agent(&"scribe".parse().unwrap());
        let name = ServiceName::new(&environment, &root, home.name());
        let machine = Self { folder, environment, name, home };
        machine.fail(&[]);
        machine
    }

    /// From now on calls that match one of the patterns fail.
    pub(super) fn fail(&self, patterns: &[&str]) {
        let lines: String = patterns.iter().flat_map(|pattern| [pattern, "\n"]).collect();
        std::fs::write(self.bin().join("fail"), lines).unwrap();
    }

    pub(super) fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    pub(super) fn user_home(&self) -> PathBuf {
        self.folder.path().join("h")
    }

    /// What was called since the last time, a line each.
    pub(super) fn calls(&self) -> Vec<String> {
        let path = self.bin().join("calls");
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let _ = std::fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }

    /// A definition that starts this program.
    pub(super) fn definition(&self, program: &str) -> Definition {
        Definition::new(&self.environment, &self.home, self.name.clone(), Path::new(program), "/usr/bin".into(), None)
    }

    /// Every file and link below the user's home folder, with what is in it.
    pub(super) fn disk(&self) -> Vec<(PathBuf, String)> {
        let mut found = Vec::new();
        let mut folders = vec![self.user_home()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
                let (path, kind) = (entry.path(), entry.file_type().unwrap());
                if kind.is_dir() {
                    folders.push(path.clone());
                    found.push((path, "a folder".to_owned()));
                } else if kind.is_symlink() {
                    let target = std::fs::read_link(&path).unwrap();
                    found.push((path, target.to_str().unwrap().to_owned()));
                } else {
                    let text = std::fs::read_to_string(&path).unwrap();
                    found.push((path, text));
                }
            }
        }
        found.sort();
        found
    }
}
