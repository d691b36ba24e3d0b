//! Order, ignore rules, context, limits and files that are too much.

use super::*;
use crate::tools::testing::{Home, call, text};

#[tokio::test]
async fn lines_sorted_by_path() {
    let home = Home::new();
    home.write("b.txt", "one\ntwo foo\nthree\n");
    home.write("a/x.txt", "foo\r\nbar foo");
    home.write(".hidden", "Foo\nfoo\n");
    home.write("binary", b"foo\0foo\n");
    home.write(".git/config", "foo\n");
    let expected = ".hidden:2: foo\na/x.txt:1: foo\na/x.txt:2: bar foo\nb.txt:2: two foo";
    assert_eq!(home.call("grep", json!({"pattern": "foo"})).await, ToolOutput::text(expected));
    assert_eq!(home.good("grep", json!({"pattern": "foo", "path": "a"})).await, "x.txt:1: foo\nx.txt:2: bar foo");
    assert_eq!(home.good("grep", json!({"pattern": "^two", "path": "b.txt"})).await, "b.txt:2: two foo");
    assert_eq!(home.good("grep", json!({"pattern": "FOO", "ignoreCase": true, "glob": ".h*"})).await, ".hidden:1: Foo\n.hidden:2: foo");
    assert_eq!(home.good("grep", json!({"pattern": "nothing"})).await, "No matches found");
    assert_eq!(home.good("grep", json!({"pattern": "foo", "path": "binary"})).await, "binary:1: foo\0foo");
}

#[tokio::test]
async fn patterns_and_globs() {
    let home = Home::new();
    home.write("src/a.rs", "a.b\naxb\n");
    home.write("src/deep/b.rs", "a.b\n");
    home.write("c.txt", "a.b\n");
    for (arguments, expected) in [
        (json!({"pattern": "a.b", "glob": "*.rs"}), "src/a.rs:1: a.b\nsrc/a.rs:2: axb\nsrc/deep/b.rs:1: a.b"),
        (json!({"pattern": "a.b", "literal": true, "glob": "src/*.rs"}), "src/a.rs:1: a.b\nsrc/deep/b.rs:1: a.b"),
        (json!({"pattern": "a.b", "glob": "!*.rs"}), "c.txt:1: a.b"),
        (json!({"pattern": "(", "literal": true}), "No matches found"),
    ] {
        let text = home.good("grep", arguments.clone()).await;
        // `src/*.rs` does not cross folders.
        let expected = if arguments["glob"] == "src/*.rs" { "src/a.rs:1: a.b" } else { expected };
        assert_eq!(text, expected, "{arguments}");
    }
    assert!(home.bad("grep", json!({"pattern": "("})).await.contains("unclosed group"));
    assert!(home.bad("grep", json!({"pattern": "a", "glob": "{a"})).await.starts_with("Invalid glob pattern: "));
    assert_eq!(home.bad("grep", json!({"pattern": "a", "path": "none"})).await, "Path not found: HOME/none");
}

#[tokio::test]
async fn ignore_files_count_where_ripgrep_counts_them() {
    let home = Home::new();
    home.write("kept.log", "x\n");
    home.write(".gitignore", "*.log\n");
    assert_eq!(home.good("grep", json!({"pattern": "^x$"})).await, "kept.log:1: x");
    home.write(".git/HEAD", "");
    assert_eq!(home.good("grep", json!({"pattern": "^x$"})).await, "No matches found");
    home.write("other.txt", "x\n");
    home.write(".ignore", "other.txt\n");
    assert_eq!(home.good("grep", json!({"pattern": "^x$"})).await, "No matches found");
    assert_eq!(home.good("grep", json!({"pattern": "^x$", "path": "other.txt"})).await, "other.txt:1: x");
}

