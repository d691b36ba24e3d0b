//! `deploy`: a forming agent writes down its purpose and its SOUL.md and declares itself ready.
//!
//! It does not deploy anything: the human's yes does.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use wolli_protocol::message::JsonObject;
use wolli_protocol::text::utf16_len;

use super::atomic::{self, PRIVATE};
use super::blocking::blocking;
use super::context::{ToolContext, ToolOutput};
use super::failure::ToolFailure;
use super::locks;
use super::memory::BUDGET;
use super::path;
use super::set::typed;
use super::spec::{Execution, Tool, ToolFuture, ToolSpec, builtin};

#[derive(Debug)]
struct Deploy(ToolSpec);

pub(super) fn tool() -> Arc<dyn Tool> {
    Arc::new(Deploy(builtin(
        "deploy",
        "Deploy",
        Execution::Sequential,
        "Declare yourself ready to be deployed, once you and your human agree on your purpose. Saves the one-line purpose and the whole of your SOUL.md \
         (at most 8000 characters: who you are, how you work, what you never do). Your human confirms afterwards.",
        json!({
            "type": "object",
            "required": ["purpose", "soul"],
            "properties": {
                "purpose": {"type": "string", "description": "Your purpose in one line"},
                "soul": {"type": "string", "description": "The full text of SOUL.md"}
            }
        }),
        "Declare yourself ready: save purpose and SOUL.md",
        &["Call deploy only when the human agrees with the purpose; do not write SOUL.md by other means before"],
    )))
}

#[derive(Debug, Deserialize)]
struct Arguments {
    purpose: String,
    soul: String,
}

impl Tool for Deploy {
    fn spec(&self) -> &ToolSpec {
        &self.0
    }

    fn run<'a>(&'a self, arguments: JsonObject, context: &'a ToolContext) -> ToolFuture<'a> {
        Box::pin(async move {
            let Arguments { purpose, soul } = typed(arguments)?;
            let (purpose, soul) = (purpose.trim().to_owned(), soul.trim().to_owned());
            let length = utf16_len(&soul);
            let refusal = if purpose.is_empty() {
                Some("purpose is required — pass a one-line purpose as the `purpose` argument.".to_owned())
            } else if soul.is_empty() {
                Some("soul is required — pass your full SOUL.md as the `soul` argument.".to_owned())
            } else if length > BUDGET {
                Some(format!("Not saved: SOUL.md would be {length} chars, over the {BUDGET} budget. Tighten it first."))
            } else {
                None
            };
            if let Some(refusal) = refusal {
                return Ok(output(refusal, json!({"applied": false})));
            }
            let file = path::real(&context.home.join("SOUL.md"));
            let lock = locks::lock(&file, &context.cancel).await?;
            let agent = Arc::clone(&context.agent);
            blocking(&context.cancel, move |abort| {
                let _held = lock;
                atomic::replace(&file, soul.as_bytes(), Some(PRIVATE), abort)?;
                agent.set_purpose(&purpose).map_err(ToolFailure::Text)
            })
            .await?;
            let text = "Purpose and SOUL.md saved — awaiting your human's confirmation to deploy.";
            Ok(output(text.to_owned(), json!({"applied": true, "bytes": length})))
        })
    }
}

fn output(text: String, details: Value) -> ToolOutput {
    ToolOutput::text(text).with_details(Some(details))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::testing::{Home, text};

    #[tokio::test]
    async fn purpose_and_soul_are_saved_trimmed() {
        let home = Home::new();
        home.write("SOUL.md", "old");
        let output = home.call("deploy", json!({"purpose": " watch \n", "soul": "\n I am é.\n\n"})).await;
        assert_eq!(text(&output), "Purpose and SOUL.md saved — awaiting your human's confirmation to deploy.");
        assert_eq!(output.details, Some(json!({"applied": true, "bytes": 7})));
        assert_eq!(home.read("SOUL.md"), "I am é.");
        assert_eq!(*home.agent.0.lock().unwrap(), Ok("watch".to_owned()));
    }

    #[tokio::test]
    async fn refusals_are_normal_results_and_change_nothing() {
        let home = Home::new();
        for (purpose, soul, expected) in [
            (" ", "x".to_owned(), "purpose is required — pass a one-line purpose as the `purpose` argument."),
            ("p", "\n".to_owned(), "soul is required — pass your full SOUL.md as the `soul` argument."),
            ("p", "x".repeat(8001), "Not saved: SOUL.md would be 8001 chars, over the 8000 budget. Tighten it first."),
        ] {
            let output = home.call("deploy", json!({"purpose": purpose, "soul": soul})).await;
            assert_eq!((text(&output), output.is_error), (expected, false));
            assert_eq!(output.details, Some(json!({"applied": false})));
        }
        assert!(!home.path("SOUL.md").exists());
        assert!(!home.call("deploy", json!({"purpose": "p", "soul": "x".repeat(8000)})).await.is_error);
    }

    #[tokio::test]
    async fn a_purpose_that_cannot_be_saved_is_told() {
        let home = Home::new();
        *home.agent.0.lock().unwrap() = Err("cannot write agent.json".to_owned());
        assert_eq!(home.bad("deploy", json!({"purpose": "p", "soul": "s"})).await, "cannot write agent.json");
    }
}
