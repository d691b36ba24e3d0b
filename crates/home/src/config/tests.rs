use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use proptest::prelude::*;

use super::keys::KEYS;
use super::*;

struct Files {
    _folder: tempfile::TempDir,
    root: PathBuf,
    agent: PathBuf,
}

fn files(root: &str, agent: &str) -> Files {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let files = Files { root: path("root.toml"), agent: path("agent.toml"), _folder: folder };
    fs::write(&files.root, root).unwrap();
    fs::write(&files.agent, agent).unwrap();
    files
}

impl Files {
    fn load(&self) -> Configuration {
        load([self.root.as_path(), self.agent.as_path()])
    }
}

/// The diagnostics of a file of this text, without the path.
fn diagnostics(text: &str) -> Vec<String> {
    let files = files(text, "");
    let found = files.load().diagnostics;
    assert_eq!(load_strictly([files.root.as_path()]).is_err(), !found.is_empty());
    found.iter().map(|d| d.to_string().replace(&format!("{}:", files.root.display()), "")).collect()
}

fn from(text: &str) -> Config {
    let configuration = files(text, "").load();
    assert_eq!(configuration.diagnostics, []);
    configuration.values
}

#[test]
fn the_default_file_has_every_key_at_its_default() {
    let files = files(DEFAULT_TEXT, "");
    let configuration = load_strictly([files.root.as_path()]).unwrap();
    assert_eq!(configuration.values, Config::default());
    assert_eq!(configuration.origins, vec![Origin::File(files.root.clone()); KEYS.len()]);
}

#[test]
fn absent_and_empty_files_are_the_default() {
    let configuration = load_strictly([Path::new("/nowhere/config.toml")]).unwrap();
    assert_eq!(configuration.values, Config::default());
    assert_eq!(from("# nothing\n"), Config::default());
}

#[test]
fn the_agent_is_over_the_root_key_by_key() {
    let files = files("[limits]\nretries = 1\nbody = \"1MiB\"\n[events]\nview = \"full\"", "[limits]\nretries = 2\n");
    let configuration = files.load();
    let mut expected = Config::default();
    expected.limits.retries = 2;
    expected.limits.body = 1024 * 1024;
    expected.events.view = View::Full;
    assert_eq!(configuration.values, expected);
    let effective = configuration.effective();
    for line in [
        format!("retries = 2 # {}", files.agent.display()),
        format!("body = \"1MiB\" # {}", files.root.display()),
        "demo = true # default".to_owned(),
    ] {
        assert!(effective.contains(&line), "{line} in {effective}");
    }
}

#[test]
fn every_value_can_be_set() {
    let config = from(
        "events.view = 'snapshot'\nevents.include = ['usage', 'retry', 'usage']\n[resume]\nauto = true\n[models]\ndemo = false\n\
         [limits]\nbody = '2 MiB'\nbash_timeout = '90s'\nprovider_idle = '1h'\nretries = 0x10\n\
         [security]\nhosts = ['Pi.local', '[fd00::0:1]', '10.0.0.1']\n[logs]\nlevel = 'trace'\nfiles = 1\nsize = '65536B'\n",
    );
    assert_eq!(
        config,
        Config {
            events: Events { view: View::Snapshot, include: vec![Notice::Retry, Notice::Usage] },
            resume: Resume { auto: true },
            models: Models { demo: false },
            limits: Limits {
                body: 2 * 1024 * 1024,
                bash_timeout: Duration::from_secs(90),
                provider_idle: Duration::from_secs(3600),
                retries: 16
            },
            security: Security { hosts: vec!["pi.local".to_owned(), "fd00::1".to_owned(), "10.0.0.1".to_owned()] },
            logs: Logs { level: LogLevel::Trace, files: 1, size: 65536 },
        }
    );
    assert_eq!(from("events.include = 'all'").events.include, Notice::all());
    assert_eq!(from("events.include = ['usage', 'all']").events.include, Notice::all());
}

#[test]
fn faults_have_a_line_and_say_what_is_valid() {
    for (text, expected) in [
        ("[events]\n\nveiw = 'full'", "3: unknown key events.veiw (keys of [events]: view, include)"),
        ("\n[event]\nview = 'full'", "2: unknown section [event] (sections: events, resume, models, limits, security, logs)"),
        ("events = 1", "1: events must be a section, [events]"),
        ("[events]\nview = 'fool'", "2: events.view must be one of \"delta\", \"full\", \"snapshot\""),
        ("[events]\nview = ['full']", "2: events.view must be one of \"delta\", \"full\", \"snapshot\""),
        (
            "[events]\ninclude = ['usage', 'cost']",
            "2: events.include must be \"all\" or a list of \"compaction\", \"retry\", \"waiting\", \"login_ui\", \"usage\", \"lifecycle\"",
        ),
        ("resume.auto = 'yes'", "1: resume.auto must be true or false"),
        ("limits.retries = 21", "1: limits.retries must be a number from 0 to 20"),
        ("limits.retries = -1", "1: limits.retries must be a number from 0 to 20"),
        ("limits.retries = 99999999999999999999", "1: limits.retries must be a number from 0 to 20"),
        ("limits.body = 1", "1: limits.body must be a size from \"64KiB\" to \"1GiB\", such as \"10MiB\""),
        ("limits.body = '99999999999999GiB'", "1: limits.body must be a size from \"64KiB\" to \"1GiB\", such as \"10MiB\""),
        ("limits.bash_timeout = '10'", "1: limits.bash_timeout must be a time from \"1s\" to \"1d\", such as \"90s\" or \"10m\""),
        ("logs.level = 'loud'", "1: logs.level must be one of \"off\", \"error\", \"warn\", \"info\", \"debug\", \"trace\""),
        ("security.hosts = ['http://a']", "1: security.hosts must be a list of host names or addresses, without scheme and port"),
    ] {
        assert_eq!(diagnostics(text), [expected], "{text}");
    }
    let [syntax] = &diagnostics("[events]\nview = \"full\n")[..] else { panic!() };
    assert!(syntax.starts_with("2: the file is not valid TOML: "), "{syntax}");
}

