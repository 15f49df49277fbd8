#!/usr/bin/env bash
# world.sh PAGE NEED…: runs the blocks of a page, a script, on a machine of its own: its own network with the addresses of the
# guide, its own /etc, /var/lib and /srv, and what the page says that it needs beside it. It is started by
# `unshare` in namespaces of its own, and everything in it ends with it.
set -euo pipefail
page=$1; shift
work=$(dirname "$page")/work
mkdir "$work"
mount -t tmpfs none "$work"
cp "$page" "$work/page.sh"

# Copies, so that whoever runs this may change them; what only the real root may read is left out.
cp -rd /etc "$work/etc" 2> /dev/null || true
mount --bind "$work/etc" /etc
for folder in /run /srv /var/lib /var/log; do mount -t tmpfs none "$folder"; done
mkdir /var/lib/nginx /var/log/nginx
rm -f /etc/nginx/sites-enabled/*
# Where only one user is known in here, nginx has to stay it.
chown www-data /var/lib/nginx 2> /dev/null || sed -i 's/^user .*/user root;/' /etc/nginx/nginx.conf

ip link set lo up
for address in 10.1.10.30 10.1.10.40 10.1.10.41; do ip addr add "$address/24" dev lo; done
ip route add default dev lo src 10.1.10.30

# number LINE KEY: a number in a line of JSON.
number() { sed "s/.*\"$2\": *\([0-9]*\).*/\1/" <<< "$1"; }

forward() { # FROM PORT
    coproc { python3 "$GUIDE/forward.py" "$1" "$2"; }
    read -r _ <&"${COPROC[0]}"
}

for need in "$@"; do
    case $need in
    openstack)
        cp -r "$KEYSTONE" "$work/keystone"
        coproc keystone { "$OPENSTACK_PYTHON" "$LAB_SCRIPTS/openstack/run_keystone.py" serve "$work/keystone" 2> "$work/keystone.log"; }
        read -r line <&"${keystone[0]}"
        port=$(number "$line" port)
        exec 7>&"${keystone[1]}" 8<&"${keystone[0]}"
        forward 10.1.10.40:5000 "$port" 2> /dev/null
        mkfifo "$work/swift.in" "$work/swift.out"
        "$OPENSTACK_PYTHON" "$LAB_SCRIPTS/openstack/run_swift.py" "$work/swift" --keystone "http://127.0.0.1:$port/v3" \
            < "$work/swift.in" > "$work/swift.out" 2> "$work/swift.log" &
        exec 5> "$work/swift.in" 6< "$work/swift.out"
        read -r line <&6
        echo "http://127.0.0.1:$(number "$line" proxy)" >&7
        read -r _ <&8
        ;;
    s3)
        mkfifo "$work/swift.in" "$work/swift.out"
        "$OPENSTACK_PYTHON" "$LAB_SCRIPTS/openstack/run_swift.py" "$work/swift" \
            < "$work/swift.in" > "$work/swift.out" 2> "$work/swift.log" &
        exec 5> "$work/swift.in" 6< "$work/swift.out"
        read -r line <&6
        port=$(number "$line" proxy)
        forward 10.1.10.41:8080 "$port" 2> /dev/null
        # The bucket, as its service's own tools make it.
        token=$(curl --silent --fail --output /dev/null --dump-header - -H "X-Auth-User: t00:tester" -H "X-Auth-Key: testing" \
            "http://127.0.0.1:$port/auth/v1.0" | sed -n 's/^x-auth-token: *//Ip' | tr -d '\r')
        curl --silent --fail --request PUT -H "X-Auth-Token: $token" "http://127.0.0.1:$port/v1/AUTH_t00/farrier"
        ;;
    *)
        echo "a page needs $need, and nobody knows what that is" >&2
        exit 1
        ;;
    esac
done

cd "$work"
# The peers' descriptors are none of the page's; they are held here, since peers end with their standard input.
env -u KEYSTONE -u OPENSTACK_PYTHON -u GUIDE -u LAB_SCRIPTS bash -euo pipefail "$work/page.sh" 5>&- 6<&- 7>&- 8<&- < /dev/null
