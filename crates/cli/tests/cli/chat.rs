//! The chat of lines, at a terminal and in a script, against a real daemon and its built-in demonstration.

use std::fs;

use crate::support::Home;
use crate::support::daemon::{Daemon, serve};
use crate::support::terminal::Terminal;

fn terminal(home: &Home, arguments: &[&str]) -> Terminal {
    Terminal::start(home.command(arguments))
}

#[test]
fn a_new_agent_asks_for_its_purpose_once() {
    let home = Home::new();
    let mut birth = terminal(&home, &["new", "scribe", "--model", "echo/demo"]);
    birth.wait_for("Created agent \"scribe\".");
    birth.wait_for("What is my purpose?");
    birth.wait_for("> ");
    birth.type_line("Keep minutes.");
    birth.wait_for("Keep minutes.\n");
    birth.wait_for("Keep minutes.\n> ");
    birth.type_line("/quit");
    assert_eq!(birth.finish().0, Some(0));
    // The daemon goes on; the next chat shows what was said last.
    let mut chat = terminal(&home, &["scribe"]);
    chat.wait_for("> Keep minutes.\nKeep minutes.\n> ");
    chat.interrupt();
    let (status, shown) = chat.finish();
    assert_eq!(status, Some(0), "{shown}");
    assert!(!shown.contains("What is my purpose?"), "{shown}");
    home.succeed(&["delete", "scribe", "--yes"]);
}

