#!/usr/bin/env bash
# What takes too long for `make test`: the boot matrix, the same stories on machines with USB floppies and on one that
# enforces Secure Boot, every bench of the workspace, and cargo-deny's look at the
# licences and origins of the dependencies. Each part has a time limit; all parts run, and any failure is the result.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
failed=0

# part LIMIT COMMAND…
part() {
    local limit=$1; shift
    echo "== $*"
    timeout "$limit" "$@" || { echo "failed: $*"; failed=$((failed + 1)); }
}

export FARRIER_LAB=$PWD/.lab/lab.env
part 20m tests/lab/matrix.sh
# With --workspace throughout: by package, cargo would build the dependencies anew with that package's features.
part 30m env FARRIER_BOOTS=usb cargo test --workspace --test boots -- firmware:: deploy:: take_over::
part 20m env FARRIER_BOOTS=secure-boot cargo test --workspace --test boots -- firmware::the_same_iso
part 40m env FARRIER_AUTHORING=every-role cargo test --workspace --test authoring -- roles::
# The parsers of what BMCs say, on thousands of times as many made-up answers as in `make test`.
part 20m env PROPTEST_CASES=200000 cargo test -p bmc --lib -- answer scan message scrub
# The same of readers and patchers of images that anybody made.
part 20m env PROPTEST_CASES=20000 cargo test -p image --lib -- damaged hostile any_bytes any_text
benches=()
for bench in host/*/benches/*.rs; do benches+=(--bench "$(basename "$bench" .rs)"); done
part 60m cargo bench --workspace "${benches[@]}"
# The parsers of what BMCs say, of images and of settings, a minute each under a fuzzer that sees which code it reaches. It
# needs the nightly compiler and, for libFuzzer, a C++ compiler.
fuzz() {
    rustup toolchain list | grep -q ^nightly || rustup toolchain install nightly --profile minimal ||
        { echo "failed: there is no nightly Rust toolchain, and rustup could not install one"; failed=$((failed + 1)); return; }
    [ -x .lab/tools/bin/cargo-fuzz ] ||
        part 30m cargo install --quiet --locked --root .lab/tools --target-dir .lab/tools/target cargo-fuzz
    rm -rf .lab/tools/target
    local crate target found
    for target in host/*/fuzz/fuzz_targets/*.rs; do
        crate=$(dirname "$(dirname "$(dirname "$target")")")
        target=$(basename "$target" .rs)
        # What it finds goes to a folder of its own; the corpus in the tree is only read.
        found=.lab/fuzz/$(basename "$crate")/$target
        mkdir -p "$found"
        part 30m env -C "$crate" PATH="$PWD/.lab/tools/bin:$PATH" \
            cargo +nightly fuzz run --target-dir "$PWD/.lab/fuzz/build" "$target" "$PWD/$found" "fuzz/corpus/$target" -- \
            -max_total_time=60 -max_len=65536 -timeout=10 -rss_limit_mb=1024
    done
}
fuzz
# Its own target folder, outside ours: it must not wait for nor invalidate a build of the workspace.
[ -x .lab/tools/bin/cargo-deny ] ||
    part 45m cargo install --quiet --locked --root .lab/tools --target-dir .lab/tools/target cargo-deny
rm -rf .lab/tools/target
part 5m .lab/tools/bin/cargo-deny check bans licenses sources

echo "soak: $failed parts failed"
[ "$failed" -eq 0 ]
