//! Tokens and money as a table for people. Pure.

use wolli_protocol::answer::UsageTotals;
use wolli_protocol::message::Usage;

use crate::columns::aligned;

/// The three sums, one row each.
pub(crate) fn table(usage: &UsageTotals) -> String {
    let head = ["", "input", "output", "cache read", "cache write", "tokens", "cost"].map(str::to_owned);
    aligned(&[head, row("session", &usage.session), row("today", &usage.today), row("total", &usage.total)])
}

fn row(name: &str, usage: &Usage) -> [String; 7] {
    let counts = [usage.input, usage.output, usage.cache_read, usage.cache_write, usage.total_tokens].map(|count| count.to_string());
    let [input, output, cache_read, cache_write, tokens] = counts;
    [name.to_owned(), input, output, cache_read, cache_write, tokens, format!("${:.4}", usage.cost.total.0)]
}

#[cfg(test)]
mod tests {
    use wolli_protocol::message::Cost;

    use super::*;

    #[test]
    fn sums_stand_under_each_other() {
        let cost = Cost { total: 0.01454.into(), ..Cost::default() };
        let session = Usage { input: 1200, output: 340, cache_read: 0, cache_write: 0, total_tokens: 1540, cost };
        let usage = UsageTotals { session, today: session, total: Usage::default() };
        let expected = "         input  output  cache read  cache write  tokens  cost
session  1200   340     0           0            1540    $0.0145
today    1200   340     0           0            1540    $0.0145
total    0      0       0           0            0       $0.0000
";
        assert_eq!(table(&usage), expected);
    }
}
