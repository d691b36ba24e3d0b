//! The command line as it was typed, checked for form and nothing else.
//!
//! Invariant: parsing touches neither the disk nor the environment. What is wrong here is a usage error, status 2.

pub(crate) mod logs;
pub(crate) mod requests;
pub(crate) mod sessions;

use std::time::Duration;

use clap::builder::NonEmptyStringValueParser;
use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;

use crate::status;

/// Names that mean something as the first word, now or in a later version, and so are no names for new agents.
pub(crate) const RESERVED_NAMES: &[&str] = &[
    "agent",
    "chat",
    "compact",
    "completions",
    "config",
    "daemon",
    "delete",
    "deploy",
    "doctor",
    "events",
    "help",
    "list",
    "login",
    "logout",
    "logs",
    "models",
    "new",
    "plugins",
    "prompt",
    "restart",
    "service",
    "sessions",
    "start",
    "status",
    "stop",
    "update",
    "usage",
];

const EXAMPLES: &str = "\
Examples:
  wolli new scribe                            make an agent, then talk to it
  wolli new demo --model echo/demo            one that answers without any account
  wolli scribe                                chat in its latest session
  wolli scribe --print \"What is due today?\"   one prompt, the answer on stdout
  git diff | wolli scribe --print -           the prompt from stdin
  wolli scribe --print --json \"Hello\"         every event as one line of JSON
  wolli prompt scribe --file task.md          the prompt from a file; the agent goes on by itself
  wolli events scribe                         everything that happens in the session, as lines of JSON
  wolli chat list                             chat with an agent whose name is a command
  wolli config scribe                         the configuration in effect, and where it comes from
  wolli service install scribe                have the agent started with the machine, and after a crash
  wolli status scribe                         whether it runs, and who runs it
  wolli doctor scribe                         what is wrong with it, and what to type against it";

const ENVIRONMENT: &str = "\
Environment:
  WOLLI_HOME           folder of all agents (default ~/.wolli)
  WOLLI_SHARED_DIR     credentials, settings and models of all agents (default ~/.wolli/agent)
  WOLLI_DAEMON_HOST    address that daemons listen on (default 127.0.0.1)
  WOLLI_DAEMON_TOKEN   token to use instead of the one in agent.json";

/// What stands below the options in `--help`.
fn after_help() -> String {
    format!("{EXAMPLES}\n\nExit status:\n{}\n{ENVIRONMENT}", status::help())
}

/// Agents that live on your machine.
#[derive(Debug, Parser)]
#[command(
    name = "wolli",
    version,
    disable_version_flag = true,
    args_conflicts_with_subcommands = true,
    override_usage = "wolli [COMMAND]\n       wolli <agent> [--session <id> | --new]\n       wolli <agent> --print <message>...",
    after_help = after_help()
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) talk: Talk,
    /// Print the version
    #[arg(short = 'v', short_alias = 'V', long, action = ArgAction::Version)]
    version: Option<bool>,
}

/// Talking to one agent: a chat, or one prompt with `--print`.
#[derive(Debug, Args)]
pub(crate) struct Talk {
    /// The agent to talk to
    #[arg(value_name = "agent", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) agent: Option<String>,
    /// With --print: the message; `-` reads it from stdin
    #[arg(value_name = "message")]
    pub(crate) message: Vec<String>,
    /// Send one message, print the answer and end
    #[arg(short, long)]
    pub(crate) print: bool,
    /// Use this session instead of the latest one
    #[arg(long, value_name = "id", conflicts_with = "new", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// Use a new session
    #[arg(long)]
    pub(crate) new: bool,
    /// With --print: print every event as a line of JSON instead of the answer
    #[arg(long, requires = "print")]
    pub(crate) json: bool,
    /// With --print: give up after this time, such as 90s, 5m or 1h; the run is aborted
    #[arg(long, value_name = "time", requires = "print", value_parser = parse_time)]
    pub(crate) timeout: Option<Duration>,
}

impl Talk {
    /// Nothing was typed.
    pub(crate) fn is_empty(&self) -> bool {
        self.agent.is_none() && !self.print && !self.new && self.session.is_none()
    }
}

