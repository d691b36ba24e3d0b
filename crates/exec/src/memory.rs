//! Memory that this process has and does not use.
//!
//! The allocator keeps what was freed for the next time. A daemon that has answered at length and then waits for days has no next time,
//! and pays for it with the memory of the machine.

/// Gives back to the system what the allocator keeps without using it. Takes a millisecond or a few, in which other threads may
/// wait for the allocator; meant for moments after which little is expected. Does nothing where the allocator has no such call.
#[cfg_attr(all(target_os = "linux", target_env = "gnu"), expect(unsafe_code, reason = "the C library has no safe interface for it"))]
pub fn give_back() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes a number and no pointer, touches free memory only, and may be called from any thread at any time.
    unsafe {
        libc::malloc_trim(0);
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
        let left = private().saturating_sub(before);
        assert!(left < 4 << 20, "{left} bytes are still there");
        drop(last);
    }
}
