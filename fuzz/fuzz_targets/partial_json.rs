//! See `wolli_tests::fuzz::partial_json`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wolli_tests::fuzz::partial_json::run(data));
