//! How values are written into unit files and property lists, so that nothing in a path or a variable is taken for syntax. Pure.

use std::fmt::Write as _;

/// A word of `ExecStart=`: quoted, with specifiers (`%`) and variables (`$`) taken as they stand.
pub(super) fn exec_word(word: &str) -> String {
    quoted(&word.replace('$', "$$"))
}

/// An assignment of `Environment=`. Variables are not expanded there, specifiers are.
pub(super) fn assignment(name: &str, value: &str) -> String {
    quoted(&format!("{name}={value}"))
}

/// The value of a setting that takes one path or text to the end of the line.
pub(super) fn text(value: &str) -> String {
    value.replace('%', "%%")
}

fn quoted(value: &str) -> String {
    let mut quoted = String::with_capacity(value.len() + 2);
    quoted.push('"');
    for character in value.chars() {
        match character {
            '"' | '\\' => {
                quoted.push('\\');
                quoted.push(character);
            }
            '%' => quoted.push_str("%%"),
            '\n' => quoted.push_str("\\n"),
            '\t' => quoted.push_str("\\t"),
            control if control.is_ascii_control() => {
                // Writing into a string does not fail.
                let _ = write!(quoted, "\\x{:02x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

/// Text between two tags. Characters that no XML document may hold are left out.
pub(super) fn xml(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for character in value.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\t' | '\n' | '\r' => escaped.push(character),
            control if control.is_control() => {}
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_for_syntax() {
        for (value, word) in [
            ("/usr/bin/wolli", r#""/usr/bin/wolli""#),
            ("/home/a b/wolli", r#""/home/a b/wolli""#),
            (r#"a"b\c"#, r#""a\"b\\c""#),
            ("100%h", r#""100%%h""#),
            ("$HOME", r#""$$HOME""#),
            ("a\nb\t\u{1}", r#""a\nb\t\x01""#),
        ] {
            assert_eq!(exec_word(value), word);
        }
        assert_eq!(assignment("PATH", "/bin:$x%y"), r#""PATH=/bin:$x%%y""#);
        assert_eq!(text("/h/100%"), "/h/100%%");
        assert_eq!(xml("a<b>&\"c'\u{1}\n"), "a&lt;b&gt;&amp;&quot;c&apos;\n");
    }
}
