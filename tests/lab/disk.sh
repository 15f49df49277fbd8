#!/usr/bin/env bash
# disk.sh FOLDER: makes FOLDER/disk.img, the raw image that the tests deploy: 2 MiB with a boot sector for BIOS and an EFI
# system partition for UEFI. Whichever boots prints FARRIER-DISK-BOOTED on the serial port and stays up, idle.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
folder=$1
first_sector=2048 sectors=2048
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$folder"

as --32 --defsym PARTITION_SECTORS=$sectors -o "$work/boot.o" "$here/disk/boot.S"
ld -m elf_i386 -Ttext 0x7c00 --oformat binary -e start -o "$work/boot.bin" "$work/boot.o"
[ "$(stat -c %s "$work/boot.bin")" -eq 512 ] || fail "the boot sector is not 512 bytes"

as --64 -o "$work/efi.o" "$here/disk/efi.S"
objcopy -I elf64-x86-64 -O pe-x86-64 "$work/efi.o" "$work/efi.obj"
# Subsystem 10 is an EFI application; the firmware loads it anywhere, so it needs a relocation directory.
ld -m i386pep -s --subsystem 10 --image-base 0 --dynamicbase --no-insert-timestamp -e efi_main -o "$work/BOOTX64.EFI" "$work/efi.obj"

mkfs.vfat --invariant -n FARRIERDISK -C "$work/esp.img" $((sectors / 2)) > /dev/null
touch -d @315532800 "$work/BOOTX64.EFI"
export SOURCE_DATE_EPOCH=315532800
mmd -i "$work/esp.img" ::EFI ::EFI/BOOT
mcopy -m -i "$work/esp.img" "$work/BOOTX64.EFI" ::EFI/BOOT/BOOTX64.EFI

cp "$work/boot.bin" "$work/disk.img"
truncate -s $(((first_sector + sectors) * 512)) "$work/disk.img"
dd if="$work/esp.img" of="$work/disk.img" bs=512 seek=$first_sector conv=notrunc status=none
mv "$work/disk.img" "$folder/disk.img"
