#!/usr/bin/env bash
# signed.sh FOLDER: leaves Debian's signed shim and GRUB in FOLDER/shimx64.efi.signed and FOLDER/grubx64.efi.signed: what
# boots a machine that enforces Secure Boot. They are unpacked, not installed: installing them changes how this machine boots.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
folder=$1
work=$folder/unpacked
rm -rf "$folder"
fetch_debs "$work" shim-signed grub-efi-amd64-signed
for deb in "$work"/*.deb; do dpkg -x "$deb" "$work"; done
cp "$work/usr/lib/shim/shimx64.efi.signed" "$work/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed" "$folder/"
rm -rf "$work"
