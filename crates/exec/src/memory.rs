//! Memory that this process has and does not use.
//!
//! The allocator keeps what was freed for the next time. A daemon that has answered at length and then waits for days has no next time,
//! and pays for it with the memory of the machine.

/// Gives back to the system what the allocator keeps without using it, and lets go of code that only the past needed. Takes a few
/// milliseconds, in which other threads may wait for the allocator; meant for moments after which little is expected. Code that is needed
/// again is mapped again, from the page cache. Does nothing where the system has no such calls.
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    linux::give_back();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod linux {
    use std::ffi::c_void;

    /// A line of `smaps` that begins a mapping: its range, rights and file.
    struct Mapping {
        start: usize,
        length: usize,
        is_code_of_a_file: bool,
    }

    #[expect(unsafe_code, reason = "the C library and the kernel have no safe interface for it")]
    pub(super) fn give_back() {
        // SAFETY: it takes a number and no pointer, touches free memory only, and may be called from any thread at any time.
        unsafe {
            libc::malloc_trim(0);
        }
        let Ok(smaps) = std::fs::read_to_string("/proc/self/smaps") else { return };
        for (start, length) in untouched_code(&smaps) {
            let pointer = std::ptr::with_exposed_provenance_mut::<c_void>(start);
            // SAFETY: the range is one whole mapping of a file, private, that cannot be written and of which no page differs from the file. Its
            // pages are taken out of the page table and come back, with the same content, when they are touched. If the mapping went
            // away meanwhile the call fails, and nothing else of ours is ever mapped by address.
            if let Err(error) = unsafe { rustix::mm::madvise(pointer, length, rustix::mm::Advice::LinuxDontNeed) } {
                tracing::debug!(%error, "code stays mapped");
            }
        }
    }

    /// The mappings of code that are what the files say. One in which a debugger set a mark has pages of its own, and is left alone.
    fn untouched_code(smaps: &str) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        let mut current: Option<Mapping> = None;
        for line in smaps.lines() {
            if let Some(mapping) = begins(line) {
                current = Some(mapping);
            } else if line.strip_prefix("Anonymous:").is_some_and(|rest| rest.trim() == "0 kB")
                && let Some(mapping) = current.take_if(|mapping| mapping.is_code_of_a_file)
            {
                found.push((mapping.start, mapping.length));
            }
        }
        found
    }

    fn begins(line: &str) -> Option<Mapping> {
        let mut columns = line.split_whitespace();
        let (start, end) = columns.next()?.split_once('-')?;
        let (start, end) = (usize::from_str_radix(start, 16).ok()?, usize::from_str_radix(end, 16).ok()?);
        let is_code = columns.next()? == "r-xp";
        let is_file = columns.nth(3).is_some_and(|path| path.starts_with('/'));
        Some(Mapping { start, length: end.checked_sub(start)?, is_code_of_a_file: is_code && is_file })
    }

    #[cfg(test)]
    mod tests {
        use super::untouched_code;

        #[test]
        fn only_whole_code_of_files_is_let_go() {
            let entry = |head: &str, anonymous: u32| format!("{head}\nSize: 8 kB\nRss: 8 kB\nAnonymous: {anonymous} kB\nVmFlags: rd\n");
            let smaps = [
                entry("1000-3000 r-xp 00000000 fe:01 12 /usr/bin/wolli", 0),
                entry("3000-5000 r--p 00000000 fe:01 12 /usr/bin/wolli", 0),
                entry("5000-6000 r-xp 00000000 fe:01 13 /usr/lib/marked by a debugger.so", 4),
                entry("7000-8000 rw-p 00000000 fe:01 13 /usr/lib/data.so", 0),
                entry("9000-a000 r-xp 00000000 00:00 0 [vdso]", 0),
                entry("b000-c000 r-xp 00000000 00:00 0", 0),
                entry("d000-f000 r-xp 00001000 fe:01 14 /usr/lib/with a space.so", 0),
            ]
            .concat();
            assert_eq!(untouched_code(&smaps), [(0x1000, 0x2000), (0xd000, 0x2000)]);
            assert_eq!(untouched_code("nonsense\n-\nzz-1 r-xp"), []);
        }
    }
}

#[cfg(test)]
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod tests {
    /// Bytes of memory that belong to this process alone.
    fn private() -> u64 {
        let text = std::fs::read_to_string("/proc/self/smaps_rollup").unwrap();
        let kib = |name: &str| -> u64 {
            let line = text.lines().find(|line| line.starts_with(name)).unwrap();
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        (kib("Private_Clean:") + kib("Private_Dirty:")) * 1024
    }

    #[test]
    fn what_was_freed_goes_back_to_the_system() {
        let before = private();
        // Below the size from which pieces are mapped one by one; the last one keeps the heap from shrinking by itself.
        let mut pieces: Vec<Vec<u8>> = (0..2_000).map(|_| vec![1; 16 << 10]).collect();
        let last = pieces.pop();
        drop(pieces);
        let kept = private() - before;
        assert!(kept > 20 << 20, "the allocator gave {kept} bytes back by itself; this test shows nothing");
        super::give_back();
        // The code that runs here is mapped again as it is needed.
        let left = private().saturating_sub(before);
        assert!(left < 4 << 20, "{left} bytes are still there");
        drop(last);
    }
}
