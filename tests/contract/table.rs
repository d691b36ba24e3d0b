//! The table's form, the page that is made of it, and the checks that keep it true.
//!
//! `docs/reference/contract.md` is this table; `WOLLI_WRITE_REFERENCE=1` writes it anew.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use serde::de::DeserializeOwned;
use wolli_protocol::command::Command;
use wolli_protocol::dialog::DialogMethod;
use wolli_protocol::event::{AssistantMessageEvent, ControlEvent, SessionEvent};

use crate::sections::SECTIONS;
use crate::sources;

/// What one sentence of the contract says, and what shows that it is so.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    /// A sentence, as a reader of the page has it.
    pub(crate) rule: &'static str,
    /// Tests that fail when it is not so, each named as [`sources`] names it. None, if `difference` says that it is not there.
    pub(crate) tests: &'static [&'static str],
    /// Where wolli 0.0.2 did otherwise: what it did, and why this is changed.
    pub(crate) difference: Option<&'static str>,
}

/// Rows that belong together.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section {
    pub(crate) title: &'static str,
    pub(crate) rows: &'static [Row],
}

/// A sentence that holds as it did in wolli 0.0.2.
pub(crate) const fn row(rule: &'static str, tests: &'static [&'static str]) -> Row {
    Row { rule, tests, difference: None }
}

impl Row {
    /// Says what wolli 0.0.2 did in its place, and why it is otherwise now.
    pub(crate) const fn differs(mut self, difference: &'static str) -> Self {
        self.difference = Some(difference);
        self
    }
}

const PAGE: &str = "docs/reference/contract.md";

const HEAD: &str = "# The wire contract, and what shows it

What clients can rely on, sentence by sentence, each with the tests that fail when it is not so. How it is used stands in
[curl.md](../curl.md). Sentences marked **differs** are not as in wolli 0.0.2; the text behind the mark says what that version did and why it
was changed. A client that was written for wolli 0.0.2 needs this in `config.toml`:

```toml
[events]
view = \"full\"
include = [\"compaction\", \"login_ui\"]
```

This page is generated from `tests/contract/sections`: `WOLLI_WRITE_REFERENCE=1 cargo test -p wolli-tests --test contract page` writes it.
";

/// The page as Markdown.
fn page(tests: &BTreeMap<String, String>) -> String {
    let mut page = HEAD.to_owned();
    for section in SECTIONS {
        let _ = write!(page, "\n## {}\n\n| | shown by |\n|---|---|\n", section.title);
        for row in section.rows {
            let shown: Vec<String> = row.tests.iter().map(|name| link(name, tests)).collect();
            let difference = row.difference.map(|text| format!(" **differs:** {text}")).unwrap_or_default();
            let _ = writeln!(page, "| {}{difference} | {} |", row.rule.replace('|', "\\|"), shown.join("<br>"));
        }
    }
    page
}

/// A test's name as a link to its file.
fn link(name: &str, tests: &BTreeMap<String, String>) -> String {
    let file = tests.get(name).map_or("", String::as_str);
    format!("[`{name}`](../../{file})")
}

/// Every word in backticks that a section's rules begin with: ``"`prompt`: ..."`` is about `prompt`.
fn subjects(title: &str) -> BTreeSet<String> {
    let section = SECTIONS.iter().find(|section| section.title == title).unwrap_or_else(|| panic!("no section {title:?}"));
    section.rows.iter().filter_map(|row| Some(row.rule.strip_prefix('`')?.split_once('`')?.0.to_owned())).collect()
}

/// The tags of an enum's variants, as serde lists them when it is given another.
fn tags<T: DeserializeOwned + std::fmt::Debug>(tag: &str) -> BTreeSet<String> {
    let error = serde_json::from_value::<T>(serde_json::json!({tag: "?", "id": "x"})).unwrap_err().to_string();
    error.split('`').skip(3).step_by(2).map(str::to_owned).collect()
}

#[test]
fn every_named_test_is_there_and_no_row_is_without_one() {
    let tests = sources::tests();
    let mut faults = Vec::new();
    let mut rules = BTreeSet::new();
    for section in SECTIONS {
        if section.rows.is_empty() {
            faults.push(format!("{} has no rows", section.title));
        }
        for row in section.rows {
            if row.tests.is_empty() && row.difference.is_none() {
                faults.push(format!("{}: nothing shows {:?}", section.title, row.rule));
            }
            if !rules.insert((section.title, row.rule)) {
                faults.push(format!("{}: {:?} stands there twice", section.title, row.rule));
            }
            let unknown = row.tests.iter().filter(|name| !tests.contains_key(**name));
            faults.extend(unknown.map(|name| format!("{}: there is no test {name:?}", section.title)));
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn every_test_of_this_program_is_in_the_table() {
    let named: BTreeSet<&str> = SECTIONS.iter().flat_map(|section| section.rows).flat_map(|row| row.tests).copied().collect();
    let ours = sources::tests().into_keys().filter(|name| name.starts_with("contract "));
    let about_itself = |name: &String| ["contract sources::", "contract table::"].iter().any(|prefix| name.starts_with(prefix));
    let unnamed: Vec<String> = ours.filter(|name| !about_itself(name) && !named.contains(name.as_str())).collect();
    assert!(unnamed.is_empty(), "no row names {unnamed:#?}");
}

#[test]
fn nothing_that_has_a_name_is_without_a_row() {
    for (section, names) in [
        ("Commands", Command::names().map(str::to_owned).collect()),
        ("Events of a session", tags::<SessionEvent>("type")),
        ("Steps of an answer", tags::<AssistantMessageEvent>("type")),
        ("Dialog frames", tags::<DialogMethod>("method")),
        ("Frames of the control stream", tags::<ControlEvent>("type")),
    ] {
        assert!(names.len() > 2, "{section}: {names:?}");
        let subjects = subjects(section);
        let missing: Vec<&String> = names.difference(&subjects).collect();
        assert!(missing.is_empty(), "{section} has no row for {missing:?}");
    }
}

#[test]
fn the_page_is_what_the_table_says() {
    let page = page(&sources::tests());
    let path = sources::root().join(PAGE);
    if std::env::var_os("WOLLI_WRITE_REFERENCE").is_some_and(|value| value == "1") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &page).unwrap();
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    let differs = committed.lines().zip(page.lines()).find(|(old, new)| old != new);
    assert!(committed == page, "{PAGE} is out of date at {differs:?}; WOLLI_WRITE_REFERENCE=1 writes it anew");
}
