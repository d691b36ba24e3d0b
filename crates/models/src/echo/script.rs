//! What a prompt tells `echo` to do, one act at a time.
//!
//! Invariant: without directives the texts said are exactly the prompt, whatever its spaces. Nothing is built up front.

use std::time::Duration;

/// Longest pause between deltas.
const MAX_PAUSE: Duration = Duration::from_secs(60);
/// Most repetitions of one `!repeat`, so that a typing error does not fill the disk.
const MAX_REPEAT: u64 = 1_000_000;

/// One act.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Say(String),
    Think(String),
    Sleep(Duration),
    Fail(u16),
    Call { name: String, arguments: String },
}

/// The acts that are left.
#[derive(Debug)]
pub(super) struct Script {
    text: String,
    /// Where the rest begins.
    at: usize,
    at_line_start: bool,
    /// Before the first character of the prompt itself; what stands before it is never obeyed.
    obey_from: usize,
    tools: bool,
    running: Option<Running>,
}

/// An act that takes several deltas.
#[derive(Debug)]
enum Running {
    Think { words: String, at: usize },
    Repeat { left: u64, text: String },
}

impl Script {
    /// `prefix` is said first, word for word. `tools` allows `!tool`.
    pub(super) fn new(prefix: &str, prompt: String, tools: bool) -> Self {
        let text = if prefix.is_empty() { prompt } else { format!("{prefix}{prompt}") };
        Self { text, at: 0, at_line_start: true, obey_from: prefix.len(), tools, running: None }
    }

    /// True if the next act is a delta of text or thinking.
    pub(super) fn speaks_next(&self) -> bool {
        match &self.running {
            Some(Running::Repeat { left, .. }) => *left > 0,
            Some(Running::Think { .. }) => true,
            None => {
                self.at < self.text.len()
                    && !matches!(self.directive(), Some((Directive::Sleep(_) | Directive::Fail(_) | Directive::Tool { .. }, _)))
            }
        }
    }

    pub(super) fn next(&mut self) -> Option<Act> {
        loop {
            match &mut self.running {
                Some(Running::Think { words, at }) if *at < words.len() => {
                    let word = next_word(words, at);
                    return Some(Act::Think(word));
                }
                Some(Running::Repeat { left, text }) if *left > 0 => {
                    *left -= 1;
                    return Some(Act::Say(text.clone()));
                }
                _ => self.running = None,
            }
            if self.at >= self.text.len() {
                return None;
            }
            let Some((directive, end)) = self.directive() else {
                let word = next_word(&self.text, &mut self.at);
                self.at_line_start = word.ends_with('\n');
                return Some(Act::Say(word));
            };
            self.at = end;
            match directive {
                Directive::Think(words) => self.running = Some(Running::Think { words, at: 0 }),
                Directive::Repeat(left, text) => self.running = Some(Running::Repeat { left, text }),
                Directive::Sleep(pause) => return Some(Act::Sleep(pause)),
                Directive::Fail(status) => return Some(Act::Fail(status)),
                Directive::Tool { name, arguments } => return Some(Act::Call { name, arguments }),
            }
        }
    }

    /// The directive that the rest begins with, and where its line ends.
    fn directive(&self) -> Option<(Directive, usize)> {
        if !self.at_line_start || self.at < self.obey_from {
            return None;
        }
        let rest = self.text.get(self.at..)?;
        if !rest.starts_with('!') {
            return None;
        }
        let length = rest.find('\n').map_or(rest.len(), |line_break| line_break + 1);
        let line = rest[..length].trim_end_matches(['\r', '\n']);
        Directive::parse(line, self.tools).map(|directive| (directive, self.at + length))
    }
}

/// A line that is obeyed.
#[derive(Debug)]
enum Directive {
    Think(String),
    Sleep(Duration),
    Fail(u16),
    Repeat(u64, String),
    Tool { name: String, arguments: String },
}

impl Directive {
    /// `None` for anything that is not complete and understood: such a line is said like any other.
    fn parse(line: &str, tools: bool) -> Option<Self> {
        let (word, rest) = line.split_once(' ')?;
        let rest = rest.trim();
        Some(match word {
            "!think" => Self::Think(rest.to_owned()),
            "!sleep" => Self::Sleep(Duration::from_millis(rest.parse().ok()?).min(MAX_PAUSE)),
            "!fail" => Self::Fail(rest.parse().ok()?),
            "!repeat" => {
                let (number, text) = rest.split_once(' ')?;
                Self::Repeat(number.parse::<u64>().ok()?.min(MAX_REPEAT), text.to_owned())
            }
            "!tool" if tools => {
                let (name, arguments) = rest.split_once(' ').unwrap_or((rest, "{}"));
                Self::Tool { name: name.to_owned(), arguments: arguments.trim().to_owned() }
            }
            _ => return None,
        })
    }
}

/// The next word with the white space behind it, at most to the end of its line.
fn next_word(text: &str, at: &mut usize) -> String {
    let rest = text.get(*at..).unwrap_or_default();
    let mut seen_space = false;
    let mut seen_word = false;
    let mut end = rest.len();
    for (offset, character) in rest.char_indices() {
        if character == '\n' {
            end = offset + 1;
            break;
        }
        if character.is_whitespace() {
            seen_space = true;
        } else if seen_space && seen_word {
            end = offset;
            break;
        } else {
            seen_word = true;
            seen_space = false;
        }
    }
    *at += end;
    rest[..end].to_owned()
}
