#!/usr/bin/env bash
# boots.sh LAB: boots the test disk in LAB's QEMU and waits for its marker, which shows that QEMU works on this machine.
# Emulation only (TCG): a /dev/kvm that exists need not work, and a guest that dies in it can hang QEMU.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
qemu=$1/qemu
work=$(mktemp -d)
trap 'kill "$machine" 2>/dev/null || true; wait 2>/dev/null || true; rm -rf "$work"' EXIT
machine=

cp "$1/disk/disk.img" "$work/disk.img"
"$qemu/usr/bin/qemu-system-x86_64" -L "$qemu/usr/share/qemu" -L "$qemu/usr/share/seabios" -nodefaults -no-user-config \
    -display none -machine pc -accel tcg -m 64 -serial "file:$work/serial" \
    -drive "if=virtio,format=raw,file=$work/disk.img" < /dev/null &
machine=$!
for _ in $(seq 600); do
    grep -aq FARRIER-DISK-BOOTED "$work/serial" 2>/dev/null && exit 0
    kill -0 "$machine" 2>/dev/null || cannot "QEMU ended before the test disk booted"
    sleep 0.1
done
cannot "QEMU runs, but the test disk did not boot within 60 s"
