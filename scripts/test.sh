#!/bin/sh
# Builds the binary, then runs all tests: under cargo-nextest, or if that cannot be had under `cargo test`.
set -eu
cd "$(dirname "$0")/.."

scripts/setup.sh
PATH="$PWD/target/tools/bin:$PATH"
export PATH

# Tests that start the real binary find it in the target folder.
cargo build -p wolli-cli --bin wolli

if cargo nextest --version >/dev/null 2>&1; then
  cargo nextest run --workspace
else
  cargo test --workspace --lib --bins --tests
fi

# Examples in the documentation; nextest does not run them.
cargo test --workspace --doc --quiet
