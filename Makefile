# The commands that people and CI run. Each starts from a fresh clone: what it needs, it sets up.
#
#   make demo     deploy three simulated servers, one of them a real QEMU machine, and watch a conductor be taken over
#   make test     formatting, lints and all tests; ends with the line "N passed, N failed"
#   make soak     what takes long: boots in every firmware, benches, licences and sources of the dependencies
#   make setup    only set up the boot lab (QEMU, kernels, firmware, test ramdisk) in .lab/
#   make lint     formatting and lints alone
#   make fmt      format the Rust code

.PHONY: demo test soak setup lint fmt toolchain

# The Rust target and tools that rust-toolchain.toml names.
toolchain:
	@tests/lab/toolchain.sh

demo: toolchain
	tests/lab/demo.sh

test: toolchain
	tests/lab/setup.sh
	tests/lab/test.sh

soak: toolchain
	tests/lab/setup.sh
	tests/lab/soak.sh

setup:
	tests/lab/setup.sh

lint: toolchain
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

fmt: toolchain
	cargo fmt --all
