//! Messages of all roles but the model's and the tools', as what a person says.

use std::borrow::Cow;

use wolli_protocol::message::{BashExecutionMessage, Message, UserContent};

use super::Part;
use super::images::{ImageRule, Place, parts};

/// The parts that a message says in the person's name; empty if it says nothing.
pub(super) fn as_user(message: &Message, images: ImageRule) -> Vec<Part<'_>> {
    match message {
        Message::User(user) => content(&user.content, images),
        Message::Custom(custom) => content(&custom.content, images),
        Message::BashExecution(run) if run.exclude_from_context == Some(true) => Vec::new(),
        Message::BashExecution(run) => vec![Part::Text(bash_text(run).into())],
        Message::BranchSummary(branch) if branch.summary.trim().is_empty() => Vec::new(),
        Message::BranchSummary(branch) => vec![Part::Text(
            format!("This is a summary of a branch of the conversation that it came back from:\n\n<summary>\n{}</summary>", branch.summary)
                .into(),
        )],
        Message::CompactionSummary(compaction) => vec![Part::Text(
            format!(
                "The earlier history of this conversation was compacted into this summary:\n\n<summary>\n{}\n</summary>",
                compaction.summary
            )
            .into(),
        )],
        Message::Assistant(_) | Message::ToolResult(_) => Vec::new(),
    }
}

fn content(content: &UserContent, images: ImageRule) -> Vec<Part<'_>> {
    match content {
        UserContent::Text(text) if text.trim().is_empty() => Vec::new(),
        UserContent::Text(text) => vec![Part::Text(Cow::Borrowed(text))],
        UserContent::Blocks(blocks) => parts(blocks, images, Place::User),
    }
}

/// What a command that the person ran did, as text.
fn bash_text(run: &BashExecutionMessage) -> String {
    let mut text = format!("Ran `{}`\n", run.command);
    if run.output.trim().is_empty() {
        text.push_str(super::NO_OUTPUT);
    } else {
        // A longer fence if the output has one of its own.
        let mut fence = "```".to_owned();
        while run.output.contains(&fence) {
            fence.push('`');
        }
        let break_before_end = if run.output.ends_with('\n') { "" } else { "\n" };
        text.extend([&fence, "\n", &run.output, break_before_end, &fence]);
    }
    if run.cancelled {
        text.push_str("\n\n(command cancelled)");
    } else if let Some(code) = run.exit_code.filter(|code| *code != 0) {
        text.extend(["\n\nCommand exited with code ", &code.to_string()]);
    }
    if let Some(path) = run.full_output_path.as_deref().filter(|_| run.truncated) {
        text.extend(["\n\n[Output truncated. Full output: ", path, "]"]);
    }
    text
}
