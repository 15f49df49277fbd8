#!/usr/bin/env bash
# oslo.sh FOLDER: installs oslo.config, the reader that ironic.conf is made for, and Ironic's declarations of its options into
# FOLDER. Tests ask both what a settings file means.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
folder=$1

rm -rf "$folder"
/usr/bin/python3 -m venv "$folder"
pip=("$folder/bin/pip" --disable-pip-version-check --no-input --quiet install)
"${pip[@]}" --requirement "$here/oslo/requirements.txt" ||
    cannot "pip could not install what tests/lab/oslo/requirements.txt names (is the network there?)"
# Its declarations need none of what the service needs.
"${pip[@]}" --no-deps --requirement "$here/oslo/ironic.txt" ||
    cannot "pip could not install what tests/lab/oslo/ironic.txt names (is the network there?)"
"$folder/bin/python" -c 'import ironic.conf; assert ironic.conf.CONF.ilo' || fail "Ironic's options cannot be loaded"
