#!/usr/bin/env bash
# qemu.sh FOLDER: unpacks Debian's QEMU and its firmware into a folder.
#
# It is unpacked rather than installed because Debian's qemu-system-x86 conflicts with the qemu-utils of backports, which
# many machines have. Only the libraries that it links against are installed.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
folder=$1

candidate() { apt-cache policy "$1" | awk '/Candidate:/ { print $2 }'; }

version=$(candidate qemu-system-x86)
case $version in '' | '(none)') refresh_lists; version=$(candidate qemu-system-x86) ;; esac
case $version in '' | '(none)') cannot "apt knows no package qemu-system-x86; see /etc/apt/sources.list" ;; esac

# The first of each group of alternatives, without its version; what belongs to QEMU itself is unpacked below.
libraries=$(apt-cache show --no-all-versions "qemu-system-x86=$version" | sed -n 's/^Depends: //p' | tr ',' '\n' |
    sed 's/|.*//; s/([^)]*)//; s/[[:space:]]//g' | grep -vE '^(qemu-|seabios|ipxe)' | sort -u)
# shellcheck disable=SC2086 # a list of package names
install_packages $libraries

rm -rf "$folder"
fetch_debs "$folder/debs" "qemu-system-x86=$version" "qemu-system-common=$version" qemu-system-data seabios ipxe-qemu
for deb in "$folder"/debs/*.deb; do dpkg -x "$deb" "$folder"; done
rm -rf "$folder/debs" "$folder/usr/share/doc" "$folder/usr/share/man"
"$folder/usr/bin/qemu-system-x86_64" --version
