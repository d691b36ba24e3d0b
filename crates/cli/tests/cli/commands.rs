//! The commands that need no daemon, through the real binary.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::support::{Home, Outcome, finish};

fn failed(status: i32, stderr: &str) -> Outcome {
    Outcome { status: Some(status), stdout: String::new(), stderr: format!("{stderr}\n") }
}

#[test]
fn version_and_help_go_to_stdout() {
    let home = Home::new();
    let version = format!("wolli {}\n", env!("CARGO_PKG_VERSION"));
    for flag in ["--version", "-v", "-V"] {
        assert_eq!(home.succeed(&[flag]), version);
    }
    for arguments in [&["--help"][..], &["-h"], &["help"]] {
        let help = home.succeed(arguments);
        for part in ["Usage: wolli", "Examples:", "wolli new scribe", "Exit status:", "143", "WOLLI_HOME", "--print", "completions"] {
            assert!(help.contains(part), "{arguments:?} lacks {part}: {help}");
        }
    }
    assert!(home.succeed(&["help", "new"]).contains("Usage: wolli new <name>"));
    assert!(!home.root().exists(), "asking for help makes no folders");
}

#[test]
fn a_wrong_command_line_is_status_2_and_does_nothing() {
    let home = Home::new();
    for (arguments, part) in [
        (&["--wat"][..], "--wat"),
        (&["scribe", "--wat"], "--wat"),
        (&["list", "--wat"], "--wat"),
        (&["new"], "Usage: wolli new <name>"),
        (&["delete"], "Usage: wolli delete <name>"),
        (&["restart"], "Usage: wolli restart <name>"),
        (&["start"], "Usage: wolli start <name>"),
        (&["stop"], "Usage: wolli stop <name>"),
        (&["status"], "Usage: wolli status <name> [--json]"),
        (&["service", "install"], "Usage: wolli service install <name> [--json]"),
        (&["daemon"], "Usage: wolli daemon <name> [--port <n>]"),
        (&["new", "a", "--model", "nonsense"], "provider/id"),
        (&["completions", "tcl"], "tcl"),
        (&["chat"], "Usage: wolli chat <agent>"),
        (&["--print"], "Usage: wolli <agent>"),
        (&["--new"], "Usage: wolli <agent>"),
        (&["scribe", "--session", "a", "--new"], "--new"),
        (&["scribe", "-p", "x", "--timeout", "soon"], "90s"),
    ] {
        let outcome = home.run(arguments);
        assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(2), ""), "{arguments:?}: {outcome:?}");
        assert!(outcome.stderr.contains(part), "{arguments:?}: {outcome:?}");
    }
    assert!(!home.root().exists());
}

