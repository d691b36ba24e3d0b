# `make run` tries it, `make test` tests it, `make check` is what the build server runs. Nothing is written outside this folder,
# but for what cargo itself keeps. `setup`, which `test` and `check` begin with, installs what is missing of a C compiler, strace and node
# by apt-get if it may, which is as root on a Debian.

.DEFAULT_GOAL := help
.PHONY: help setup run test check fmt lint doc reference bench soak dist clean-demo

CARGO ?= cargo

help: ## show the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 20

setup: ## check that the tools for building and testing are there, and get what can be had
	@scripts/setup.sh

run: ## build, start an agent that needs no account, and talk to it
	@scripts/demo.sh

test: ## build, and run every test that ends within minutes
	@scripts/test.sh

check: fmt lint test doc ## all that the build server checks
	@scripts/dependencies.sh

fmt: ## check the formatting (`cargo fmt` mends it)
	$(CARGO) fmt --all --check

lint: ## clippy over everything, warnings are errors
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings

doc: ## build the API documentation, warnings are errors
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps

reference: ## write docs/reference/openapi.json anew, from the types and the routes
	WOLLI_WRITE_REFERENCE=1 $(CARGO) test -q -p wolli-daemon --test daemon reference::the_file_in_the_tree

bench: ## measure the promises (release build)
	$(CARGO) build --release -p wolli-cli
	$(CARGO) run --release -p wolli-bench

soak: ## every test with full counts, for an hour or so
	WOLLI_SOAK=1 NEXTEST_PROFILE=soak scripts/test.sh

dist: ## a tarball with the release binary, completions and checksums, in target/dist
	@scripts/dist.sh

clean-demo: ## forget what `make run` made
	rm -rf .demo
