//! Token counts and what they cost.

use serde_json::Value;
use wolli_protocol::message::{Cost, Usage};
use wolli_protocol::model::ModelCost;
use wolli_protocol::number::Number;

/// Prices are per this many tokens.
const PRICED_TOKENS: f64 = 1_000_000.0;

/// A count of tokens, whatever number a server wrote it as; `None` if it is not one.
pub(super) fn count(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates, and negative numbers are cut off")]
    value.as_u64().or_else(|| value.as_f64().map(|number| number.max(0.0) as u64))
}

/// Sets the total and the cost from the four counts.
pub(super) fn settle(usage: &mut Usage, price: ModelCost) {
    usage.total_tokens = [usage.output, usage.cache_read, usage.cache_write].into_iter().fold(usage.input, u64::saturating_add);
    #[expect(clippy::cast_precision_loss, reason = "money is a double on the wire")]
    let cost = |price: Number, tokens: u64| Number(price.0 / PRICED_TOKENS * tokens as f64);
    let mut sum = Cost {
        input: cost(price.input, usage.input),
        output: cost(price.output, usage.output),
        cache_read: cost(price.cache_read, usage.cache_read),
        cache_write: cost(price.cache_write, usage.cache_write),
        total: Number::ZERO,
    };
    sum.total = sum.input + sum.output + sum.cache_read + sum.cache_write;
    usage.cost = sum;
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use wolli_protocol::message::Usage;
    use wolli_protocol::model::ModelCost;
    use wolli_protocol::number::Number;

    use super::{count, settle};

    #[test]
    fn odd_counts_are_read_and_never_overflow() {
        assert_eq!(count(Some(&json!(7))), Some(7));
        assert_eq!(count(Some(&json!(7.9))), Some(7));
        assert_eq!(count(Some(&json!(-7))), Some(0));
        assert_eq!(count(Some(&json!("7"))), None);
        assert_eq!(count(None), None);
        let mut usage = Usage { input: u64::MAX, output: 5, ..Usage::default() };
        settle(&mut usage, ModelCost::default());
        assert_eq!(usage.total_tokens, u64::MAX);
    }

    #[test]
    fn prices_are_per_million() {
        let price = ModelCost { input: Number(3.0), output: Number(15.0), cache_read: Number(0.3), cache_write: Number(3.75) };
        let mut usage = Usage { input: 1000, output: 200, cache_read: 10_000, cache_write: 400, ..Usage::default() };
        settle(&mut usage, price);
        assert_eq!(usage.total_tokens, 11_600);
        let close = |number: Number, expected: f64| (number.0 - expected).abs() < 1e-12;
        assert!(close(usage.cost.input, 0.003) && close(usage.cost.output, 0.003));
        assert!(close(usage.cost.cache_read, 0.003) && close(usage.cost.cache_write, 0.0015));
        assert!(close(usage.cost.total, 0.0105));
    }
}
