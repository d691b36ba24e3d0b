//! The words behind `wolli prompt`, `events`, `usage`, `compact` and `models`.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{NonEmptyStringValueParser, PossibleValuesParser};
use clap::{Args, ValueEnum};
use wolli_protocol::ids::FrameId;

use super::parse_time;

#[derive(Debug, Args)]
pub(crate) struct Prompt {
    /// The agent
    #[arg(value_name = "agent")]
    pub(crate) agent: String,
    /// The message; `-` reads it from stdin, and so does no message where stdin is no terminal
    #[arg(value_name = "message", conflicts_with = "file")]
    pub(crate) message: Vec<String>,
    /// Read the message from this file
    #[arg(long, value_name = "file")]
    pub(crate) file: Option<PathBuf>,
    /// Use this session, or the one whose id begins like that, instead of the latest one
    #[arg(long, value_name = "id", conflicts_with = "new", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// Use a new session
    #[arg(long)]
    pub(crate) new: bool,
    /// Wait for the end and print the answer; without it, print the session's id as soon as the prompt is on disk
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait for the end and print every event as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Give up waiting after this time, such as 90s, 5m or 1h; the run is aborted
    #[arg(long, value_name = "time", value_parser = parse_time)]
    pub(crate) timeout: Option<Duration>,
}

#[derive(Debug, Args)]
pub(crate) struct Events {
    /// The agent
    #[arg(value_name = "agent")]
    pub(crate) agent: String,
    /// The session, or the beginning of its id, instead of the latest one
    #[arg(long, value_name = "id", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// How much each event tells
    #[arg(long, value_name = "view", default_value = "delta")]
    pub(crate) view: View,
    /// Notices to get as well; without it what `events.include` says
    #[arg(long, value_name = "word", value_delimiter = ',', value_parser = PossibleValuesParser::new(NOTICES))]
    pub(crate) include: Vec<String>,
    /// Begin after the event of this frameId, if the daemon still has it
    #[arg(long, value_name = "frameId", value_parser = parse_frame)]
    pub(crate) after: Option<FrameId>,
}

const NOTICES: [&str; 7] = ["compaction", "retry", "waiting", "login_ui", "usage", "lifecycle", "all"];

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum View {
    Delta,
    Full,
    Snapshot,
}

impl View {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Delta => "delta",
            Self::Full => "full",
            Self::Snapshot => "snapshot",
        }
    }
}

fn parse_frame(text: &str) -> Result<FrameId, &'static str> {
    FrameId::parse(text).ok_or("a frameId is a whole number, as `wolli events` prints it")
}

#[derive(Debug, Args)]
pub(crate) struct Compact {
    #[command(flatten)]
    pub(crate) at: At,
    /// What the summary should pay attention to
    #[arg(value_name = "instructions")]
    pub(crate) instructions: Vec<String>,
}

/// An agent, one of its sessions, and the form of the answer.
#[derive(Debug, Args)]
pub(crate) struct At {
    /// The agent
    #[arg(value_name = "agent")]
    pub(crate) agent: String,
    /// The session, or the beginning of its id, instead of the latest one
    #[arg(long, value_name = "id", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) session: Option<String>,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}
