//! The one place that every model answer's usage passes: those of runs, failed and aborted ones included, and summaries.

use wolli_protocol::ids::SessionId;
use wolli_protocol::message::Usage;
use wolli_protocol::model::Model;

/// Notes what an answer took. Called once per answer, whatever its end. Never waits.
pub(crate) fn record(session: &SessionId, model: &Model, usage: &Usage) {
    tracing::debug!(
        %session, provider = %model.provider, model = %model.id,
        input = usage.input, output = usage.output, cache_read = usage.cache_read, cache_write = usage.cache_write,
        "a model answered"
    );
}