#[test]
fn every_fault_is_listed_by_line_and_the_rest_counts() {
    let files = files("[logs]\nfiles = 0\nlevel = 'warn'\n[events]\nx = 1\nview = 'full'\n", "");
    let configuration = files.load();
    assert_eq!(configuration.diagnostics.iter().map(|d| d.line).collect::<Vec<_>>(), [Some(2), Some(5)]);
    assert_eq!((configuration.values.logs.files, configuration.values.logs.level), (5, LogLevel::Warn));
    assert_eq!(configuration.values.events.view, View::Full);
    let error = load_strictly([files.root.as_path()]).unwrap_err().to_string();
    assert!(error.starts_with("bad configuration: ") && error.contains("root.toml:2: ") && error.contains("root.toml:5: "), "{error}");
}

#[test]
fn a_bad_value_counts_as_absent() {
    let configuration = files("logs.files = 7", "logs.files = 'many'").load();
    assert_eq!(configuration.values.logs.files, 7);
}

#[test]
fn what_protects_fails_closed() {
    let root = "security.hosts = ['pi.local']";
    for agent in [
        "security.hosts = 'pi.local'",
        "security.hosts = ['a/b']",
        "security.hots = ['x']",
        "security = 1",
        "[securty]\nhosts = ['x']",
        "not toml",
    ] {
        let files = files(root, agent);
        let configuration = files.load();
        assert_eq!(configuration.values.security.hosts, Vec::<String>::new(), "{agent}");
        assert_eq!(configuration.diagnostics.len(), 1, "{agent}");
        let line = format!("hosts = [] # strictest, for a fault in {}", files.agent.display());
        assert!(configuration.effective().contains(&line), "{agent}");
    }
    // What is spelt right beside a fault stands, and a fault elsewhere changes nothing.
    for agent in ["security.hosts = ['b']\nsecurity.x = 1", "security.x = 1\nsecurity.hosts = ['b']"] {
        assert_eq!(files(root, agent).load().values.security.hosts, ["b"]);
    }
    assert_eq!(files(root, "logs.files = 0").load().values.security.hosts, ["pi.local"]);
    // The agent's own value replaces what a fault in the root's file made strict.
    assert_eq!(files("security.x = 1", root).load().values.security.hosts, ["pi.local"]);
}

#[test]
fn unreadable_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let [found] = &load([folder.path()]).diagnostics[..] else { panic!() };
    assert!(found.to_string().contains(": the file cannot be read: "), "{found}");
    let path = folder.path().join("c");
    fs::write(&path, [0xff]).unwrap();
    let [found] = &load([path.as_path()]).diagnostics[..] else { panic!() };
    assert_eq!(found.to_string(), format!("{}: the file is not UTF-8", path.display()));
}

#[test]
fn the_effective_configuration_can_be_read_again() {
    let text =
        "events.include = 'all'\nlimits.bash_timeout = '1500ms'\nlimits.body = '100KiB'\nsecurity.hosts = ['a', 'b']\nlogs.level = 'off'";
    let first = files(text, "");
    let configuration = first.load();
    let second = files(&configuration.effective(), "");
    assert_eq!(second.load().diagnostics, []);
    assert_eq!(second.load().values, configuration.values);
}

#[test]
fn depth_is_bounded() {
    for text in [format!("a = {}", "[".repeat(100_000)), format!("{} = 1", vec!["a"; 100_000].join(".")), "a = {b = ".repeat(50_000)] {
        assert_eq!(diagnostics(&text).len(), 1);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_is_too_odd(text in "(\\[(events|security|x)\\]|[a-z.]{1,8} = |'|\"|\\[|\\]|\n|[0-9]{1,3}|\\PC){0,30}") {
        let files = files(&text, "");
        let configuration = files.load();
        for found in &configuration.diagnostics {
            prop_assert!(found.line.is_none_or(|line| line <= text.lines().count().max(1) + 1));
        }
        prop_assert!(configuration.effective().contains("[security]"));
    }
}
