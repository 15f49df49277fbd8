#!/usr/bin/env bash
# ramdisk.sh LAB: packs the ramdisks into LAB/ramdisk: deploy-cloud and deploy-full, which differ in their kernel's
# modules, and instance. The same inputs give the same bytes.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
out=$1/ramdisk kernels=$1/kernel
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"

# root NAME INIT: an empty file tree with busybox and its first process.
root() {
    mkdir -p "$work/$1/bin"
    cp "$(command -v busybox)" "$work/$1/bin/busybox"
    install -m 0755 "$2" "$work/$1/init"
}

# pack NAME: the tree into an archive, free of times, owners and directory order.
pack() {
    find "$work/$1" -exec touch -h -d @0 {} +
    (cd "$work/$1" && find . | sort | cpio --quiet --reproducible -o -H newc -R 0:0) | gzip -9n > "$out/$1.cpio.gz.new"
    mv "$out/$1.cpio.gz.new" "$out/$1.cpio.gz"
    echo "$1: $(stat -c %s "$out/$1.cpio.gz") bytes"
}

for flavour in cloud full; do
    root "deploy-$flavour" "$here/ramdisk/init"
    cp -r "$kernels/$flavour/modules" "$work/deploy-$flavour/modules"
    mkdir "$work/deploy-$flavour/agent"
    cp "$here/ramdisk/common" "$here/ramdisk/commands" "$here/ramdisk/json.awk" "$work/deploy-$flavour/agent/"
    install -m 0755 "$here/ramdisk/serve" "$work/deploy-$flavour/agent/serve"
    pack "deploy-$flavour"
done
root instance "$here/instance/init"
pack instance
