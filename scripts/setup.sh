#!/bin/sh
# Checks for what cargo cannot bring, and brings what it can. Says what is missing and how to get it.
set -eu
cd "$(dirname "$0")/.."

# The test runner; any version from this one on works.
nextest=0.9.143

if ! command -v cargo >/dev/null 2>&1; then
  echo "cargo is not installed. Get Rust from https://rustup.rs, then run this again." >&2
  exit 1
fi

# The linker, and a C compiler for the crypto library.
if ! command -v cc >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing a C compiler (apt-get install gcc libc6-dev)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq gcc libc6-dev
  else
    echo "There is no C compiler (cc). Install one: gcc and libc6-dev on Debian, gcc on Fedora, xcode-select --install on macOS." >&2
    exit 1
  fi
fi

# Tests kill the daemon at chosen system calls with it. Without it they say that they checked nothing.
if [ "$(uname -s)" = Linux ] && ! command -v strace >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing strace (apt-get install strace)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq strace
  else
    echo "There is no strace. The tests that kill the daemon at each write will check nothing." >&2
  fi
fi

# Tests run the daemon under a service manager of their own. Without it, or without root, they say that they checked nothing.
if [ "$(uname -s)" = Linux ] && { [ ! -x /lib/systemd/systemd ] || ! command -v dbus-daemon >/dev/null 2>&1; }; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing systemd and dbus (apt-get install systemd dbus)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends systemd dbus
  else
    echo "There is no systemd, or no dbus. The tests of services will check nothing." >&2
  fi
fi

# One test is a client of wolli 0.0.2 in its own language.
if ! command -v node >/dev/null 2>&1; then
  if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing node (apt-get install nodejs)"
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nodejs
  else
    echo "There is no node: the test that plays a client of wolli 0.0.2 will not run. Any version from 18 on will do." >&2
  fi
fi

# Into target/, so that nothing of the user's own is changed.
if ! PATH="$PWD/target/tools/bin:$PATH" cargo nextest --version >/dev/null 2>&1; then
  echo "Installing the test runner cargo-nextest $nextest into target/tools (once; a few minutes)"
  if ! cargo install --quiet --locked cargo-nextest --version "$nextest" --root target/tools; then
    echo "It could not be installed. The tests run under plain \`cargo test\`, which does not end a test that hangs." >&2
  fi
fi
