#!/usr/bin/env bash
# nginx.sh: checks that the installed nginx takes the configuration that tests serve web roots with.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
sed "s|FOLDER|$work|g; s|ROOT|$work|g; s|PORT|8999|g; s|USER|$(id -un)|" "$here/nginx/nginx.conf" > "$work/nginx.conf"
nginx -t -c "$work/nginx.conf" -p "$work" || fail "nginx refuses tests/lab/nginx/nginx.conf"
