# shellcheck shell=bash
# What the lab's scripts share: messages, Debian packages, and steps that run again only when their inputs changed.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
lab=$repository/.lab
mkdir -p "$lab/logs" "$lab/stamps"
# depmod, mkfs.vfat and their like; a plain user's PATH lacks them.
export PATH=$PATH:/usr/sbin:/sbin LC_ALL=C

say() { echo "lab: $*" >&2; }

# A fault of ours.
fail() { say "error: $*"; exit 1; }

# Nothing is wrong with the project, but this machine cannot host the lab.
cannot() { say "cannot be set up here: $*"; exit 3; }

digest_of() { cat -- "$@" | sha256sum | cut -d' ' -f1; }

# step NAME INPUT… -- COMMAND…: runs the command unless it already succeeded with these very inputs.
step() {
    local name=$1 inputs=() want; shift
    while [ "$1" != -- ]; do inputs+=("$1"); shift; done; shift
    want=$(digest_of "${inputs[@]}")
    [ "$(cat "$lab/stamps/$name" 2>/dev/null)" = "$want" ] && return 0
    say "$name"
    rm -f "$lab/stamps/$name"
    local status=0
    "$@" > "$lab/logs/$name.log" 2>&1 || status=$?
    if [ "$status" -ne 0 ]; then
        tail -n 15 "$lab/logs/$name.log" >&2
        [ "$status" -eq 3 ] && exit 3
        fail "step '$name' failed; all it said is in $lab/logs/$name.log"
    fi
    echo "$want" > "$lab/stamps/$name"
}

# True if each file that lab.env names is there.
lab_env_is_whole() {
    local key value path
    [ -f "$lab/lab.env" ] || return 1
    while IFS='=' read -r key value; do
        [ "$key" = DISK_IMAGE_SHA256 ] && continue
        for path in ${value//:/ }; do [ -e "$path" ] || return 1; done
    done < "$lab/lab.env"
}

is_installed() { case $(dpkg-query -W -f '${db:Status-Abbrev}' "$1" 2>/dev/null) in ii*) ;; *) return 1 ;; esac; }

missing_of() { local p; for p in "$@"; do is_installed "$p" || echo "$p"; done; }

packages_present() { command -v dpkg-query >/dev/null && [ -z "$(missing_of "$@")" ]; }

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"
    elif command -v sudo >/dev/null && { [ -t 2 ] || sudo -n true 2>/dev/null; }; then sudo "$@"
    else return 127
    fi
}

# apt ARGUMENT…: apt-get, quietly, waiting for anybody else's apt to finish.
apt() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -o DPkg::Lock::Timeout=300 "$@" >> "$lab/logs/apt.log" 2>&1; }

# The package lists of a fresh machine are empty, and old ones name packages that are gone.
refresh_lists() {
    [ -z "${lists_refreshed:-}" ] || return 0
    say "apt-get update"
    lists_refreshed=yes
    apt update || true
}

install_packages() {
    local missing; missing=$(missing_of "$@" | tr '\n' ' '); missing=${missing% }
    [ -n "$missing" ] || return 0
    as_root true || cannot "not installed: $missing. Installing needs root: run this as root, or first run
     apt-get install --no-install-recommends $missing"
    say "installing $missing"
    # shellcheck disable=SC2086 # a list of package names
    apt install -y --no-install-recommends $missing && return 0
    refresh_lists
    # shellcheck disable=SC2086
    apt install -y --no-install-recommends $missing && return 0
    tail -n 5 "$lab/logs/apt.log" >&2
    cannot "apt-get could not install: $missing (is the network there? see $lab/logs/apt.log)"
}

# fetch_debs FOLDER PACKAGE[=VERSION]…: leaves the packages' .deb files in the folder. Needs no root.
fetch_debs() {
    local folder=$1; shift
    mkdir -p "$folder"
    local get=(apt-get -q -o APT::Sandbox::User=root download "$@")
    (cd "$folder" && "${get[@]}") && return 0
    refresh_lists
    (cd "$folder" && "${get[@]}") && return 0
    cannot "apt-get could not download $* (is the network there? see $lab/logs)"
}
