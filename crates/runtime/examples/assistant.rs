//! An agent inside a program of one's own: its own tool, its own system prompt, and a model that the program answers for.
//!
//! `cargo run -p wolli-runtime --example assistant` keeps its home in a temporary folder and prints what happens. With
//! `.model("anthropic/...")` and `.environment(std::env::vars())` in place of the port, a provider answers.

use std::path::Path;
use std::sync::Arc;

use futures_util::stream::BoxStream;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use wolli_models::event::ModelEvent;
use wolli_models::port::{Answer, ModelPort};
use wolli_models::request::ModelRequest;
use wolli_protocol::event::{AssistantMessageEvent, SessionEvent};
use wolli_protocol::message::{JsonObject, Message, UserBlock, UserContent};
use wolli_protocol::model::Model;
use wolli_runtime::embed::{Engine, Tools, Update};
use wolli_runtime::hub::View;
use wolli_runtime::tools::{Execution, Tool, ToolContext, ToolFuture, ToolOutput, ToolSpec};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// A tool of the program: what is in stock.
struct Stock(ToolSpec);

impl Stock {
    fn new() -> Self {
        Self(ToolSpec {
            name: "stock".into(),
            label: "Stock".into(),
            description: "Says how many of an article are in stock.".into(),
            parameters: json!({
                "type": "object",
                "properties": { "article": { "type": "string", "description": "name of the article" } },
                "required": ["article"]
            }),
            snippet: "look up how many of an article there are".into(),
            guidelines: Vec::new(),
            execution: Execution::Parallel,
        })
    }
}

impl Tool for Stock {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, arguments: JsonObject, _context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let article = arguments.get("article").and_then(serde_json::Value::as_str).unwrap_or_default();
            Ok(ToolOutput::text(format!("{} {article}", article.len())))
        })
    }
}

/// A model of the program: it looks everything up once, then says what it found.
struct Clerk;

impl ModelPort for Clerk {
    fn models(&self) -> Vec<Model> {
        let rule = Model { id: "rule".into(), name: "Clerk".into(), provider: "clerk".into(), api: "clerk".into(), ..Model::placeholder() };
        vec![Model { context_window: 100_000, max_tokens: 1_000, ..rule }]
    }

    fn answer(&self, request: ModelRequest, _cancel: CancellationToken) -> BoxStream<'static, ModelEvent> {
        let calls = request.messages.len();
        let answer = Answer::to(&request);
        match request.messages.last().map(|message| &**message) {
            Some(Message::User(question)) => {
                let article = match &question.content {
                    UserContent::Text(text) => text.clone(),
                    UserContent::Blocks(blocks) => text(blocks),
                };
                answer.text("Let me look.").call(
                    format!("call_{calls}"),
                    "stock",
                    JsonObject::from_iter([("article".into(), json!(article))]),
                )
            }
            Some(Message::ToolResult(result)) => answer.text(format!("There are {}.", text(&result.content))),
            _ => answer.text("Ask me about an article."),
        }
        .into_stream()
    }
}

fn text(content: &[UserBlock]) -> String {
    content.iter().filter_map(|block| if let UserBlock::Text(text) = block { Some(text.text.as_str()) } else { None }).collect()
}

/// Asks one question; returns what happened, line by line. `root` is where the agent's home goes.
pub(crate) async fn run(root: &Path) -> Result<Vec<String>, Failure> {
    let engine = Engine::builder(root, "clerk")
        .tools(Tools::Only(vec![Arc::new(Stock::new())]))
        .system_prompt(|parts| format!("You are {} and sell apples.", parts.agent))
        .models(Arc::new(Clerk))
        .open()
        .await?;
    let session = engine.create_session().await?;
    let mut updates = session.subscribe(View::Delta).await?;
    session.follow_up("apples").await?;
    let mut lines = Vec::new();
    while let Some(update) = updates.next().await {
        match update {
            Update::Event { event: SessionEvent::MessageUpdate { assistant_message_event, .. }, .. } => {
                if let AssistantMessageEvent::TextEnd { content, .. } = assistant_message_event {
                    lines.push(format!("clerk: {content}"));
                }
            }
            Update::Event { event: SessionEvent::ToolExecutionEnd { tool_name, result, .. }, .. } => {
                lines.push(format!("{tool_name}: {}", text(&result.content)));
            }
            Update::Event { event: SessionEvent::AgentEnd { .. }, .. } => break,
            Update::Hello(_) | Update::Event { .. } => {}
        }
    }
    engine.close().await;
    Ok(lines)
}

#[expect(clippy::print_stdout, reason = "it is a program that shows something")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let folder = std::env::temp_dir().join(format!("wolli-assistant-{}", std::process::id()));
    let lines = run(&folder).await;
    std::fs::remove_dir_all(&folder)?;
    for line in lines? {
        println!("{line}");
    }
    Ok(())
}
