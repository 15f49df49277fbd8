#!/usr/bin/env bash
# schemas.sh FOLDER: leaves DMTF's Redfish schemas (CSDL, DSP8010) in FOLDER, for the service validator, which would fetch them from
# dmtf.org. They come from the registry of crates: nv-redfish-schema packs them as they were published.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"
folder=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mkdir "$work/src"
touch "$work/src/lib.rs"
cat > "$work/Cargo.toml" <<'TOML'
[workspace]
[package]
name = "schemas"
version = "0.0.0"
edition = "2024"
[dependencies]
nv-redfish-schema = "=0.22.0"
TOML
(cd "$work" && cargo vendor --quiet vendor > /dev/null) ||
    cannot "cargo could not fetch nv-redfish-schema 0.22.0 (is the network there?)"
rm -rf "$folder"
mkdir -p "$folder"
cp "$work"/vendor/nv-redfish-schema/redfish-csdl/csdl/*.xml "$folder"
for schema in ServiceRoot ComputerSystem Manager VirtualMedia; do
    [ -f "$folder/${schema}_v1.xml" ] || fail "the package has no schema $schema"
done
