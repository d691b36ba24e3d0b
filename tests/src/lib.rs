//! Tests that run the real binary.
