#!/bin/sh
# target/dist/wolli-<version>-<target>.tar.gz: the release binary, its licence, the documentation, completions, and checksums.
set -eu
cd "$(dirname "$0")/.."

cargo build --release --locked -p wolli-cli
wolli="${CARGO_TARGET_DIR:-target}/release/wolli"

version=$("$wolli" --version | cut -d' ' -f2)
target=$(rustc -vV | sed -n 's/^host: //p')
name="wolli-$version-$target"
out=target/dist

if command -v sha256sum >/dev/null 2>&1; then sum="sha256sum"; else sum="shasum -a 256"; fi

rm -rf "$out/$name"
mkdir -p "$out/$name/completions"
cp "$wolli" LICENSE README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md "$out/$name/"
cp -R docs "$out/$name/docs"
for shell in bash zsh fish elvish powershell; do
  "$wolli" completions "$shell" >"$out/$name/completions/wolli.$shell"
done
(cd "$out/$name" && find . -type f ! -name SHA256SUMS | LC_ALL=C sort | xargs $sum >SHA256SUMS)

# The same input gives the same bytes, where tar can do that.
if tar --version 2>/dev/null | grep -q GNU; then
  stamp=$(git log -1 --format=%ct 2>/dev/null || echo 0)
  tar -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime="@$stamp" -cf - "$name" | gzip -n -9 >"$out/$name.tar.gz"
else
  tar -C "$out" -cf - "$name" | gzip -n -9 >"$out/$name.tar.gz"
fi
(cd "$out" && $sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "$out/$name.tar.gz"
