#!/usr/bin/env bash
# matrix.sh [CASE…]: boots the deploy ramdisk, deploys the test disk through its command API and boots that disk, for every
# firmware and every kind of parameters volume; and boots the instance ramdisk from an ISO of its own. Without arguments
# all cases run: bios-usb uefi-usb bios-virtio uefi-virtio bios-instance uefi-instance.
#
# The ISO and the parameters volume are made here with xorriso, mkfs.vfat and mtools, not with Farrier: so a boot that
# fails in a story but not here is a fault of Farrier's images, and one that fails in both is a fault of the lab.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
"$here/setup.sh"
# shellcheck disable=SC1091 # written by setup.sh
source "$lab/lab.env"
[ $# -gt 0 ] || set -- bios-usb uefi-usb bios-virtio uefi-virtio bios-instance uefi-instance

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# iso OUT KERNEL RAMDISK: boots by isolinux and by an EFI system partition.
iso() {
    local tree=$work/tree line='boot_method=vmedia quiet'
    rm -rf "$tree"
    mkdir -p "$tree/isolinux" "$tree/boot/grub"
    cp "$2" "$tree/boot/vmlinuz"
    cp "$3" "$tree/boot/ramdisk"
    cp "$ISOLINUX" "$LDLINUX" "$tree/isolinux/"
    printf 'default deploy\nlabel deploy\n kernel /boot/vmlinuz\n append initrd=/boot/ramdisk %s\n' "$line" > "$tree/isolinux/isolinux.cfg"
    printf 'linux /boot/vmlinuz %s\ninitrd /boot/ramdisk\nboot\n' "$line" > "$tree/boot/grub/grub.cfg"
    mkfs.vfat -C "$tree/boot/esp.img" 2880 > /dev/null
    mmd -i "$tree/boot/esp.img" ::EFI ::EFI/BOOT
    mcopy -i "$tree/boot/esp.img" "$GRUB_EFI" ::EFI/BOOT/BOOTX64.EFI
    xorriso -as mkisofs -quiet -r -J -V DEPLOY -o "$1" -b isolinux/isolinux.bin -c isolinux/boot.cat -no-emul-boot \
        -boot-load-size 4 -boot-info-table -eltorito-alt-boot -e boot/esp.img -no-emul-boot "$tree" 2> "$work/xorriso.log"
}
iso "$work/usb.iso" "$DEPLOY_KERNEL_FULL" "$DEPLOY_RAMDISK_FULL"
iso "$work/virtio.iso" "$DEPLOY_KERNEL_CLOUD" "$DEPLOY_RAMDISK_CLOUD"
iso "$work/instance.iso" "$INSTANCE_KERNEL" "$INSTANCE_RAMDISK"

failed=0
for name in "$@"; do
    case $name in
        bios-usb | uefi-usb | bios-virtio | uefi-virtio | bios-instance | uefi-instance) ;;
        *) fail "matrix.sh knows no case '$name'" ;;
    esac
    python3 "$here/deploy.py" --lab "$lab/lab.env" --firmware "${name%-*}" --case "${name#*-}" --iso "$work/${name#*-}.iso" ||
        failed=$((failed + 1))
done
[ "$failed" -eq 0 ] || fail "$failed of $# boots failed"
