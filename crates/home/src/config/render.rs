//! The configuration in effect, as a file that could be used as one.

use std::fmt::Write;

use super::keys::KEYS;
use super::load::{Configuration, Origin};

impl Configuration {
    /// All keys with their values as TOML, and behind each in a comment where its value comes from.
    pub fn effective(&self) -> String {
        let mut text = String::new();
        let mut section = "";
        for (key, origin) in KEYS.iter().zip(&self.origins) {
            if key.section != section {
                let gap = if section.is_empty() { "" } else { "\n" };
                section = key.section;
                write_line(&mut text, format_args!("{gap}[{section}]"));
            }
            let value = (key.get)(&self.values);
            let origin = match origin {
                Origin::Default => "default".to_owned(),
                Origin::File(path) => one_line(&path.to_string_lossy()),
                Origin::Strictest(path) => format!("strictest, for a fault in {}", one_line(&path.to_string_lossy())),
            };
            write_line(&mut text, format_args!("# {}", key.meaning));
            write_line(&mut text, format_args!("{} = {value} # {origin}", key.name));
        }
        text
    }
}

fn write_line(text: &mut String, line: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{line}");
}

/// A path may hold any character; a comment ends with its line.
fn one_line(text: &str) -> String {
    text.replace(char::is_control, "?")
}
