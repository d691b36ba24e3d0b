//! What the program says about wrong arguments and a binary that is not there, with a cleared environment.

use std::process::{Command, Output};

fn run(arguments: &[&str], binary: Option<&str>) -> std::io::Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wolli-bench"));
    command.env_clear().args(arguments);
    if let Some(binary) = binary {
        command.env("WOLLI_BIN", binary);
    }
    command.output()
}

#[test]
fn an_unknown_measurement_is_named_with_those_that_exist() {
    for arguments in [&["nonsense"][..], &["start", "nonsense"]] {
        let output = run(arguments, None).unwrap();
        assert_eq!((output.status.code(), output.stdout), (Some(2), Vec::new()));
        let expected =
            "wolli-bench: there is no measurement \"nonsense\"; there are start, idle, control, latency, fan-out, bytes, memory, big\n";
        assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
    }
}

#[test]
fn a_missing_binary_is_named() {
    let output = run(&["start"], Some("/nonexistent/wolli")).unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(1), Vec::new()));
    let expected = "wolli-bench: /nonexistent/wolli is not there; build it (cargo build --release -p wolli-cli) or set WOLLI_BIN\n";
    assert_eq!(String::from_utf8(output.stderr).unwrap(), expected);
}