#[test]
fn new_makes_a_private_home() {
    let home = Home::new();
    assert_eq!(home.succeed(&["new", "scribe", "--model", "echo/demo", "--purpose", " keep minutes "]), "Created agent \"scribe\".\n");
    let agent = home.agent("scribe");
    let config: serde_json::Value = serde_json::from_slice(&fs::read(agent.join("agent.json")).unwrap()).unwrap();
    assert_eq!((&config["name"], &config["purpose"]), (&"scribe".into(), &"keep minutes".into()));
    assert_eq!(config["settings"]["defaultModel"], "echo/demo");
    assert_eq!(config["token"].as_str().unwrap().len(), 64);
    assert_eq!(fs::metadata(&agent).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(fs::metadata(agent.join("agent.json")).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(home.run(&["new", "scribe"]), failed(1, "Agent \"scribe\" already exists."));
    assert_eq!(
        home.run(&["new", "../x"]),
        failed(1, "Invalid agent name \"../x\". Use lowercase letters, digits, and hyphens (must start with a letter or digit).")
    );
}

#[test]
fn names_of_commands_are_reserved_but_old_agents_keep_them() {
    let home = Home::new();
    for name in ["new", "list", "delete", "restart", "daemon", "chat", "service", "plugins"] {
        let outcome = home.run(&["new", name]);
        assert_eq!(outcome.status, Some(1), "{outcome:?}");
        assert!(outcome.stderr.contains("is a command of wolli"), "{outcome:?}");
        assert!(!home.agent(name).exists());
    }
    // Made by a version that let the name pass.
    home.succeed(&["new", "lost"]);
    fs::rename(home.agent("lost"), home.agent("list")).unwrap();
    assert!(home.succeed(&["list"]).starts_with("list  —  "));
    assert!(home.run(&["new", "list"]).stderr.contains("already exists"));
    assert!(home.run(&["chat", "list", "words"]).stderr.starts_with("Inline messages need --print: wolli chat list --print"));
    assert!(home.run(&["--", "list", "words"]).stderr.starts_with("Inline messages need --print"));
}

#[test]
fn list_shows_purposes_and_hides_no_broken_agent() {
    let home = Home::new();
    assert_eq!(home.succeed(&["list"]), "No agents yet. Create one with: wolli new <name>\n");
    home.succeed(&["new", "b", "--purpose", "one\n two"]);
    home.succeed(&["new", "a"]);
    home.succeed(&["new", "broken"]);
    fs::write(home.agent("broken").join("agent.json"), "{").unwrap();
    fs::write(home.agent("broken").join("agent.json.last-good"), "{").unwrap();
    let outcome = home.run(&["list"]);
    assert_eq!(outcome.stdout, "a  —  (no purpose yet)\nb  —  one two\n");
    assert_eq!(outcome.status, Some(0));
    assert!(outcome.stderr.starts_with("warning: agent \"broken\" is not usable: Invalid agent config at "), "{outcome:?}");
}

#[test]
fn delete_wants_the_name() {
    let home = Home::new();
    assert_eq!(home.run(&["delete", "ghost"]), failed(1, "Unknown agent \"ghost\"."));
    assert_eq!(home.run(&["delete", "../.."]), failed(1, "Unknown agent \"../..\"."));
    home.succeed(&["new", "scribe"]);
    let question = format!(
        "This will delete agent \"scribe\" and all of its memory, sessions, and workspace:\n  {}\nType scribe to confirm: ",
        home.agent("scribe").display()
    );
    for (answer, end) in [("", "\nDelete cancelled.\n"), ("yes\n", "Delete cancelled.\n"), ("scrib\n", "Delete cancelled.\n")] {
        let outcome = home.run_with_input(&["delete", "scribe"], answer);
        assert_eq!(outcome, Outcome { status: Some(1), stdout: format!("{question}{end}"), stderr: String::new() });
        assert!(home.agent("scribe").exists());
    }
    let outcome = home.run_with_input(&["delete", "scribe"], "scribe\n");
    assert_eq!(outcome, Outcome { status: Some(0), stdout: format!("{question}Deleted agent \"scribe\".\n"), stderr: String::new() });
    assert!(!home.agent("scribe").exists());
    home.succeed(&["new", "scribe"]);
    fs::write(home.agent("scribe").join("agent.json"), "damaged").unwrap();
    assert_eq!(home.succeed(&["delete", "scribe", "--yes"]), "Deleted agent \"scribe\".\n");
    assert!(!home.agent("scribe").exists());
}

#[test]
fn config_says_what_counts_and_why() {
    let home = Home::new();
    home.succeed(&["new", "scribe"]);
    fs::write(home.root().join("config.toml"), "[events]\nview = \"full\"\n[logs]\nfiles = 2\n").unwrap();
    fs::write(home.agent("scribe").join("config.toml"), "[logs]\nfiles = 3\n").unwrap();
    let (all, one) = (home.succeed(&["config"]), home.succeed(&["config", "scribe"]));
    let root = home.root().join("config.toml").display().to_string();
    let agent = home.agent("scribe").join("config.toml").display().to_string();
    assert!(all.contains(&format!("\nview = \"full\" # {root}\n")) && all.contains(&format!("\nfiles = 2 # {root}\n")), "{all}");
    assert!(one.contains(&format!("\nview = \"full\" # {root}\n")) && one.contains(&format!("\nfiles = 3 # {agent}\n")), "{one}");
    assert!(all.contains("\nauto = false # default\n"), "{all}");
    assert!(all.starts_with(&format!("# read: {root}\n")), "{all}");
    assert_eq!(home.run(&["config", "ghost"]), failed(1, "Unknown agent \"ghost\". Create it with: wolli new ghost"));
    // What it prints can be used as a file.
    fs::write(home.root().join("config.toml"), &all).unwrap();
    home.succeed(&["config"]);
}

#[test]
fn every_fault_in_a_configuration_file_is_named_and_status_78() {
    let home = Home::new();
    fs::create_dir_all(home.root()).unwrap();
    fs::write(home.root().join("config.toml"), "[events]\nveiw = \"full\"\n[limits]\nretries = 1000\n").unwrap();
    let outcome = home.run(&["config"]);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (Some(78), ""));
    for part in ["config.toml:2: unknown key events.veiw", "config.toml:4: limits.retries must be", "Correct or remove"] {
        assert!(outcome.stderr.contains(part), "{outcome:?}");
    }
}

#[test]
fn completions_for_every_shell() {
    let home = Home::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = home.succeed(&["completions", shell]);
        for word in ["wolli", "completions", "delete"] {
            assert!(script.contains(word), "{shell} lacks {word}");
        }
    }
    let script = home.path().join("wolli.bash");
    fs::write(&script, home.succeed(&["completions", "bash"])).unwrap();
    let mut bash = std::process::Command::new("bash");
    bash.args(["-n", "wolli.bash"]).current_dir(home.path()).stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    assert_eq!(finish(bash, ""), Outcome { status: Some(0), stdout: String::new(), stderr: String::new() });
}