/// The command words.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make an agent, and in a terminal talk to it
    #[command(override_usage = "wolli new <name> [--model <provider/id>] [--purpose <text>]")]
    New(New),
    /// List the agents
    #[command(override_usage = "wolli list [--json]")]
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Chat with an agent, also with one whose name is a command
    #[command(override_usage = "wolli chat <agent> [--session <id> | --new]\n       wolli chat <agent> --print <message>...")]
    Chat(Talk),
    /// Give an agent something to do, from a script
    #[command(
        override_usage = "wolli prompt <agent> [<message>... | - | --file <file>] [--session <id> | --new] [--wait | --json] [--timeout <time>]"
    )]
    Prompt(requests::Prompt),
    /// Follow a session as lines of JSON
    #[command(override_usage = "wolli events <agent> [--session <id>] [--view <view>] [--include <word>,...] [--after <frameId>]")]
    Events(requests::Events),
    /// Show the log of an agent's daemon, running or not
    #[command(override_usage = "wolli logs <agent> [--follow] [--since <time>] [--session <id>] [--lines <n>] [--json]")]
    Logs(logs::Logs),
    /// Show the tokens and the money that a session, the agent today and the agent in all have used
    #[command(override_usage = "wolli usage <agent> [--session <id>] [--json]")]
    Usage(requests::At),
    /// Replace the earlier part of a conversation by a summary
    #[command(override_usage = "wolli compact <agent> [<instructions>...] [--session <id>] [--json]")]
    Compact(requests::Compact),
    /// List the models that an agent can use
    #[command(override_usage = "wolli models <agent> [--session <id>] [--json]")]
    Models(requests::At),
    /// List, show, rename, delete and export the sessions of an agent
    #[command(subcommand, override_usage = "wolli sessions list|show|rename|delete|export <agent> ...")]
    Sessions(sessions::Sessions),
    /// Delete an agent with its memory, sessions and workspace
    #[command(override_usage = "wolli delete <name> [--yes]")]
    Delete(Delete),
    /// Start an agent's daemon, by its service if it is installed; returns when it answers
    #[command(override_usage = "wolli start <name>")]
    Start {
        /// The agent
        #[arg(value_name = "name")]
        name: String,
    },
    /// End an agent's daemon; what runs is aborted and kept
    #[command(override_usage = "wolli stop <name>")]
    Stop {
        /// The agent
        #[arg(value_name = "name")]
        name: String,
    },
    /// End an agent's daemon and start it anew: by its service if it is installed, else with the environment of now
    #[command(override_usage = "wolli restart <name>")]
    Restart {
        /// The agent
        #[arg(value_name = "name")]
        name: String,
    },
    /// Say whether an agent runs, and who runs it; status 3 if nobody does
    #[command(override_usage = "wolli status <name> [--json]")]
    Status(Named),
    /// Install an agent as a service of this user: started with the machine, and again after a crash
    #[command(subcommand)]
    Service(Service),
    /// Find out what is wrong with an agent, or with all, and how to mend it; status 10 if there are warnings alone
    #[command(override_usage = "wolli doctor [<name>] [--fix] [--json]")]
    Doctor(Doctor),
    /// Show the configuration in effect, for all agents or for one, and where each value comes from
    Config {
        /// The agent
        #[arg(value_name = "name")]
        name: Option<String>,
    },
    /// Serve an agent in the foreground; `wolli <agent>` starts this by itself
    #[command(override_usage = "wolli daemon <name> [--port <n>] [--log-format text|json] [--supervisor launchd]")]
    Daemon(Daemon),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// What can be done with an agent's service.
#[derive(Debug, Subcommand)]
pub(crate) enum Service {
    /// Install the service, or write its definition anew; starts nothing. Status 10 if it will end with the login
    #[command(override_usage = "wolli service install <name> [--json]")]
    Install(Named),
    /// Stop the service and take it away; the agent stays
    #[command(override_usage = "wolli service uninstall <name> [--json]")]
    Uninstall(Named),
    /// Say whether the service is installed, enabled and running
    #[command(override_usage = "wolli service status <name> [--json]")]
    Status(Named),
}

/// One agent, told about in words or as JSON.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The agent
    #[arg(value_name = "name")]
    pub(crate) name: String,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Looking at agents.
