#!/usr/bin/env bash
# grub.sh FOLDER: makes FOLDER/BOOTX64.EFI, the UEFI boot loader that the tests put into a boot ISO's EFI system partition,
# and FOLDER/eltorito.img, the boot loader for a BIOS that may take the place of isolinux.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
mkdir -p "$1"
# What reads a built-in configuration knows no comments.
sed '/^#/d' "$here/grub/search.cfg" > "$1/search.cfg"
grub-mkimage -O x86_64-efi -p /boot/grub -c "$1/search.cfg" -o "$1/BOOTX64.EFI" \
    normal configfile search search_fs_file iso9660 fat part_gpt part_msdos linux boot echo test serial terminal minicmd
grub-mkimage -O i386-pc-eltorito -p /boot/grub -o "$1/eltorito.img" \
    biosdisk normal configfile search search_fs_file iso9660 linux boot echo test