#[test]
fn unknown_agents_and_missing_messages() {
    let home = Home::new();
    let unknown = failed(1, "Unknown agent \"ghost\". Create it with: wolli new ghost");
    for arguments in [&["ghost"][..], &["chat", "ghost"], &["ghost", "--print", "hello"], &["ghost", "hello"], &["ghost", "--print"]] {
        assert_eq!(home.run(arguments), unknown, "{arguments:?}");
    }
    home.succeed(&["new", "scribe"]);
    assert_eq!(home.run(&["scribe", "--print"]), failed(1, "Print mode needs a message: wolli scribe --print \"<message>\""));
    assert_eq!(home.run(&["scribe", "--print", " "]), failed(1, "Print mode needs a message: wolli scribe --print \"<message>\""));
    assert_eq!(
        home.run(&["scribe", "hello", "there"]),
        failed(1, "Inline messages need --print: wolli scribe --print \"<message>\" (or run wolli scribe for interactive chat)")
    );
}

#[test]
fn a_damaged_agent_is_bad_configuration() {
    let home = Home::new();
    home.succeed(&["new", "scribe"]);
    let file = home.agent("scribe").join("agent.json");
    fs::write(&file, "{}").unwrap();
    fs::remove_file(home.agent("scribe").join("agent.json.last-good")).unwrap();
    let outcome = home.run(&["scribe", "--print", "hello"]);
    assert_eq!(outcome.status, Some(78), "{outcome:?}");
    assert!(outcome.stderr.starts_with(&format!("Invalid agent config at {}: ", file.display())), "{outcome:?}");
}

#[test]
fn without_a_home_folder_it_says_which_variable_to_set() {
    let home = Home::new();
    let mut command = home.command(&["list"]);
    command.env_remove("HOME").env_remove("WOLLI_HOME");
    let outcome = finish(command, "");
    assert_eq!(outcome.status, Some(78), "{outcome:?}");
    assert!(outcome.stderr.contains("HOME is not set") && outcome.stderr.contains("WOLLI_HOME"), "{outcome:?}");
}

#[test]
fn a_reader_that_left_is_no_panic() {
    let home = Home::new();
    for n in 0..3 {
        home.succeed(&["new", &format!("agent-{n}")]);
    }
    for arguments in [&["list"][..], &["--help"], &["--version"], &["config"], &["completions", "zsh"]] {
        let mut command = home.command(arguments);
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        command.stdout(writer);
        let child = command.spawn().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), String::from_utf8(output.stderr).unwrap().as_str()), (Some(0), ""), "{arguments:?}");
    }
}

#[test]
fn nothing_typed_shows_what_there_is() {
    let home = Home::new();
    let empty = home.succeed(&[]);
    assert!(empty.contains("No agents yet. Create one with: wolli new <name>") && empty.contains("wolli --help"), "{empty}");
    home.succeed(&["new", "scribe"]);
    assert!(home.succeed(&[]).starts_with("scribe  —  "));
}

#[test]
fn every_key_of_the_configuration_is_documented() {
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md")).unwrap();
    let mut section = String::new();
    let mut keys = Vec::new();
    for line in Home::new().succeed(&["config"]).lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            section = name.to_owned();
        } else if let Some((name, _)) = line.split_once(" = ").filter(|_| !line.starts_with('#')) {
            keys.push(format!("`{section}.{name}`"));
        }
    }
    assert!(keys.len() > 10, "{keys:?}");
    let missing: Vec<&String> = keys.iter().filter(|key| !page.contains(key.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