#[derive(Debug, Args)]
pub(crate) struct Doctor {
    /// The agent; all if absent
    #[arg(value_name = "name")]
    pub(crate) name: Option<String>,
    /// Do what cannot lose anything: modes of files, sockets left behind, the service's definition
    #[arg(long)]
    pub(crate) fix: bool,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct New {
    /// Lowercase letters, digits and hyphens
    #[arg(value_name = "name")]
    pub(crate) name: String,
    /// The model it uses by default, such as anthropic/claude-opus-4-8 or echo/demo
    #[arg(long, value_name = "provider/id", value_parser = parse_model)]
    pub(crate) model: Option<String>,
    /// What it is for, in a line
    #[arg(long, value_name = "text")]
    pub(crate) purpose: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Delete {
    /// The agent
    #[arg(value_name = "name")]
    pub(crate) name: String,
    /// Do not ask
    #[arg(short, long)]
    pub(crate) yes: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Daemon {
    /// The agent
    #[arg(value_name = "name")]
    pub(crate) name: String,
    /// Listen on this port instead of the one in agent.json
    #[arg(long, value_name = "n", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// How log lines on stderr look
    #[arg(long, value_name = "format", default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// The service manager that started this process
    #[arg(long, value_name = "name")]
    pub(crate) supervisor: Option<Supervisor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// Service managers that need a daemon to behave in a way of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Supervisor {
    /// It would restart a daemon that ends with status 75, so that status becomes 0.
    Launchd,
}

fn parse_model(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((provider, id)) if !provider.is_empty() && !id.is_empty() => Ok(text.to_owned()),
        _ => Err("a model is written provider/id, such as anthropic/claude-opus-4-8".to_owned()),
    }
}

/// A whole number with `ms`, `s`, `m` or `h` behind it; without a unit it counts seconds.
fn parse_time(text: &str) -> Result<Duration, String> {
    let wrong = || "a time is a number with a unit, such as 500ms, 90s, 5m or 1h".to_owned();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().map_err(|_| wrong())?;
    let millis = match unit {
        "ms" => Some(number),
        "s" | "" => number.checked_mul(1_000),
        "m" => number.checked_mul(60_000),
        "h" => number.checked_mul(3_600_000),
        _ => None,
    };
    match millis {
        Some(0) => Err("the time must be more than nothing".to_owned()),
        Some(millis) => Ok(Duration::from_millis(millis)),
        None => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn parse(words: &[&str]) -> Result<Arguments, clap::error::ErrorKind> {
        Arguments::try_parse_from(["wolli"].iter().chain(words)).map_err(|e| e.kind())
    }

    #[test]
    fn the_definition_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_word_is_reserved() {
        for command in Arguments::command().get_subcommands() {
            assert!(RESERVED_NAMES.contains(&command.get_name()), "{}", command.get_name());
        }
        assert!(RESERVED_NAMES.is_sorted());
    }

    #[test]
    fn every_command_and_option_is_documented() {
        let page = include_str!("../../../docs/cli.md");
        for command in Arguments::command().get_subcommands() {
            let name = command.get_name();
            assert!(page.contains(&format!("wolli {name}")), "{name}");
            let below: Vec<&clap::Command> = command.get_subcommands().collect();
            assert!(below.iter().all(|verb| page.contains(&format!("wolli {name} {}", verb.get_name()))), "{name}");
            for option in command.get_arguments().filter_map(clap::Arg::get_long).filter(|_| !["daemon", "chat"].contains(&name)) {
                assert!(page.contains(&format!("--{option}")), "{name} --{option}");
            }
        }
    }

    #[test]
    fn the_first_word_is_a_command_or_an_agent() {
        assert!(matches!(parse(&["list"]).unwrap().command, Some(Command::List { json: false })));
        let talk = |words: &[&str]| {
            let arguments = parse(words).unwrap();
            assert!(arguments.command.is_none(), "{words:?}");
            (arguments.talk.agent.unwrap(), arguments.talk.message, arguments.talk.print)
        };
        assert_eq!(talk(&["scribe"]), ("scribe".into(), vec![], false));
        let text: Vec<String> = vec!["list".into(), "it".into()];
        assert_eq!(talk(&["scribe", "list", "it", "--print"]), ("scribe".into(), text.clone(), true));
        assert_eq!(talk(&["scribe", "--print", "list", "it"]), ("scribe".into(), text.clone(), true));
        assert_eq!(talk(&["--print", "scribe", "list", "it"]), ("scribe".into(), text, true));
        assert_eq!(talk(&["--", "list"]), ("list".into(), vec![], false));
        assert_eq!(talk(&["scribe", "-p", "--", "-x", "--print"]), ("scribe".into(), vec!["-x".into(), "--print".into()], true));
        assert_eq!(talk(&["scribe", "-p", "-"]), ("scribe".into(), vec!["-".into()], true));
        match parse(&["chat", "list", "hello", "-p"]).unwrap().command {
            Some(Command::Chat(talk)) => assert_eq!((talk.agent.as_deref(), talk.print), (Some("list"), true)),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        use clap::error::ErrorKind;
        for (words, kind) in [
            (&["scribe", "--wat"][..], ErrorKind::UnknownArgument),
            (&["--wat"], ErrorKind::UnknownArgument),
            (&["new"], ErrorKind::MissingRequiredArgument),
            (&["delete"], ErrorKind::MissingRequiredArgument),
            (&["daemon"], ErrorKind::MissingRequiredArgument),
            (&["new", "a", "b"], ErrorKind::UnknownArgument),
            (&["new", "a", "--model", "gpt"], ErrorKind::ValueValidation),
            (&["daemon", "a", "--port", "0"], ErrorKind::ValueValidation),
            (&["daemon", "a", "--port", "65536"], ErrorKind::ValueValidation),
            (&["scribe", "--json"], ErrorKind::MissingRequiredArgument),
            (&["scribe", "--timeout", "5s"], ErrorKind::MissingRequiredArgument),
            (&["scribe", "--session", "x", "--new"], ErrorKind::ArgumentConflict),
            (&[""], ErrorKind::InvalidValue),
        ] {
            assert_eq!(parse(words).unwrap_err(), kind, "{words:?}");
        }
    }

    #[test]
    fn times() {
        for (text, millis) in [("1", 1_000), ("90s", 90_000), ("500ms", 500), ("5m", 300_000), ("2h", 7_200_000)] {
            assert_eq!(parse_time(text), Ok(Duration::from_millis(millis)), "{text}");
        }
        for text in ["", "s", "-1", "1.5s", "1 s", "1d", "0", "0ms", "99999999999999999999", "9999999999999999999h", "٣s"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
