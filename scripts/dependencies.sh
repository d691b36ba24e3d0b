#!/bin/sh
# Licences, sources and banned crates, and dependencies that nobody uses; each where its tool is installed.
set -eu
cd "$(dirname "$0")/.."

if cargo deny --version >/dev/null 2>&1; then
  cargo deny --all-features check bans licenses sources
else
  echo "cargo-deny is not installed; licences were not checked."
fi

if cargo machete --version >/dev/null 2>&1; then
  cargo machete
else
  echo "cargo-machete is not installed; unused dependencies were not looked for."
fi
