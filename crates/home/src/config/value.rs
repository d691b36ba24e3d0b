//! Values of the file: reading them with a message that says what would be valid, and writing them back.
//!
//! Pure. Ranges are given by the caller.

use std::ops::RangeInclusive;
use std::time::Duration;

use toml::Value;
use toml::de::DeValue;

use super::schema::{Notice, Words};

const KIB: u64 = 1024;
/// Units of sizes, the largest first.
const SIZES: &[(&str, u64)] = &[("GiB", KIB * KIB * KIB), ("MiB", KIB * KIB), ("KiB", KIB), ("B", 1)];
/// Units of times in milliseconds, the largest first.
const TIMES: &[(&str, u64)] = &[("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

pub(super) fn flag(value: &DeValue<'_>) -> Result<bool, String> {
    value.as_bool().ok_or_else(|| "true or false".to_owned())
}

pub(super) fn word<T: Words>(value: &DeValue<'_>) -> Result<T, String> {
    let known = value.as_str().and_then(|text| T::WORDS.iter().find(|(word, _)| *word == text));
    known.map(|(_, meant)| *meant).ok_or_else(|| format!("one of {}", words::<T>()))
}

pub(super) fn from_word<T: Words>(value: &T) -> Value {
    let word = T::WORDS.iter().find(|(_, meant)| meant == value).map_or("", |(word, _)| word);
    Value::String(word.to_owned())
}

/// A list of notices, each once, or `all` in place of the list or in it.
pub(super) fn notices(value: &DeValue<'_>) -> Result<Vec<Notice>, String> {
    let expected = || format!("\"all\" or a list of {}", words::<Notice>());
    if value.as_str() == Some("all") {
        return Ok(Notice::all());
    }
    let mut notices = Vec::new();
    for item in value.as_array().ok_or_else(expected)?.iter() {
        match item.get_ref() {
            all if all.as_str() == Some("all") => notices = Notice::all(),
            one => notices.push(word(one).map_err(|_| expected())?),
        }
    }
    notices.sort_unstable();
    notices.dedup();
    Ok(notices)
}

pub(super) fn from_notices(notices: &[Notice]) -> Value {
    Value::Array(notices.iter().map(from_word).collect())
}

pub(super) fn count(value: &DeValue<'_>, range: RangeInclusive<u32>) -> Result<u32, String> {
    let number = value.as_integer().and_then(|number| u32::from_str_radix(number.as_str(), number.radix()).ok());
    number.filter(|number| range.contains(number)).ok_or_else(|| format!("a number from {} to {}", range.start(), range.end()))
}

pub(super) fn size(value: &DeValue<'_>, range: RangeInclusive<u64>) -> Result<u64, String> {
    let size = value.as_str().and_then(|text| with_unit(text, SIZES));
    size.filter(|size| range.contains(size)).ok_or_else(|| {
        format!("a size from \"{}\" to \"{}\", such as \"10MiB\"", in_unit(*range.start(), SIZES), in_unit(*range.end(), SIZES))
    })
}

pub(super) fn from_size(bytes: u64) -> Value {
    Value::String(in_unit(bytes, SIZES))
}

pub(super) fn time(value: &DeValue<'_>, range: RangeInclusive<Duration>) -> Result<Duration, String> {
    let time = value.as_str().and_then(|text| with_unit(text, TIMES)).map(Duration::from_millis);
    time.filter(|time| range.contains(time)).ok_or_else(|| {
        format!("a time from \"{}\" to \"{}\", such as \"90s\" or \"10m\"", in_time_unit(*range.start()), in_time_unit(*range.end()))
    })
}

pub(super) fn from_time(time: Duration) -> Value {
    Value::String(in_time_unit(time))
}

/// A list of host names or addresses, without scheme and port, in lowercase.
pub(super) fn hosts(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let host = |text: &str| {
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        let name = !text.is_empty() && text.len() <= 253 && text.bytes().all(plain);
        let address = text.trim_start_matches('[').trim_end_matches(']').parse::<std::net::Ipv6Addr>().ok();
        match address {
            Some(address) => Some(address.to_string()),
            None => name.then(|| text.to_ascii_lowercase()),
        }
    };
    let items = value.as_array().and_then(|items| items.iter().map(|item| item.get_ref().as_str().and_then(host)).collect());
    items.ok_or_else(|| "a list of host names or addresses, without scheme and port".to_owned())
}

pub(super) fn from_texts(texts: &[String]) -> Value {
    Value::Array(texts.iter().cloned().map(Value::String).collect())
}

fn words<T: Words>() -> String {
    T::WORDS.iter().map(|(word, _)| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
}

/// A whole number and one of the units, with at most one space between.
fn with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let end = text.bytes().position(|b| !b.is_ascii_digit())?;
    let (number, unit) = text.split_at(end);
    let unit = unit.strip_prefix(' ').unwrap_or(unit);
    let (_, factor) = units.iter().find(|(known, _)| *known == unit)?;
    number.parse::<u64>().ok()?.checked_mul(*factor)
}

/// The amount in the largest unit that divides it.
fn in_unit(amount: u64, units: &[(&str, u64)]) -> String {
    let fitting = units.iter().find(|(_, factor)| amount != 0 && amount.is_multiple_of(*factor));
    match fitting.or(units.last()) {
        Some((unit, factor)) => format!("{}{unit}", amount / factor),
        None => amount.to_string(),
    }
}

fn in_time_unit(time: Duration) -> String {
    in_unit(u64::try_from(time.as_millis()).unwrap_or(u64::MAX), TIMES)
}
