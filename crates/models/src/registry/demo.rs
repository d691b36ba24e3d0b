//! The model that answers without any credential: it says back what it was told.
//!
//! It is no row of the catalogue, so that a replaced catalogue cannot take it away.

use wolli_protocol::model::{Model, ModelCost};

/// Provider id of the demonstration model.
pub const DEMO_PROVIDER: &str = "echo";

/// Id of the demonstration model.
pub const DEMO_MODEL: &str = "demo";

/// Its wire kind, which needs no wire.
pub const DEMO_API: &str = "echo";

/// The record of `echo/demo`.
#[must_use]
pub fn demo_model() -> Model {
    Model {
        id: DEMO_MODEL.into(),
        name: "Echo (demonstration)".into(),
        api: DEMO_API.into(),
        provider: DEMO_PROVIDER.into(),
        base_url: String::new(),
        // It shows thinking when it is asked to.
        reasoning: true,
        thinking_level_map: None,
        input: vec!["text".into()],
        cost: ModelCost::default(),
        context_window: 128_000,
        max_tokens: 16_384,
        headers: None,
        compat: None,
    }
}
