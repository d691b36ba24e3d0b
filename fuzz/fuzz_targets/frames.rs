//! See `wolli_tests::fuzz::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| wolli_tests::fuzz::frames::run(data));
