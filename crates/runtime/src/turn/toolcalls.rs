//! The tool calls of one answer: prepared in order, run together or one after another, reported in order.
//!
//! A tool never fails the run: whatever goes wrong is a result that the model can read.

use std::sync::Arc;

use futures_util::stream::{FuturesUnordered, StreamExt};
use serde_json::Value;
use wolli_protocol::event::SessionEvent;
use wolli_protocol::ids::EntryId;
use wolli_protocol::message::{AssistantBlock, AssistantMessage, Message, StopReason, ToolCall, ToolResultMessage};

use super::run::Run;
use crate::clock::now_millis;
use crate::dialogs::Dialogs;
use crate::hub::Hub;
use crate::session::StoreError;
use crate::tools::{Execution, Prepared, ToolContext, ToolOutput, ToolUpdate, ToolUpdates};

/// Runs every call of `answer` and returns the entries of the results, in call order. Calls that an abort kept from starting have no frames and no result; the request
/// builder covers them when the history is sent.
pub(super) async fn run(run: &mut Run, answer: &AssistantMessage) -> Result<Vec<EntryId>, StoreError> {
    let calls: Vec<Call> = calls(answer);
    match run.context.tools.execution(calls.iter().map(|call| call.call.name.as_str())) {
        Execution::Sequential => run_in_order(run, calls).await,
        Execution::Parallel => run_together(run, calls).await,
    }
}

/// A call and, if the answer was cut off in it, that it must not be run.
struct Call {
    call: ToolCall,
    cut_off: bool,
}

/// The calls of an answer. One that the output limit cut off is the last block; its arguments may be half of what was meant.
fn calls(answer: &AssistantMessage) -> Vec<Call> {
    let cut_off = answer.stop_reason == StopReason::Length && matches!(answer.content.last(), Some(AssistantBlock::ToolCall(_)));
    let mut calls: Vec<Call> = answer.tool_calls().map(|call| Call { call: call.clone(), cut_off: false }).collect();
    if let Some(last) = calls.last_mut() {
        last.cut_off = cut_off;
    }
    calls
}

async fn run_together(run: &mut Run, calls: Vec<Call>) -> Result<Vec<EntryId>, StoreError> {
    let mut outputs: Vec<Option<ToolOutput>> = calls.iter().map(|_| None).collect();
    let mut prepared = Vec::new();
    for (index, call) in calls.iter().enumerate() {
        match start(run, call) {
            Ok(ready) => prepared.push((index, ready)),
            Err(refusal) => {
                end(&run.context.hub, &call.call, &refusal);
                outputs[index] = Some(refusal);
            }
        }
    }
    let mut running: FuturesUnordered<_> = prepared
        .into_iter()
        .map(|(index, ready)| {
            let execution = execute(run, &calls[index].call, ready);
            async move { (index, execution.await) }
        })
        .collect();
    while let Some((index, output)) = running.next().await {
        end(&run.context.hub, &calls[index].call, &output);
        outputs[index] = Some(output);
    }
    drop(running);
    let finished = calls.into_iter().zip(outputs).filter_map(|(call, output)| Some((call.call, output?))).collect();
    report(run, finished).await
}

async fn run_in_order(run: &mut Run, calls: Vec<Call>) -> Result<Vec<EntryId>, StoreError> {
    let mut results = Vec::new();
    for call in calls {
        if run.context.token.is_cancelled() {
            break;
        }
        let output = match start(run, &call) {
            Ok(ready) => execute(run, &call.call, ready).await,
            Err(refusal) => refusal,
        };
        end(&run.context.hub, &call.call, &output);
        results.extend(report(run, vec![(call.call, output)]).await?);
    }
    Ok(results)
}

