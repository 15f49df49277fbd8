#!/usr/bin/env bash
# Runs the demonstration: with a real QEMU machine among the servers if the boot lab can be set up here, and over the
# BMC protocols alone if it cannot. Arguments are handed on to `farrier demo`.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
cd "$repository"

status=0
"$here/setup.sh" || status=$?
case $status in
    0) boot=qemu; export FARRIER_LAB=$lab/lab.env ;;
    3) boot=protocol; say "going on without QEMU: the demonstration runs over the BMC protocols alone" ;;
    *) exit "$status" ;;
esac
exec cargo run -p farrier -- demo --servers 3 --boot "$boot" "$@"
