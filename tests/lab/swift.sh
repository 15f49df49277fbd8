#!/usr/bin/env bash
# swift.sh FOLDER: installs Swift and Keystone into FOLDER/venv. Tests start them, on free ports of loopback.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
folder=$1

rm -rf "$folder/venv"
mkdir -p "$folder"
/usr/bin/python3 -m venv "$folder/venv"
pip=("$folder/venv/bin/pip" --disable-pip-version-check --no-input --quiet)
"${pip[@]}" install --requirement "$here/openstack/requirements.txt" ||
    cannot "pip could not install what tests/lab/openstack/requirements.txt names (is the network there?)"

# It must not only install: a whole Swift comes up and goes down with its standard input.
work=$(mktemp -d -p "$folder")
trap 'rm -rf "$work"' EXIT
sleep 1 | timeout 120 "$folder/venv/bin/python" "$here/openstack/run_swift.py" "$work/swift" | grep -q '"proxy"' ||
    fail "Swift does not start: see $work"
