#!/usr/bin/env bash
# Formatting, lints and all tests of the workspace, then one line that sums the tests up: "N passed, N failed".
#
# A formatting or lint complaint, a test program that does not build or dies, and a test that is skipped each count as a
# failure: what did not run did not pass.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.." || exit 1
mkdir -p target
export FARRIER_LAB=$PWD/.lab/lab.env
report=target/test-report.txt
broken=0

run() {
    echo "== $*"
    "$@" && return
    echo "failed: $*"
    broken=$((broken + 1))
    return 1
}

run cargo fmt --all --check

# Lints and tests share one build: as the workspace's compiler, clippy-driver makes the very artefacts that rustc would, and no
# dependency is gone through a second time, as `cargo clippy` would.
export RUSTC_WORKSPACE_WRAPPER=clippy-driver
export CLIPPY_ARGS=-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__ # as cargo-clippy hands on `-D warnings`
# If a lint complains, the tests run all the same.
run cargo test --workspace --all-targets --no-run --quiet || unset CLIPPY_ARGS

echo "== cargo test --workspace"
status=0
# Many tests wait for simulated servers and for QEMU: twice as many as there are cores keep these busy.
RUST_TEST_THREADS=$((2 * $(nproc))) cargo test --workspace --no-fail-fast 2>&1 | tee "$report" || status=$?

# libtest's summary: "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s"
read -r passed failed < <(
    sed -n 's/^test result: .* \([0-9]*\) passed; \([0-9]*\) failed; .*/\1 \2/p' "$report" |
        awk '{ passed += $1; failed += $2 } END { print passed + 0, failed + 0 }'
)
# A test that is another one's child process is run by its parent, and only there.
skipped=$(grep '^test .* \.\.\. ignored' "$report" | grep -v ', a child of the test')
if [ -n "$skipped" ]; then
    printf 'skipped:\n%s\n' "$skipped"
    failed=$((failed + $(wc -l <<< "$skipped")))
fi
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then broken=$((broken + 1)); fi
if [ "$passed" -eq 0 ]; then broken=$((broken + 1)); echo "no test ran"; fi
failed=$((failed + broken))

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
