//! See `wolli_tests::fuzz::sse`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wolli_tests::fuzz::sse::run(data));
