//! The whole process: exit statuses, texts, signals, and two daemons that want one home or one port.

use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use wolli_daemon::{LogFormat, Options, Supervisor, run};
use wolli_home::environment::Environment;

use crate::support::TestHome;

/// Not a test: the program that the tests below start.
#[test]
#[ignore = "started by other tests as a program"]
fn daemon_program() {
    let variable = |name: &str| std::env::var(name).ok();
    let Some(agent) = variable("TEST_AGENT") else { return };
    let options = Options {
        agent,
        port: variable("TEST_PORT").map(|port| port.parse().unwrap()),
        log_format: if variable("TEST_JSON").is_some() { LogFormat::Json } else { LogFormat::Text },
        supervisor: if variable("TEST_LAUNCHD").is_some() { Supervisor::Launchd } else { Supervisor::None },
    };
    let environment = Environment::new(std::env::vars_os(), std::env::current_dir().unwrap());
    std::process::exit(run(&options, environment).0.into());
}

struct Program {
    child: Child,
    output: BufReader<ChildStdout>,
    errors: Option<ChildStderr>,
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Program {
    fn start(home: &TestHome, port: u16, variables: &[(&str, &str)]) -> Self {
        Self::start_agent("scribe", home, port, variables)
    }

    fn start_agent(agent: &str, home: &TestHome, port: u16, variables: &[(&str, &str)]) -> Self {
        // With the number of descriptors that most systems give.
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", "ulimit -Sn 1024; exec \"$@\"", "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "process::daemon_program", "--ignored", "--nocapture", "--test-threads=1"])
            .env_clear();
        command.envs(home.variables()).env("TEST_AGENT", agent).env("TEST_PORT", port.to_string()).envs(variables.iter().copied());
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let errors = child.stderr.take();
        Self { child, output, errors }
    }

    /// Waits for the line that says where it listens.
    fn listening(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "it ended: {:?}", self.errors());
            // The test harness prints its own lines first, one of them without a line break.
            if let Some(at) = line.find("wolli daemon for ") {
                return line[at..].trim_end().to_owned();
            }
        }
    }

    fn port(&mut self) -> u16 {
        self.listening().rsplit_once(':').unwrap().1.parse().unwrap()
    }

    fn errors(&mut self) -> String {
        let mut text = String::new();
        if let Some(mut errors) = self.errors.take() {
            errors.read_to_string(&mut text).unwrap();
        }
        text
    }

    fn status(&mut self) -> i32 {
        self.child.wait().unwrap().code().unwrap()
    }

    fn signal(&self, name: &str) {
        assert!(Command::new("/bin/kill").args([name, &self.child.id().to_string()]).status().unwrap().success());
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn ask(port: u16, request: &str) -> String {
    let mut stream = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    std::io::Write::write_all(&mut stream, request.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn it_says_where_it_listens_and_ends_with_the_signals_status() {
    for (signal, status) in [("-TERM", 143), ("-INT", 130), ("-HUP", 143)] {
        let home = TestHome::new();
        let port = free_port();
        let mut program = Program::start(&home, port, &[]);
        assert_eq!(program.listening(), format!("wolli daemon for \"scribe\" listening on http://127.0.0.1:{port}"));
        let health = ask(port, "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        assert!(health.contains("\"status\":\"ok\""), "{health}");
        program.signal(signal);
        assert_eq!(program.status(), status, "{}", program.errors());
        assert!(std::net::TcpStream::connect(("127.0.0.1", port)).is_err());
    }
}

#[test]
fn the_shutdown_command_ends_it_with_0_and_the_next_one_starts_at_once() {
    let home = TestHome::new();
    let port = free_port();
    for _ in 0..3 {
        let mut program = Program::start(&home, port, &[]);
        program.listening();
        let bearer = format!("host: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n", home.token);
        let state = ask(port, &format!("GET /sessions HTTP/1.1\r\n{bearer}\r\n"));
        let id = state.split("\"sessionId\":\"").nth(1).unwrap().split('"').next().unwrap();
        let body = r#"{"type":"shutdown"}"#;
        let answer = ask(port, &format!("POST /sessions/{id}/control HTTP/1.1\r\n{bearer}content-length: {}\r\n\r\n{body}", body.len()));
        assert!(answer.contains("\"success\":true"), "{answer}");
        assert_eq!(program.status(), 0, "{}", program.errors());
    }
}

#[test]
fn a_second_daemon_names_the_first_and_ends_with_75() {
    let home = TestHome::new();
    let mut first = Program::start(&home, 0, &[]);
    first.listening();
    for (variables, status) in [(&[][..], 75), (&[("TEST_LAUNCHD", "1")], 0)] {
        let started = Instant::now();
        let mut second = Program::start(&home, free_port(), variables);
        let (code, errors) = (second.status(), second.errors());
        assert_eq!(code, status, "{errors}");
        assert!(errors.contains("wolli daemon for \"scribe\" is already running"), "{errors}");
        assert!(errors.contains(&format!("process {} (", first.child.id())) && errors.contains("since 20"), "{errors}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }
    first.signal("-TERM");
    assert_eq!(first.status(), 143);
}

#[test]
fn a_port_of_another_program_is_76_and_one_of_our_own_agent_75() {
    let home = TestHome::new();
    let foreign = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = foreign.local_addr().unwrap().port();
    let mut program = Program::start(&home, port, &[]);
    let (code, errors) = (program.status(), program.errors());
    assert_eq!(code, 76, "{errors}");
    assert!(
        errors.contains(&format!("wolli daemon for \"scribe\": port {port} already in use.\n")) && errors.contains("agent.json"),
        "{errors}"
    );
    drop(foreign);

    // The same agent, served without our lock, as wolli 0.0.2 does.
    let mut first = Program::start(&home, 0, &[]);
    let port = first.port();
    std::fs::rename(home.home.daemon_lock(), home.home.path().join("elsewhere")).unwrap();
    let mut second = Program::start(&home, port, &[]);
    let (code, errors) = (second.status(), second.errors());
    assert_eq!(code, 75, "{errors}");
    assert!(errors.contains("is already running: it answers on"), "{errors}");

    // Another agent of the same name has another token.
    let other = TestHome::new();
    let mut third = Program::start(&other, port, &[]);
    assert_eq!(third.status(), 76);
}

#[test]
fn bad_configuration_is_78_and_says_what_to_change() {
    let home = TestHome::new();
    for (variables, text) in [
        (&[("WOLLI_DAEMON_TOKEN", "not a token")][..], "WOLLI_DAEMON_TOKEN cannot be used as a token"),
        (&[("WOLLI_DAEMON_HOST", "0.0.0.0")], "set WOLLI_DAEMON_TOKEN"),
        (&[("WOLLI_DAEMON_HOST", "0.0.0.0"), ("WOLLI_DAEMON_TOKEN", "abc")], "set \"hosts\" in [security] of config.toml"),
        (&[("WOLLI_DAEMON_HOST", "no such host")], "WOLLI_DAEMON_HOST is \"no such host\""),
    ] {
        let mut program = Program::start(&home, 0, variables);
        let (code, errors) = (program.status(), program.errors());
        assert_eq!(code, 78, "{errors}");
        assert!(errors.contains(text), "{errors}");
    }
    std::fs::write(home.home.config_json(), "{").unwrap();
    std::fs::remove_file(home.home.last_good()).unwrap();
    let mut program = Program::start(&home, 0, &[]);
    let (code, errors) = (program.status(), program.errors());
    assert_eq!(code, 78, "{errors}");
    assert!(errors.contains("Invalid agent config at "), "{errors}");
}

#[test]
fn a_damaged_agent_file_with_a_good_copy_is_a_warning() {
    let home = TestHome::new();
    std::fs::write(home.home.config_json(), "{").unwrap();
    let mut program = Program::start(&home, 0, &[]);
    program.listening();
    program.signal("-TERM");
    assert_eq!(program.status(), 143);
    assert!(program.errors().contains("using the last good copy"));
}

#[test]
fn everybody_may_be_let_in_on_purpose() {
    let home = TestHome::new();
    home.configure("[security]\nhosts = [\"agent.example\"]\n");
    let mut program = Program::start(&home, 0, &[("WOLLI_DAEMON_HOST", "0.0.0.0"), ("WOLLI_DAEMON_TOKEN", "abc")]);
    let port = program.port();
    let answer = ask(port, "GET /sessions HTTP/1.1\r\nhost: agent.example\r\nauthorization: Bearer abc\r\nconnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    program.signal("-TERM");
    assert_eq!(program.status(), 143);
}

#[test]
fn an_unknown_agent_is_1() {
    let home = TestHome::new();
    for name in ["nobody", "../scribe", ""] {
        let mut program = Program::start_agent(name, &home, 0, &[]);
        let (code, errors) = (program.status(), program.errors());
        assert_eq!((code, errors.trim_end()), (1, format!("Unknown agent \"{name}\". Create it with: wolli new {name}").trim_end()));
    }
}

#[test]
fn the_log_is_private_and_tells_no_secret() {
    let home = TestHome::new();
    let mut program = Program::start(&home, 0, &[("RUST_LOG", "debug"), ("TEST_JSON", "1")]);
    let port = program.port();
    let bearer = format!("host: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n", home.token);
    ask(port, &format!("GET /sessions?token={} HTTP/1.1\r\n{bearer}\r\n", home.token));
    program.signal("-TERM");
    assert_eq!(program.status(), 143);
    let path = home.home.logs().join("daemon.log");
    let log = std::fs::read_to_string(&path).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(home.home.logs().metadata().unwrap().permissions().mode() & 0o777, 0o700);
    assert!(log.contains("\"path\":\"/sessions\"") && log.contains("\"stopped\""), "{log}");
    assert!(!log.contains(&home.token), "{log}");
    assert_eq!(program.errors().lines().filter(|line| line.starts_with('{')).count(), log.lines().count());
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
}

#[test]
fn a_killed_daemon_leaves_nothing_in_the_way() {
    let home = TestHome::new();
    let port = free_port();
    let mut first = Program::start(&home, port, &[]);
    first.listening();
    first.signal("-KILL");
    first.child.wait().unwrap();
    let mut second = Program::start(&home, port, &[]);
    second.listening();
    second.signal("-TERM");
    assert_eq!(second.status(), 143);
    let errors = second.errors();
    assert!(errors.contains("ended without giving the home up"), "{errors}");
    assert!(!errors.contains("no Unix socket"), "the stale socket was replaced: {errors}");
}

#[test]
fn two_signals_end_it_within_a_moment() {
    let home = TestHome::new();
    let mut program = Program::start(&home, 0, &[]);
    program.listening();
    let started = Instant::now();
    program.signal("-TERM");
    program.signal("-TERM");
    assert_eq!(program.status(), 143);
    assert!(started.elapsed() < Duration::from_secs(3));
}

#[test]
fn a_successor_waits_for_a_daemon_that_is_ending() {
    let home = TestHome::new();
    let port = free_port();
    let mut first = Program::start(&home, port, &[]);
    first.listening();
    let bearer = format!("host: localhost\r\nauthorization: Bearer {}\r\nconnection: close\r\n", home.token);
    let state = ask(port, &format!("GET /sessions HTTP/1.1\r\n{bearer}\r\n"));
    let id = state.split("\"sessionId\":\"").nth(1).unwrap().split('"').next().unwrap();
    let body = r#"{"type":"prompt","message":"!sleep 100\n!repeat 10000 x "}"#;
    ask(port, &format!("POST /sessions/{id}/control HTTP/1.1\r\n{bearer}content-length: {}\r\n\r\n{body}", body.len()));
    first.signal("-TERM");
    let mut second = Program::start(&home, port, &[]);
    second.listening();
    assert_eq!(first.status(), 143);
    let health = ask(port, "GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    assert!(health.contains(&format!("\"pid\":{},", second.child.id())), "{health}");
    second.signal("-TERM");
    assert_eq!(second.status(), 143);
}

#[test]
fn an_agent_that_cannot_be_loaded_ends_with_1_and_says_why() {
    let home = TestHome::new();
    std::fs::remove_dir_all(home.home.sessions()).unwrap();
    std::fs::write(home.home.sessions(), "in the way").unwrap();
    let mut program = Program::start(&home, 0, &[]);
    let (code, errors) = (program.status(), program.errors());
    assert_eq!(code, 1, "{errors}");
    assert!(errors.contains("the agent cannot be loaded") && errors.contains("/sessions"), "{errors}");
}

#[cfg(target_os = "linux")]
#[test]
fn it_asks_for_enough_descriptors() {
    let home = TestHome::new();
    let mut program = Program::start(&home, 0, &[]);
    program.listening();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", program.child.id())).unwrap();
    let line: Vec<&str> = limits.lines().find(|line| line.starts_with("Max open files")).unwrap().split_whitespace().collect();
    let (soft, hard): (u64, u64) = (line[3].parse().unwrap(), line[4].parse().unwrap());
    assert!(soft >= hard.min(4096), "{line:?}");
    program.signal("-TERM");
    assert_eq!(program.status(), 143);
}
