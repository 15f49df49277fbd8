#!/usr/bin/env bash
# kernel.sh cloud|full FOLDER: takes a Debian kernel apart and keeps what the deploy ramdisk needs:
# FOLDER/vmlinuz, FOLDER/modules/*.ko and FOLDER/modules/order, the file names in the order they must be loaded, options behind.
#
# The cloud kernel is small and boots fast, but knows neither USB nor floppies: its parameters volume is a virtio disk.
# The full kernel knows the USB floppy that a BMC presents.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
flavour=$1 folder=$2

# vfat with its code pages reads the parameters; the rest finds the disks, the CD and the network card.
modules=(virtio_pci virtio_net virtio_blk vfat nls_cp437 nls_ascii sd_mod)
case $flavour in
    cloud) package=linux-image-cloud-amd64 ;;
    full) package=linux-image-amd64; modules+=(xhci_pci usb_storage) ;;
    *) fail "kernel.sh: cloud or full, not '$flavour'" ;;
esac

# The package is an empty one that depends on the newest kernel.
newest() { apt-cache depends "$package" | sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1; }
image=$(newest)
[ -n "$image" ] || { refresh_lists; image=$(newest); }
[ -n "$image" ] || cannot "apt knows no package $package; see /etc/apt/sources.list"

rm -rf "$folder"
mkdir -p "$folder/modules"
work=$folder/unpacked
fetch_debs "$work" "$image"
dpkg -x "$work"/*.deb "$work"
version=$(basename "$work"/lib/modules/*)
depmod -b "$work" "$version"
cp "$work/boot/vmlinuz-$version" "$folder/vmlinuz"
modprobe -d "$work" -S "$version" --show-depends -a "${modules[@]}" | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' |
    while read -r module; do
        cp "$module" "$folder/modules/"
        basename "$module" >> "$folder/modules/order"
    done
# A USB disk is used at once, not after the second that the driver leaves slow ones to settle.
sed -i 's/^usb-storage.ko$/& delay_use=0/' "$folder/modules/order"
rm -rf "$work"
echo "$version: $(wc -l < "$folder/modules/order") modules"
