//! Exit statuses of the program. They are API: scripts and service managers decide by them.
//!
//! Invariant: every status that the program ends with is in [`TABLE`]; `--help` prints the table, and a test holds the documentation
//! against it.

/// It failed; the reason is on stderr.
pub(crate) const FAILURE: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// The agent's daemon does not answer and cannot be started, or something else answers in its place.
pub(crate) const UNREACHABLE: u8 = 3;
/// The daemon refuses the token.
pub(crate) const UNAUTHORISED: u8 = 4;
/// The turn ended in an error.
pub(crate) const TURN_FAILED: u8 = 5;
/// The turn was aborted.
pub(crate) const TURN_ABORTED: u8 = 6;
/// The turn waits for the answer of a person.
pub(crate) const WAITS: u8 = 7;
/// What the agent may spend is spent.
pub(crate) const BUDGET: u8 = 8;
/// Done, but something is left to do.
pub(crate) const WARNING: u8 = 10;
/// Another daemon serves the agent.
pub(crate) const ALREADY_RUNNING: u8 = 75;
/// The agent's port is another program's.
pub(crate) const PORT_TAKEN: u8 = 76;
/// A configuration file or `agent.json` is wrong.
pub(crate) const CONFIGURATION: u8 = 78;
/// Ended by Ctrl+C.
pub(crate) const INTERRUPTED: u8 = 130;
/// Ended by the request to terminate.
pub(crate) const TERMINATED: u8 = 143;

/// Every status and what it says, in rising order.
pub(crate) const TABLE: &[(u8, &str)] = &[
    (0, "success"),
    (FAILURE, "it failed; the reason is on stderr"),
    (USAGE, "the command line is wrong"),
    (UNREACHABLE, "the agent's daemon cannot be reached or started"),
    (UNAUTHORISED, "the daemon refuses the token"),
    (TURN_FAILED, "the turn ended in an error"),
    (TURN_ABORTED, "the turn was aborted"),
    (WAITS, "the turn waits for the answer of a person"),
    (BUDGET, "the budget is spent"),
    (WARNING, "done, with a warning: something is left to do"),
    (ALREADY_RUNNING, "the agent is already being served"),
    (PORT_TAKEN, "the agent's port is used by another program"),
    (CONFIGURATION, "a configuration file or agent.json is wrong"),
    (INTERRUPTED, "interrupted (Ctrl+C)"),
    (TERMINATED, "terminated"),
];

/// The table as lines of help.
pub(crate) fn help() -> String {
    TABLE.iter().map(|(status, meaning)| format!("  {status:<4} {meaning}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_rises_and_is_what_the_documentation_says() {
        assert!(TABLE.is_sorted_by(|one, two| one.0 < two.0));
        let page = include_str!("../../../docs/cli.md");
        let rows: Vec<String> = TABLE.iter().map(|(status, meaning)| format!("| {status} | {meaning} |")).collect();
        let section = page.lines().skip_while(|line| *line != "## Exit statuses").skip(1).take_while(|line| !line.starts_with("## "));
        let documented: Vec<&str> = section.filter(|line| line.starts_with("| ")).skip(1).collect();
        assert_eq!(documented, rows);
    }
}
