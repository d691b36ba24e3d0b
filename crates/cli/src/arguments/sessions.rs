//! The words behind `wolli sessions`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand, ValueEnum};

#[derive(Debug, Subcommand)]
pub(crate) enum Sessions {
    /// List an agent's sessions, newest first
    #[command(override_usage = "wolli sessions list <agent> [--json]")]
    List {
        /// The agent
        #[arg(value_name = "agent")]
        agent: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a session is and how it ended
    #[command(override_usage = "wolli sessions show <agent> [id] [--json]")]
    Show {
        #[command(flatten)]
        named: Named,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Give a session a name; an empty one takes its name away
    #[command(override_usage = "wolli sessions rename <agent> <id> <name> [--json]")]
    Rename {
        /// The agent
        #[arg(value_name = "agent")]
        agent: String,
        /// The session, or the beginning of its id
        #[arg(value_name = "id", value_parser = NonEmptyStringValueParser::new())]
        session: String,
        /// The name
        #[arg(value_name = "name")]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Delete a session and its file
    #[command(override_usage = "wolli sessions delete <agent> <id> [--yes] [--json]")]
    Delete {
        /// The agent
        #[arg(value_name = "agent")]
        agent: String,
        /// The session, or the beginning of its id
        #[arg(value_name = "id", value_parser = NonEmptyStringValueParser::new())]
        session: String,
        /// Do not ask
        #[arg(short, long)]
        yes: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Write a whole conversation as Markdown or JSON
    #[command(override_usage = "wolli sessions export <agent> [id] [--format markdown|json] [--output <file>]")]
    Export {
        #[command(flatten)]
        named: Named,
        /// How it is written
        #[arg(long, value_name = "format", default_value = "markdown", conflicts_with = "json")]
        format: Format,
        /// The same as --format json
        #[arg(long)]
        json: bool,
        /// Write to this file instead of stdout; it is replaced
        #[arg(short, long, value_name = "file")]
        output: Option<PathBuf>,
    },
}

/// An agent, and one of its sessions.
#[derive(Debug, Args)]
pub(crate) struct Named {
    /// The agent
    #[arg(value_name = "agent")]
    pub(crate) agent: String,
    /// The session, or the beginning of its id; the latest one without it
    #[arg(value_name = "id", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[value(alias = "md")]
    Markdown,
    Json,
}
