#!/usr/bin/env bash
# plugins.sh FOLDER: installs what makes plugins of Python and JavaScript into FOLDER, and keeps the packages as they were
# fetched: tests install them anew from there, as the guide tells an author to.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
folder=$1

rm -rf "$folder"
mkdir -p "$folder/js"
/usr/bin/python3 -m venv "$folder/python"
pip=("$folder/python/bin/pip" --disable-pip-version-check --no-input --quiet)
"${pip[@]}" download --dest "$folder/wheels" --requirement "$here/plugins/requirements.txt" ||
    cannot "pip could not fetch what tests/lab/plugins/requirements.txt names (is the network there?)"
"${pip[@]}" install --no-index --find-links "$folder/wheels" --requirement "$here/plugins/requirements.txt"
"$folder/python/bin/componentize-py" --version || fail "componentize-py does not start"

cp "$here/plugins/package.json" "$folder/js/"
npm install --prefix "$folder/js" --cache "$folder/npm-cache" --no-audit --no-fund --loglevel=error ||
    cannot "npm could not install what tests/lab/plugins/package.json names (is the network there?)"
"$folder/js/node_modules/.bin/componentize-js" --help > /dev/null || fail "componentize-js does not start"
