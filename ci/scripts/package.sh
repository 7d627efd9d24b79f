#!/usr/bin/env bash
# Builds one target and packs it as ci/scripts/install.sh, install.ps1 and cargo binstall expect it: dist/ledger-v1.2.3-TARGET.tgz (.zip on
# Windows), with one folder of the same name inside. Usage: package.sh TARGET TAG
set -euo pipefail
target=$1
tag=$2
cd "$(dirname "$0")/../.."
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
if [ "$tag" != "v$version" ]; then
  echo "package: the tag is $tag, and Cargo.toml says $version" >&2
  exit 1
fi
if ! grep -q "^## $version\b" CHANGELOG.md; then
  echo "package: CHANGELOG.md has no section '## $version'" >&2
  exit 1
fi
cargo build --release --locked --target "$target" --bin ledger
name=ledger-v$version-$target
rm -rf "dist/$name"
mkdir -p "dist/$name"
cp README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE "dist/$name/"
cd dist
case $target in
  *windows*)
    cp "../target/$target/release/ledger.exe" "$name/"
    7z a -bso0 "$name.zip" "$name"
    ;;
  *)
    cp "../target/$target/release/ledger" "$name/"
    tar -czf "$name.tgz" "$name"
    ;;
esac
rm -r "$name"
ls -l