/// Announces a call and checks it; the error is the result that it gets instead of being run.
fn start(run: &Run, Call { call, cut_off }: &Call) -> Result<Prepared, ToolOutput> {
    run.publish(&SessionEvent::ToolExecutionStart {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        args: Value::Object(call.arguments.clone()),
    });
    if *cut_off {
        return Err(ToolOutput::error(format!(
            "Tool {} was not run: the answer reached the model's output limit inside this call, so its arguments may be incomplete. \
             Call it again with less in one call.",
            call.name
        )));
    }
    run.context.tools.prepare(&call.name, call.arguments.clone())
}

/// Runs a prepared call in a task of its own, so that a panic in a tool is a failed call and nothing more.
fn execute(run: &Run, call: &ToolCall, prepared: Prepared) -> impl Future<Output = ToolOutput> + use<> {
    let hub = Arc::clone(&run.context.hub);
    let (tool_call_id, tool_name) = (call.id.clone(), call.name.clone());
    let updates = ToolUpdates::new(move |update: ToolUpdate| {
        hub.publish(&SessionEvent::ToolExecutionUpdate {
            tool_call_id: tool_call_id.clone(),
            tool_name: tool_name.clone(),
            args: None,
            partial_result: None,
            appended: Some(update.appended),
            skipped: (update.skipped > 0).then_some(update.skipped),
        });
    });
    let cancel = run.context.token.child_token();
    let dialogs = Dialogs::new(Arc::clone(&run.context.hub), cancel.clone());
    let context: ToolContext = run.context.services.tool_context(cancel, updates, dialogs);
    let name = call.name.clone();
    let task = run.context.services.tasks.spawn("tool", async move { prepared.run(&context).await });
    async move {
        task.await.unwrap_or_else(|error| {
            tracing::error!(tool = %name, %error, "a tool panicked");
            ToolOutput::error(format!("Tool {name} failed inside wolli; the daemon's log has the details"))
        })
    }
}

fn end(hub: &Hub, call: &ToolCall, output: &ToolOutput) {
    hub.publish(&SessionEvent::ToolExecutionEnd {
        tool_call_id: call.id.clone(),
        tool_name: call.name.clone(),
        result: output.to_result(),
        is_error: output.is_error,
    });
}

/// Stores and announces the results in call order.
async fn report(run: &mut Run, finished: Vec<(ToolCall, ToolOutput)>) -> Result<Vec<EntryId>, StoreError> {
    let mut results = Vec::with_capacity(finished.len());
    let mut messages = Vec::with_capacity(finished.len());
    for (call, output) in finished {
        let entry_id = EntryId::generate();
        results.push(entry_id.clone());
        let message = Message::ToolResult(ToolResultMessage {
            tool_call_id: call.id,
            tool_name: call.name,
            content: output.content,
            details: output.details,
            is_error: output.is_error,
            timestamp: now_millis(),
        });
        messages.push((entry_id, message));
    }
    run.finish_messages(messages).await?;
    Ok(results)
}

#[cfg(test)]
mod tests {
    use wolli_protocol::message::{AssistantBlock, AssistantMessage, StopReason, TextContent, ToolCall};
    use wolli_protocol::model::Model;

    use super::calls;

    #[test]
    fn only_a_call_that_the_output_limit_cut_off_is_not_run() {
        let call = |id: &str| {
            AssistantBlock::ToolCall(ToolCall {
                id: id.into(),
                name: "write".into(),
                arguments: serde_json::Map::new(),
                thought_signature: None,
            })
        };
        let text = || AssistantBlock::Text(TextContent::default());
        for (reason, content, expected) in [
            (StopReason::Length, vec![call("a"), call("b")], vec![false, true]),
            (StopReason::Length, vec![call("a"), text()], vec![false]),
            (StopReason::ToolUse, vec![call("a"), call("b")], vec![false, false]),
        ] {
            let answer = AssistantMessage { stop_reason: reason, content, ..AssistantMessage::begin(&Model::placeholder(), 1) };
            assert_eq!(calls(&answer).iter().map(|call| call.cut_off).collect::<Vec<_>>(), expected);
        }
    }
}
