//! The written reference: made from the protocol's types and the table of routes, compared with the file that the daemon serves, and
//! held against what a daemon really sends.
//!
//! `make reference` writes the file anew.

mod components;
mod document;
mod operations;
mod schemas;
mod wire;

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::Value;
use wolli_daemon::ENDPOINTS;

use crate::support::TestHome;

/// Set by `make reference`.
const WRITE: &str = "WOLLI_WRITE_REFERENCE";

fn file() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/openapi.json")
}

/// The document in the tree.
fn committed() -> Value {
    serde_json::from_str(&std::fs::read_to_string(file()).unwrap()).unwrap()
}

#[test]
fn the_file_in_the_tree_is_what_the_types_say() {
    let text = document::render(&document::document());
    if std::env::var_os(WRITE).is_some() {
        std::fs::write(file(), text).unwrap();
        return;
    }
    let committed = std::fs::read_to_string(file()).unwrap();
    let differing = text.lines().zip(committed.lines()).find(|(new, old)| new != old);
    assert!(text == committed, "docs/reference/openapi.json is out of date: run `make reference`. First difference: {differing:#?}");
}

#[test]
fn two_makings_give_one_text() {
    assert_eq!(document::render(&document::document()), document::render(&document::document()));
}

/// Every text under a key of this name, wherever it stands.
fn all<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                found.extend(member.as_str().filter(|_| name == key));
                all(member, key, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| all(item, key, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_somewhere_and_every_schema_is_reached() {
    let document = committed();
    let mut references = Vec::new();
    all(&document, "$ref", &mut references);
    for reference in &references {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{reference}");
    }
    let used: BTreeSet<&str> = references.iter().filter_map(|reference| reference.strip_prefix("#/components/schemas/")).collect();
    let defined: BTreeSet<&str> = document["components"]["schemas"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(used, defined);
    // Two types of one name would be told apart by a number, and generated clients would show it.
    let numbered: Vec<_> = defined.iter().filter(|name| name.ends_with(|last: char| last.is_ascii_digit())).collect();
    assert!(numbered.is_empty(), "{numbered:?}");
}

/// Method and path of every operation of the document, and whether it wants the token.
fn operations(document: &Value) -> BTreeSet<(String, String, bool)> {
    let mut found = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            found.insert((method.to_uppercase(), path.clone(), operation["security"].is_null()));
        }
    }
    found
}

#[test]
fn document_and_table_have_the_same_routes() {
    let table: BTreeSet<_> =
        ENDPOINTS.iter().map(|endpoint| (endpoint.method.to_owned(), endpoint.path.to_owned(), endpoint.needs_token)).collect();
    assert_eq!(operations(&committed()), table);
}

#[tokio::test]
async fn the_daemon_serves_the_document_and_what_is_in_it() {
    let daemon = TestHome::new().start().await;
    let served = daemon.get("/openapi.json").await;
    assert_eq!((served.status(), served.header("content-type")), (200, Some("application/json")));
    assert!(served.body == std::fs::read(file()).unwrap(), "another document is served than the one in the tree");

    let id = daemon.session().await;
    for (method, path, guarded) in operations(&committed()) {
        let path = path.replace("{id}", &id);
        let length = if method == "POST" { "content-length: 0\r\n" } else { "" };
        for (method, known) in [(method.as_str(), true), ("PUT", false)] {
            let mut client = daemon.connect().await;
            client.send(&format!("{method} {path} HTTP/1.1\r\n{}{length}\r\n", daemon.owner())).await;
            let head = client.head().await;
            let status: u16 = head.split(' ').nth(1).unwrap().parse().unwrap();
            assert_eq!(status, if known { 200 } else { 404 }, "{method} {path}");
        }
        let mut stranger = daemon.connect().await;
        stranger.send(&format!("{method} {path} HTTP/1.1\r\nhost: {}\r\n{length}\r\n", daemon.address)).await;
        let head = stranger.head().await;
        assert_eq!(head.starts_with("HTTP/1.1 401 "), guarded, "{method} {path}: {head}");
    }
}
