//! A session file of any bytes: read beside its owner, opened and repaired, and read again.
//!
//! Promises: no line that was whole is changed or lost, and what is cut off is kept beside the file; a second repair finds nothing to do;
//! readers see the same before and after; pages together are the branch; no line that is handed on breaks a frame.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::value::RawValue;
use wolli_runtime::session::{Listing, PageError, read_entries, read_messages, read_page, repair};

/// Entries of a page.
const PAGE: usize = 3;

/// # Panics
/// For a broken promise.
pub fn run(data: &[u8]) {
    // Memory, if there is such a place: every case waits for the disk several times.
    let folder = [Path::new("/dev/shm"), &std::env::temp_dir()]
        .into_iter()
        .find_map(|place| tempfile::Builder::new().prefix("wolli-fuzz").tempdir_in(place).ok())
        .unwrap();
    let path = folder.path().join("s.jsonl");
    std::fs::write(&path, data).unwrap();
    let before = (texts(read_entries(&path)), texts(read_messages(&path)));
    Listing::new(folder.path().to_owned()).refresh().unwrap();
    let Ok(first) = repair(&path) else {
        assert_eq!(std::fs::read(&path).unwrap(), data, "a file that was refused was changed");
        assert_eq!(before, (None, None), "a file that was refused was read");
        return;
    };
    let repaired = std::fs::read(&path).unwrap();
    check_bytes(data, &repaired, aside(folder.path()));
    let after = (texts(read_entries(&path)), texts(read_messages(&path)));
    // A last line that lacked its end was being written as far as readers know.
    if data.last() == Some(&b'\n') {
        assert_eq!(before, after);
    }
    let messages = after.1.unwrap();
    // An entry whose body cannot be read is counted by its kind and left out of the list.
    assert!(messages.len() as u64 <= first.message_count, "{} are counted: {messages:#?}", first.message_count);
    check_pages(&path);

    let second = repair(&path).unwrap();
    assert_eq!((second.message_count, &second.leaf), (first.message_count, &first.leaf));
    assert_eq!(std::fs::read(&path).unwrap(), repaired, "a second repair changed the file");
}

/// Every line, which must be one.
fn texts<E>(lines: Result<Vec<Box<RawValue>>, E>) -> Option<Vec<String>> {
    let lines: Vec<String> = lines.ok()?.iter().map(|line| line.get().to_owned()).collect();
    assert!(lines.iter().all(|line| !line.contains(['\n', '\r'])), "{lines:#?}");
    Some(lines)
}

/// What was cut off, if anything.
fn aside(folder: &Path) -> Option<Vec<u8>> {
    let files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    let aside: Vec<&PathBuf> = files.iter().filter(|path| path.to_string_lossy().contains(".torn-")).collect();
    assert!(aside.len() <= 1, "{files:?}");
    aside.first().map(|path| std::fs::read(path).unwrap())
}

fn check_bytes(data: &[u8], repaired: &[u8], aside: Option<Vec<u8>>) {
    match aside {
        Some(torn) => assert_eq!([repaired, &torn].concat(), data, "the file and what was cut off are not what there was"),
        None if repaired.len() == data.len() + 1 => assert_eq!(repaired, [data, b"\n"].concat()),
        None => assert_eq!(repaired, data),
    }
    assert!(repaired.is_empty() || repaired.last() == Some(&b'\n'), "it ends in the middle of a line");
}

fn check_pages(path: &Path) {
    let whole = read_page(path, None, None, usize::MAX, usize::MAX).unwrap();
    let (mut pieces, mut after, mut seen) = (Vec::new(), None::<String>, HashSet::new());
    loop {
        let page = match read_page(path, after.as_deref(), None, PAGE, usize::MAX) {
            Ok(page) => page,
            Err(error @ PageError::UnknownEntry(_)) => panic!("a page names an entry that is not there: {error}"),
            Err(error) => panic!("{error}"),
        };
        pieces.extend(page.entries);
        let Some(next) = page.next else { break };
        assert!(seen.insert(next.clone()), "pages go round in circles");
        after = Some(next.as_str().to_owned());
    }
    let text = |lines: &[Box<RawValue>]| lines.iter().map(|line| line.get().to_owned()).collect::<Vec<_>>();
    assert_eq!(text(&pieces), text(&whole.entries));
}
