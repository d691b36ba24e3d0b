//! See `wolli_tests::fuzz::command`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wolli_tests::fuzz::command::run(data));
