#!/usr/bin/env bash
# keystone.sh FOLDER: makes FOLDER/keystone, the database and keys of a Keystone that tests copy and serve. Making them takes
# half a minute, serving a copy a few seconds.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
folder=$1

rm -rf "$folder/keystone" "$folder/keystone.new"
"$folder/venv/bin/python" "$here/openstack/run_keystone.py" prepare "$folder/keystone.new"
[ -s "$folder/keystone.new/application-credential.json" ] || fail "Keystone made no application credential"
mv "$folder/keystone.new" "$folder/keystone"
