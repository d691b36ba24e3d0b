//! The tool around the matcher: fix-ups, files, locks, results.

use crate::tools::testing::{Home, names, object, text as text_of};
use crate::tools::{Stage, ToolSet};

use super::*;

#[tokio::test]
async fn the_recorded_edit() {
    let home = Home::new();
    home.write("a.txt", "héllo\nworld\n");
    let output = home.call("edit", json!({"path": "a.txt", "edits": [{"oldText": "world", "newText": "earth"}]})).await;
    assert_eq!(text_of(&output), "Successfully replaced 1 block(s) in a.txt.");
    let details = json!({
        "diff": " 1 héllo\n-2 world\n+2 earth",
        "patch": "--- a.txt\n+++ a.txt\n@@ -1,2 +1,2 @@\n héllo\n-world\n+earth\n",
        "firstChangedLine": 2
    });
    assert_eq!((output.details, output.is_error), (Some(details), false));
    assert_eq!(home.read("a.txt"), "héllo\nearth\n");
}

#[test]
fn fix_ups() {
    let set = ToolSet::new(Stage::Deployed, []).unwrap();
    let item = |old: &str| json!({"oldText": old, "newText": "n"});
    for (given, expected) in [
        (json!({"path": "f", "edits": "[{\"oldText\":\"a\",\"newText\":\"n\"}]"}), json!([item("a")])),
        (json!({"path": "f", "oldText": "a", "newText": "n"}), json!([item("a")])),
        (json!({"path": "f", "edits": [item("a")], "oldText": "b", "newText": "n"}), json!([item("a"), item("b")])),
        (json!({"path": "f", "edits": item("a")}), json!([item("a")])),
    ] {
        let prepared = set.prepare("edit", object(given.clone())).unwrap();
        assert_eq!(prepared.arguments()["edits"], expected, "{given}");
        assert_eq!(prepared.arguments().len(), 2);
    }
    for (given, complaint) in [
        (json!({"path": "f", "edits": [], "extra": 1}), "root: must not have additional properties"),
        (json!({"path": "f", "edits": [{"oldText": "a", "newText": "b", "all": true}]}), "edits.0: must not have additional properties"),
        (json!({"path": "f", "edits": [{"oldText": "a"}]}), "edits.0.newText: must have required properties newText"),
        (json!({"path": "f", "edits": "not a list"}), "edits.0: must be object"),
        (json!({"path": "f", "oldText": "a"}), "edits: must have required properties edits"),
    ] {
        let output = set.prepare("edit", object(given.clone())).unwrap_err();
        assert!(text_of(&output).contains(complaint), "{given}: {}", text_of(&output));
    }
}

#[tokio::test]
async fn refusals_leave_the_file() {
    let home = Home::new();
    home.write("f", "a b\n");
    home.write("dir/x", "");
    let edit = json!([{"oldText": "zzz", "newText": "y"}]);
    for (path, edits, expected) in [
        ("f", json!([]), "Edit tool input is invalid. edits must contain at least one replacement."),
        ("none.txt", edit.clone(), "Could not edit file: none.txt. Error code: ENOENT."),
        ("dir", edit.clone(), "Could not edit file: dir. Error code: EISDIR."),
        ("f/x", edit.clone(), "Could not edit file: f/x. Error code: ENOTDIR."),
        ("/dev/null", edit.clone(), "Could not edit file: /dev/null. Error code: EINVAL."),
        ("f", edit, "Could not find the exact text in f. The old text must match exactly including all whitespace and newlines."),
    ] {
        assert_eq!(home.bad("edit", json!({"path": path, "edits": edits})).await, expected);
    }
    assert_eq!(home.read("f"), "a b\n");
    std::fs::File::create(home.path("big")).unwrap().set_len(MAX_FILE_BYTES + 1).unwrap();
    let edits = json!([{"oldText": "a", "newText": "b"}]);
    assert_eq!(home.bad("edit", json!({"path": "big", "edits": edits})).await, "Could not edit file: big. Error code: EFBIG.");
}

#[tokio::test]
async fn parallel_edits_of_one_file_all_count() {
    let home = Home::new();
    let lines: String = (0..20).map(|index| format!("<{index}>\n")).collect();
    home.write("f", &lines);
    std::os::unix::fs::symlink("f", home.path("link")).unwrap();
    let calls = (0..20).map(|index| {
        let path = if index % 2 == 0 { "f" } else { "./link" };
        let edits = json!([{"oldText": format!("<{index}>"), "newText": format!("[{index}]")}]);
        home.call("edit", json!({"path": path, "edits": edits}))
    });
    for output in futures_util::future::join_all(calls).await {
        assert!(!output.is_error, "{output:?}");
    }
    assert_eq!(home.read("f"), lines.replace('<', "[").replace('>', "]"));
    assert_eq!(names(&home.path("")), ["f", "link"]);
}
