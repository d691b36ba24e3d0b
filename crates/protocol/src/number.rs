//! JSON numbers as JavaScript prints them: `0`, never `0.0`.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Largest integer that a JavaScript number holds exactly (2^53 - 1).
pub const MAX_SAFE_INTEGER: f64 = 9_007_199_254_740_991.0;

/// A finite JSON number that prints without a fraction when it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
pub struct Number(pub f64);

impl Number {
    pub const ZERO: Self = Self(0.0);
}

impl From<f64> for Number {
    fn from(value: f64) -> Self {
        Self(value)
    }
}

impl std::ops::Add for Number {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0 + other.0)
    }
}

impl std::ops::AddAssign for Number {
    fn add_assign(&mut self, other: Self) {
        self.0 += other.0;
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = self.0;
        if !value.is_finite() {
            // JSON has no such number; JavaScript prints `null`.
            return serializer.serialize_unit();
        }
        if value.fract() == 0.0 && value.abs() <= MAX_SAFE_INTEGER {
            #[expect(clippy::cast_possible_truncation, reason = "the range was checked above")]
            return serializer.serialize_i64(value as i64);
        }
        serializer.serialize_f64(value)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::<f64>::deserialize(deserializer).map(|value| Self(value.unwrap_or(0.0)))
    }
}

impl JsonSchema for Number {
    fn schema_name() -> Cow<'static, str> {
        "Number".into()
    }
    fn inline_schema() -> bool {
        true
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "number" })
    }
}

#[cfg(test)]
mod tests {
    use super::Number;

    #[test]
    fn whole_numbers_have_no_fraction() {
        for (value, text) in [(0.0, "0"), (-0.0, "0"), (3.0, "3"), (0.25, "0.25"), (-2.0, "-2"), (1e21, "1e+21"), (f64::NAN, "null")] {
            assert_eq!(serde_json::to_string(&Number(value)).unwrap(), text);
        }
    }
}
