//! See `wolli_tests::fuzz::session_file`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wolli_tests::fuzz::session_file::run(data));