#[tokio::test]
async fn context_blocks_repeat_what_they_share() {
    let home = Home::new();
    home.write("f", "1\n2 hit\n3\n4 hit\n5\n6\n");
    let expected = "f-1- 1\nf:2: 2 hit\nf-3- 3\nf-3- 3\nf:4: 4 hit\nf-5- 5";
    assert_eq!(home.good("grep", json!({"pattern": "hit", "context": 1})).await, expected);
    assert_eq!(home.good("grep", json!({"pattern": "hit", "context": -2})).await, "f:2: 2 hit\nf:4: 4 hit");
    // What follows the last match is shown even if it would match as well.
    let limited = home.call("grep", json!({"pattern": "hit", "context": 2, "limit": 1})).await;
    let notice = "[1 matches limit reached. Use limit=2 for more, or refine pattern]";
    assert_eq!(text(&limited), format!("f-1- 1\nf:2: 2 hit\nf-3- 3\nf-4- 4 hit\n\n{notice}"));
    assert_eq!(limited.details, Some(json!({"matchLimitReached": 1})));
    assert!(home.good("grep", json!({"pattern": "hit", "context": 1e300})).await.starts_with("f-1- 1\n"));
}

#[tokio::test]
async fn limits_are_told() {
    let home = Home::new();
    home.write("a", "x\n".repeat(99));
    home.write("b", "x\n".repeat(5));
    let output = home.call("grep", json!({"pattern": "x"})).await;
    assert!(text(&output).ends_with("a:99: x\nb:1: x\n\n[100 matches limit reached. Use limit=200 for more, or refine pattern]"));
    let all = home.call("grep", json!({"pattern": "x", "limit": 105})).await;
    assert_eq!((text(&all).lines().count(), all.details), (104, None));

    home.write("long", format!("{}\n{}\n{}\n", "é".repeat(500), "é".repeat(501), "😀".repeat(251)));
    let output = home.call("grep", json!({"pattern": "é|😀", "path": "long"})).await;
    let cut = "... [truncated]";
    let expected = format!(
        "long:1: {0}\nlong:2: {0}{cut}\nlong:3: {1}{cut}\n\n[Some lines truncated to 500 chars. Use read tool to see full lines]",
        "é".repeat(500),
        "😀".repeat(250)
    );
    assert_eq!((text(&output), output.details.clone()), (expected.as_str(), Some(json!({"linesTruncated": true}))));

    home.write("big", format!("{}\n", "y".repeat(400)).repeat(300));
    let output = home.call("grep", json!({"pattern": "y", "path": "big", "limit": 300})).await;
    let notice = "[300 matches limit reached. Use limit=600 for more, or refine pattern. 50.0KB limit reached]";
    assert!(text(&output).ends_with(notice) && text(&output).len() < 51_400);
    let truncation = output.details.unwrap()["truncation"].clone();
    assert_eq!((&truncation["truncatedBy"], &truncation["totalLines"]), (&json!("bytes"), &json!(300)));
}

#[tokio::test]
async fn endless_lines_and_aborts() {
    let home = Home::new();
    // A sparse terabyte without a newline: skipped in a tree for its zero bytes, stopped by the abort when named.
    File::create(home.path("huge")).unwrap().set_len(1 << 40).unwrap();
    home.write("small", "x\n");
    assert_eq!(home.good("grep", json!({"pattern": "x"})).await, "small:1: x");
    // A line that is longer than the searcher may hold ends the search of that file, not of the others.
    home.write("a_long_line", "x".repeat(SEARCH_MEMORY + 10));
    assert_eq!(home.good("grep", json!({"pattern": "x", "glob": "!huge"})).await, "small:1: x");

    let many: String = "y\n".repeat(100_000);
    for index in 0..20 {
        home.write(&format!("many/{index}"), &many);
    }
    let context = home.context();
    let cancel = context.cancel.clone();
    let stop = async {
        tokio::task::yield_now().await;
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(call(&context, "grep", json!({"pattern": "z", "path": "many"})), stop);
    assert_eq!(output, ToolOutput::error("Operation aborted"));
}
