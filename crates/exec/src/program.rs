//! What to start and how it ended: plain data, no behaviour.
//!
//! A [`Program`] is an argument vector, never a shell string; its environment is exactly the map it carries.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;

use bytes::Bytes;

/// What the program reads from its standard input.
#[derive(Clone, Default)]
pub enum Stdin {
    /// End of file at once.
    #[default]
    Null,
    /// These bytes, then end of file. A program that stops reading early is no error.
    Bytes(Bytes),
    /// A pipe that the owner writes to, see [`crate::ProcessGuard::take_stdin`].
    Pipe,
}

/// Where the program's standard output and standard error go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Output {
    /// Both into one pipe, in the order of the writes.
    #[default]
    Merged,
    /// Two pipes.
    Separate,
    /// Nowhere.
    Discard,
}

/// One program to start. Its `Debug` form names the variables and keeps their values and the input to itself.
#[derive(Clone)]
pub struct Program {
    /// A path, or a name that is looked up in the `PATH` of `environment`.
    pub program: OsString,
    /// Arguments without the program's own name.
    pub arguments: Vec<OsString>,
    /// The whole environment: nothing is inherited.
    pub environment: BTreeMap<OsString, OsString>,
    /// The working directory; it has to exist.
    pub directory: PathBuf,
    pub stdin: Stdin,
    pub output: Output,
}

impl Program {
    /// A program without arguments and environment, without input, with merged output.
    pub fn new(program: impl Into<OsString>, directory: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            environment: BTreeMap::new(),
            directory: directory.into(),
            stdin: Stdin::default(),
            output: Output::default(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn arguments<I, A>(mut self, arguments: I) -> Self
    where
        I: IntoIterator<Item = A>,
        A: Into<OsString>,
    {
        self.arguments.extend(arguments.into_iter().map(Into::into));
        self
    }

    /// Adds environment variables.
    #[must_use]
    pub fn environment<I, K, V>(mut self, variables: I) -> Self
    where
        I: IntoIterator<Item = (K, V)>,
        K: Into<OsString>,
        V: Into<OsString>,
    {
        self.environment.extend(variables.into_iter().map(|(name, value)| (name.into(), value.into())));
        self
    }

    /// Sets the input.
    #[must_use]
    pub fn stdin(mut self, stdin: Stdin) -> Self {
        self.stdin = stdin;
        self
    }

    /// Sets where the output goes.
    #[must_use]
    pub fn output(mut self, output: Output) -> Self {
        self.output = output;
        self
    }

    /// The program's name for messages.
    pub(crate) fn name(&self) -> String {
        self.program.to_string_lossy().into_owned()
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Program")
            .field("program", &self.program)
            .field("arguments", &self.arguments)
            .field("environment", &self.environment.keys())
            .field("directory", &self.directory)
            .field("stdin", &self.stdin)
            .field("output", &self.output)
            .finish()
    }
}

impl fmt::Debug for Stdin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => formatter.write_str("Null"),
            Self::Bytes(bytes) => write!(formatter, "Bytes({})", bytes.len()),
            Self::Pipe => formatter.write_str("Pipe"),
        }
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It called exit with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// Whether the code was 0.
    pub fn success(self) -> bool {
        self == Self::Code(0)
    }
}

impl From<ExitStatus> for Exit {
    fn from(status: ExitStatus) -> Self {
        match (status.code(), status.signal()) {
            (Some(code), _) => Self::Code(code),
            (None, Some(signal)) => Self::Signal(signal),
            // Neither is only said of stopped programs, and we never ask for those.
            (None, None) => Self::Code(-1),
        }
    }
}

/// Why a program did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The program is not there, may not be run, or its arguments are too long.
    #[error("cannot start program {program}: {source}")]
    Program { program: String, source: io::Error },
    /// The working directory is missing or is none.
    #[error("cannot start program {program} in directory {directory}: {source}")]
    Directory { program: String, directory: PathBuf, source: io::Error },
    /// No pipe could be made, or the thread that starts programs is gone.
    #[error("cannot connect to program {program}: {source}")]
    Pipe { program: String, source: io::Error },
}

impl SpawnError {
    /// The system's error beneath.
    pub fn io(&self) -> &io::Error {
        match self {
            Self::Program { source, .. } | Self::Directory { source, .. } | Self::Pipe { source, .. } => source,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_not_in_the_debug_form() {
        let program = Program::new("server", "/").environment([("KEY", "hunter2")]).stdin(Stdin::Bytes("hunter2".into()));
        let shown = format!("{program:?}");
        assert!(shown.contains("\"KEY\"") && shown.contains("Bytes(7)") && !shown.contains("hunter2"), "{shown}");
    }
}
