//! What stands in the definition of a service: the program and its `PATH`. Pure; understands what we write, and the usual of what people
//! write by hand.

use std::path::PathBuf;

/// The values of a definition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DefinitionText {
    pub(super) program: Option<PathBuf>,
    pub(super) path: Option<String>,
}

impl DefinitionText {
    /// Of a unit of systemd.
    pub(super) fn of_unit(text: &str) -> Self {
        let mut found = Self::default();
        for line in text.lines().map(str::trim) {
            if let Some(command) = line.strip_prefix("ExecStart=") {
                // Signs before the program change how it is run, not which one.
                let program = unit_words(command.trim_start_matches(['-', '@', ':', '+', '!'])).into_iter().next();
                found.program = program.map(|program| program.replace("$$", "$").into()).or(found.program);
            } else if let Some(assignments) = line.strip_prefix("Environment=") {
                let path = unit_words(assignments).into_iter().find_map(|word| Some(word.strip_prefix("PATH=")?.to_owned()));
                found.path = path.or(found.path);
            }
        }
        found
    }

    /// Of a property list of launchd.
    pub(super) fn of_property_list(text: &str) -> Self {
        let after = |key: &str| text.split_once(&format!("<key>{key}</key>")).map(|(_, rest)| rest);
        Self { program: after("ProgramArguments").and_then(first_string).map(PathBuf::from), path: after("PATH").and_then(first_string) }
    }
}

/// Words with quotes, escapes and doubled `%` taken away.
fn unit_words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '\\' => word.get_or_insert_default().extend(characters.next()),
            '"' | '\'' if quote == Some(character) => quote = None,
            '"' | '\'' if quote.is_none() => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            '%' => {
                characters.next_if_eq(&'%');
                word.get_or_insert_default().push('%');
            }
            blank if blank.is_whitespace() && quote.is_none() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
    }
    words.extend(word);
    words
}

fn first_string(text: &str) -> Option<String> {
    let (_, rest) = text.split_once("<string>")?;
    let (value, _) = rest.split_once("</string>")?;
    let plain = value.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"").replace("&apos;", "'");
    Some(plain.replace("&amp;", "&"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_people_write() {
        for (text, program, path) in [
            ("", None, None),
            ("[Service]\nExecStart=/usr/bin/wolli daemon a\n", Some("/usr/bin/wolli"), None),
            ("ExecStart=-\"/a b/wolli\" daemon a\nEnvironment=A=1 \"PATH=/x:/y z\"", Some("/a b/wolli"), Some("/x:/y z")),
            ("ExecStart=\nEnvironment='PATH=/100%%'\n", None, Some("/100%")),
            ("ExecStart=/a\\", Some("/a"), None),
        ] {
            let found = DefinitionText::of_unit(text);
            assert_eq!((found.program.as_deref(), found.path.as_deref()), (program.map(std::path::Path::new), path), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn what_we_write_is_read_back(program in "/[ -~]{0,20}", path in "/[ -~]{0,20}") {
            use wolli_home::environment::Environment;
            use wolli_home::paths::{Root, ServiceName};
            use crate::service::{Definition, property_list, unit};
            let environment = Environment::new([("HOME", "/h")], "/");
            let root = Root::new("/h/.wolli");
            let home = root.agent(&"scribe".parse().unwrap());
            let name = ServiceName::new(&environment, &root, home.name());
            let definition = Definition::new(&environment, &home, name, program.as_ref(), path.clone(), None);
            let expected = DefinitionText { program: Some(program.into()), path: Some(path) };
            prop_assert_eq!(&DefinitionText::of_unit(&unit(&definition)), &expected);
            prop_assert_eq!(&DefinitionText::of_property_list(&property_list(&definition)), &expected);
        }

        #[test]
        fn anything_is_read(text in "(ExecStart=|Environment=|<key>PATH</key>)?\\PC{0,60}") {
            DefinitionText::of_unit(&text);
            DefinitionText::of_property_list(&text);
        }
    }
}
