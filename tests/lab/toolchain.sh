#!/usr/bin/env bash
# Sees to it that the toolchain of rust-toolchain.toml is whole: rustup fetches a toolchain that is missing by itself, but to
# one that is there it does not add the targets and components that the file names.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

command -v rustc > /dev/null || { echo "error: no rustc here; install Rust with rustup, then run this again" >&2; exit 1; }
# The words of the list NAME = ["A", "B"].
listed() { sed -n "s/^$1 *= *\[\(.*\)\]/\1/p" rust-toolchain.toml | tr -d '",'; }
bin=$(rustc --print sysroot)/bin
for target in $(listed targets); do
    [ -d "$bin/../lib/rustlib/$target" ] || rustup target add "$target"
done
for component in $(listed components); do
    tool=${component/rustfmt/cargo-fmt} tool=${tool/#clippy/cargo-clippy}
    [ -x "$bin/$tool" ] || rustup component add "$component"
done