#[test]
fn a_script_gets_each_answer_and_then_the_end() {
    let (home, _daemon) = serve("scribe");
    let input = "Hello\n!think hm\\\n!tool ls {\"path\":\"workspace\"}\nlast, without an end";
    let outcome = home.run_with_input(&["scribe"], input);
    let (head, said) = outcome.stdout.split_once("own rights)\n").unwrap();
    assert!(head.starts_with("(scribe: echo/demo, session "), "{outcome:?}");
    let expected = "> Hello\nHello\n\
        > !think hm\n> !tool ls {\"path\":\"workspace\"}\nhm\n[ls] {\"path\":\"workspace\"}\n  (empty directory)\nls returned: (empty directory)\n\
        > last, without an end\nlast, without an end\n";
    assert_eq!(said, expected);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_script_learns_that_its_last_prompt_failed() {
    let (home, _daemon) = serve("scribe");
    let outcome = home.run_with_input(&["scribe"], "!fail 500\n");
    assert_eq!(outcome.status, Some(5), "{outcome:?}");
    assert!(outcome.stdout.contains("Error: 500") && outcome.stderr.contains("500"), "{outcome:?}");
    assert_eq!(home.run_with_input(&["scribe"], "!fail 500\nwell\n").status, Some(0));
    assert_eq!(home.run_with_input(&["scribe"], "/quit\nnot said\n").status, Some(0));
    assert_eq!(home.succeed(&["scribe", "-p", "Hello"]), "Hello\n");
}

#[test]
fn ctrl_c_leaves_when_nothing_is_said() {
    let (home, _daemon) = serve("scribe");
    let mut chat = terminal(&home, &["scribe"]);
    chat.wait_for("> ");
    chat.type_line("!repeat 3 again");
    chat.wait_for("againagainagain\n> ");
    chat.interrupt();
    assert_eq!(chat.finish().0, Some(0));
}

#[test]
fn ctrl_c_stops_an_answer_and_no_more() {
    let (home, _daemon) = serve("scribe");
    let mut chat = terminal(&home, &["scribe"]);
    chat.wait_for("> ");
    chat.type_line("!sleep 300\\");
    chat.type_line("one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen");
    chat.wait_for("sixteen");
    chat.wait_for("one ");
    chat.interrupt();
    chat.wait_for("(stopping)");
    chat.wait_for("(aborted)");
    chat.wait_for("> ");
    chat.type_line("and now?");
    chat.wait_for("and now?\nand now?\n> ");
    chat.type_line("/quit");
    let (status, shown) = chat.finish();
    assert_eq!((status, shown.matches("sixteen").count()), (Some(0), 1), "{shown}");
}

#[test]
fn what_others_say_is_shown() {
    let (home, _daemon) = serve("scribe");
    let mut chat = terminal(&home, &["scribe"]);
    chat.wait_for("/help says");
    chat.wait_for("> ");
    home.succeed(&["scribe", "-p", "from elsewhere"]);
    chat.wait_for("> from elsewhere\nfrom elsewhere\n> ");
    chat.type_line("/model");
    chat.wait_for("echo/demo\n");
    chat.type_line("/model nobody/nothing");
    chat.wait_for("Error: Model not found: nobody/nothing");
    chat.type_line("/model nothing-like-it");
    chat.wait_for("A model is named with its provider, such as echo/demo.");
    chat.type_line("/new");
    chat.wait_for("Error: This agent is still forming");
    chat.type_line("/sessions");
    chat.wait_for("-7");
    chat.type_line("/help");
    chat.wait_for("/abort");
    chat.type_line("/quit");
    assert_eq!(chat.finish().0, Some(0));
}

#[test]
fn a_chat_outlives_its_daemon() {
    let (home, daemon) = serve("scribe");
    let mut chat = terminal(&home, &["scribe"]);
    chat.wait_for("> ");
    chat.type_line("before");
    chat.wait_for("before\nbefore\n> ");
    daemon.kill();
    chat.wait_for("(connection lost");
    let daemon = Daemon::start(&home, "scribe");
    chat.wait_for("(connected again)\n> ");
    chat.type_line("after");
    chat.wait_for("after\nafter\n> ");
    chat.type_line("/quit");
    let (status, shown) = chat.finish();
    assert_eq!((status, shown.matches("before").count()), (Some(0), 2), "{shown}");
    assert_eq!(daemon.terminate().code(), Some(143));
}

#[test]
fn a_chat_with_an_agent_whose_name_is_a_command() {
    let home = Home::new();
    home.succeed(&["new", "lost", "--model", "echo/demo"]);
    fs::rename(home.agent("lost"), home.agent("list")).unwrap();
    let _daemon = Daemon::start(&home, "list");
    assert_eq!(home.succeed(&["chat", "list", "-p", "Hello"]), "Hello\n");
    assert_eq!(home.succeed(&["-p", "--", "list", "Hello"]), "Hello\n");
}

#[test]
fn a_key_is_asked_for_and_forgotten_again() {
    let (home, _daemon) = serve("scribe");
    let mut chat = terminal(&home, &["scribe"]);
    chat.wait_for("> ");
    chat.type_line("/login");
    chat.wait_for("groq  Groq\n");
    chat.type_line("/login nobody");
    chat.wait_for("Error: Unknown provider: nobody");
    chat.type_line("/login groq");
    chat.wait_for("Enter API key for Groq\nAnswer (an empty line cancels):");
    chat.type_line("gsk-0123");
    chat.wait_for("The key for groq is stored.");
    chat.wait_for("> ");
    chat.type_line("/logout");
    chat.wait_for("groq  Groq\n");
    chat.type_line("/model groq/openai/gpt-oss-120b");
    chat.wait_for("(model: groq/openai/gpt-oss-120b)");
    chat.type_line("/logout groq");
    chat.wait_for("Nothing is stored for groq any more.");
    chat.type_line("/logout");
    chat.wait_for("(none)\n");
    chat.type_line("/quit");
    let (status, shown) = chat.finish();
    assert_eq!((status, shown.contains("gsk-0123")), (Some(0), false), "{shown}");
}

#[test]
fn what_a_session_is_asked_by_a_slash() {
    let (home, _daemon) = serve("scribe");
    let mut chat = terminal(&home, &["scribe"]);
    chat.wait_for("> ");
    for (line, answer) in [
        ("/compact", "Nothing to compact (no messages yet).\n> "),
        ("/thinking", "* medium\n  high\n> "),
        ("/thinking xhigh", "Thinking level: high\n> "),
        ("/rename", "Which name? /rename <name>\n> "),
        ("/rename Minutes of Monday", "This session is called \"Minutes of Monday\".\n> "),
        ("/reload", "Reloaded: 0 extensions, 0 skills, 0 prompts, 0 commands.\n> "),
        ("/model ECHO", "echo/demo\n/model <p/id> uses one of them.\n> "),
        ("/usage", "\ntotal    0      0       0           0            0       $0.0000\n> "),
        ("/sessions zz", "Error: No session \"zz\" for agent \"scribe\"\n> "),
        ("Hello", "Hello\nHello\n> "),
        ("/compact keep it", "(earlier messages were replaced by a summary)\n> "),
        ("/sessions 01", "(session 01"),
        ("/sessions", "Minutes of Monday\n> "),
        ("/skill:none", "Error: Unknown skill: none\n> "),
    ] {
        chat.type_line(line);
        chat.wait_for(answer);
    }
    fs::write(home.agent("scribe").join("agent.json"), "{").unwrap();
    chat.type_line("/reload");
    chat.wait_for("Reload failed: ");
    chat.type_line("/quit");
    assert_eq!(chat.finish().0, Some(0));
}

#[test]
fn a_terminal_is_left_as_it_was_found() {
    let (home, _daemon) = serve("scribe");
    let mut chat = terminal(&home, &["scribe"]);
    chat.wait_for("> ");
    chat.type_line("/login groq");
    chat.wait_for("Answer (");
    assert!(!chat.echoes());
    // Nothing cancels; the next login is cut off by the end of the program.
    chat.type_line("");
    chat.wait_for("> ");
    assert!(chat.echoes());
    chat.type_line("/login groq");
    chat.wait_for("Answer (");
    assert!(!chat.echoes());
    chat.terminate();
    assert_eq!(chat.wait(), Some(143));
    assert!(chat.echoes());
}

#[test]
fn a_question_is_everybodys_until_somebody_answers() {
    let (home, _daemon) = serve("scribe");
    let mut asker = terminal(&home, &["scribe"]);
    asker.wait_for("> ");
    let mut other = terminal(&home, &["scribe"]);
    other.wait_for("> ");
    asker.type_line("/login groq");
    asker.wait_for("Answer (an empty line cancels):");
    other.wait_for("Answer (an empty line cancels):");
    // One that comes in the middle sees it as well.
    let mut late = terminal(&home, &["scribe"]);
    late.wait_for("Enter API key for Groq\nAnswer (an empty line cancels):");
    other.type_line("gsk-0123");
    asker.wait_for("(this question needs no answer any more)");
    asker.wait_for("The key for groq is stored.");
    late.wait_for("(this question needs no answer any more)");
    late.type_line("still a prompt");
    late.wait_for("still a prompt\nstill a prompt\n");

    // Ctrl+C ends a login, not the chat; an empty line does as well.
    asker.type_line("/login xai");
    asker.wait_for("Answer (an empty line cancels):");
    asker.interrupt();
    asker.wait_for("(stopping)");
    asker.wait_for("Error: API key cannot be empty.");
    asker.wait_for("> ");
    asker.type_line("/login xai");
    asker.wait_for("Answer (an empty line cancels):");
    asker.type_line("");
    asker.wait_for("Error: API key cannot be empty.");
    asker.wait_for("> ");
    asker.type_line("and on");
    asker.wait_for("and on\nand on\n");
    for chat in [&mut asker, &mut other, &mut late] {
        chat.type_line("/quit");
    }
    let script = home.run_with_input(&["scribe"], "/login groq\n/logout groq\n");
    assert!(script.stdout.contains("auth.json") && script.stdout.contains("Nothing is stored for groq"), "{script:?}");
}
