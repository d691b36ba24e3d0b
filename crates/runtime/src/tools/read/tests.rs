//! Every notice and error text, limits at their edges, and files too big for memory.

use proptest::prelude::*;

use super::*;
use crate::tools::testing::{Home, call, text as text_of};

fn lines(count: usize) -> String {
    (1..=count).map(|line| format!("{line}\n")).collect()
}

#[tokio::test]
async fn whole_files_come_unchanged() {
    let home = Home::new();
    for content in ["", "a", "a\n", "a\r\nb\n\n", "é😀\n"] {
        home.write("f", content);
        assert_eq!(home.call("read", json!({"path": "f"})).await, ToolOutput::text(content), "{content:?}");
    }
    home.write("bad", b"a\xffb\xe2\x82");
    assert_eq!(home.good("read", json!({"path": "bad"})).await, "a\u{fffd}b\u{fffd}");
}

#[tokio::test]
async fn windows() {
    let home = Home::new();
    home.write("f", "a\nb\nc\n");
    for (arguments, expected) in [
        (json!({"offset": 2}), "b\nc\n"),
        (json!({"offset": 0}), "a\nb\nc\n"),
        (json!({"offset": -3}), "a\nb\nc\n"),
        (json!({"offset": "2", "limit": null}), "b\nc\n"),
        (json!({"offset": 4}), ""),
        (json!({"limit": 1}), "a\n\n[3 more lines in file. Use offset=2 to continue.]"),
        (json!({"offset": 2, "limit": 1}), "b\n\n[2 more lines in file. Use offset=3 to continue.]"),
        (json!({"offset": 2, "limit": 2}), "b\nc\n\n[1 more lines in file. Use offset=4 to continue.]"),
        (json!({"limit": 4}), "a\nb\nc\n"),
        (json!({"limit": 1e300}), "a\nb\nc\n"),
    ] {
        let mut with_path = arguments.clone();
        with_path["path"] = json!("f");
        assert_eq!(home.call("read", with_path).await, ToolOutput::text(expected), "{arguments}");
    }
    assert_eq!(home.bad("read", json!({"path": "f", "offset": 5})).await, "Offset 5 is beyond end of file (4 lines total)");
}

#[tokio::test]
async fn line_limit() {
    let home = Home::new();
    home.write("exact", lines(2000));
    assert_eq!(home.call("read", json!({"path": "exact"})).await, ToolOutput::text(lines(2000)));
    home.write("more", lines(2001));
    let output = home.call("read", json!({"path": "more"})).await;
    let expected = format!("{}\n[Showing lines 1-2000 of 2002. Use offset=2001 to continue.]", lines(2000));
    assert_eq!(text_of(&output), expected);
    let record = json!({
        "truncated": true, "truncatedBy": "lines", "totalLines": 2001, "totalBytes": lines(2001).len(), "outputLines": 2000,
        "outputBytes": lines(2000).len() - 1, "lastLinePartial": false, "firstLineExceedsLimit": false, "maxLines": 2000, "maxBytes": 51200
    });
    assert_eq!(output.details, Some(json!({"truncation": record})));
    assert_eq!(home.good("read", json!({"path": "more", "offset": 2001})).await, "2001\n");
}

#[tokio::test]
async fn byte_limit() {
    let home = Home::new();
    home.write("exact", "x".repeat(51_200));
    assert!(home.call("read", json!({"path": "exact"})).await.details.is_none());
    home.write("lines", format!("{}\n", "y".repeat(99)).repeat(600));
    let output = home.call("read", json!({"path": "lines", "offset": 11})).await;
    assert!(text_of(&output).ends_with("y\n\n[Showing lines 11-522 of 601 (50.0KB limit). Use offset=523 to continue.]"), "{output:?}");
    let details = output.details.unwrap();
    assert_eq!(details["truncation"]["totalLines"], 590);
    assert_eq!(details["truncation"]["totalBytes"], 59_000);

    home.write("long", format!("short\n{}\nshort\n", "z".repeat(60_000)));
    let output = home.call("read", json!({"path": "long", "offset": 2})).await;
    assert_eq!(text_of(&output), "[Line 2 is 58.6KB, exceeds 50.0KB limit. Use bash: sed -n '2p' long | head -c 51200]");
    let truncation = output.details.unwrap()["truncation"].clone();
    assert_eq!((&truncation["firstLineExceedsLimit"], &truncation["outputLines"]), (&json!(true), &json!(0)));
    assert_eq!(truncation["totalLines"], 2);
}

#[tokio::test]
async fn errors() {
    let home = Home::new();
    home.write("dir/x", "");
    for (path, expected) in [
        ("missing.txt", "ENOENT: no such file or directory, access 'HOME/missing.txt'"),
        ("dir", "EISDIR: illegal operation on a directory, read"),
        ("dir/x/y", "ENOTDIR: not a directory, access 'HOME/dir/x/y'"),
        ("/dev/zero", "EINVAL: not a regular file, read '/dev/zero'"),
    ] {
        assert_eq!(home.bad("read", json!({"path": path})).await, expected);
    }
    let fifo = home.path("fifo");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    assert_eq!(home.bad("read", json!({"path": "fifo"})).await, "EINVAL: not a regular file, read 'HOME/fifo'");
}

#[tokio::test]
async fn an_enormous_file_is_read_as_a_stream_and_can_be_aborted() {
    let home = Home::new();
    // Sparse: no room on disk, and a terabyte would not fit into any memory.
    let file = std::fs::File::create(home.path("huge")).unwrap();
    file.set_len(1 << 40).unwrap();
    let context = home.context();
    let cancel = context.cancel.clone();
    let stop = async {
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        cancel.cancel();
    };
    let (output, ()) = tokio::join!(call(&context, "read", json!({"path": "huge"})), stop);
    assert_eq!(output, ToolOutput::error("Operation aborted"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    #[test]
    fn a_window_equals_cutting_the_whole(
        content in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b'a'), Just(0xe2), Just(0x82), Just(0xac)], 0..60),
        size in 1_usize..9, first in 0_u64..8, length in 0_u64..9, max_lines in 1_usize..6, max_bytes in 1_usize..20,
    ) {
        let limits = Limits { max_lines, max_bytes };
        let end = if length == 8 { u64::MAX } else { first + length };
        let mut window = Window::new(first, end, limits);
        content.chunks(size).for_each(|chunk| window.push(chunk));
        window.finish();
        let whole = String::from_utf8_lossy(&content).into_owned();
        let all: Vec<&str> = whole.split('\n').collect();
        prop_assert_eq!(window.line + 1, all.len() as u64);
        let selected: Vec<&str> = all.iter().skip(usize::try_from(first).unwrap()).take(if length == 8 { 99 } else { usize::try_from(length).unwrap() }).copied().collect();
        let selected = selected.join("\n");
        let expected = truncate_head(&selected, limits);
        prop_assert_eq!(window.truncated(), (expected.content.into_owned(), expected.truncation));
        if expected.truncation.first_line_exceeds_limit {
            prop_assert_eq!(window.first_line_bytes, selected.split('\n').next().unwrap().len() as u64);
        }
    }
}
