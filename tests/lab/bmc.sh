#!/usr/bin/env bash
# bmc.sh FOLDER: installs BMCs and BMC clients that nobody here wrote into FOLDER, a Python environment. Tests let ours talk to
# them.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
folder=$1

rm -rf "$folder"
/usr/bin/python3 -m venv "$folder"
"$folder/bin/pip" --disable-pip-version-check --no-input --quiet install --requirement "$here/bmc/requirements.txt" ||
    cannot "pip could not install what tests/lab/bmc/requirements.txt names (is the network there?)"
"$folder/bin/sushy-emulator" --help > /dev/null || fail "sushy-emulator does not start"
"$folder/bin/python" -c 'import hpilo; from proliantutils.ilo import ribcl, ris' ||
    fail "python-hpilo or proliantutils cannot be imported"
"$folder/bin/python" -c 'import sushy, redfish_service_validator.validate' ||
    fail "sushy or the Redfish service validator cannot be imported"
