#!/usr/bin/env bash
# Sets up the boot lab: everything that is needed to boot real (emulated) servers in the tests and in the demo.
#
#   tests/lab/setup.sh          installs what is missing, builds what has changed, checks that it boots
#
# What it leaves behind lies in .lab/ at the top of the repository; .lab/lab.env names each piece as KEY=/absolute/path.
# It may be run at any time: when nothing has changed it returns in a fraction of a second.
#
# Exit codes: 0 the lab is ready · 1 a build step failed, which is a fault of ours
#             3 the lab cannot be set up on this machine; the message names what is missing and how to get it
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
# shellcheck source=tests/lab/lib.sh
source "$here/lib.sh"

# What the build links (OpenSSL, for the TLS of old BMCs), tools that the tests run, tools and firmware that the steps below use.
packages=(
    gcc libc6-dev libssl-dev pkg-config binutils make cpio kmod python3
    dosfstools mtools xorriso genisoimage
    xfsprogs btrfs-progs e2fsprogs
    isolinux syslinux-common ovmf grub-common grub-efi-amd64-bin grub-pc-bin busybox-static
    fdisk gdisk
    python3-venv memcached nginx-light curl iproute2
    gzip xz-utils zstd qemu-utils
    clang lld wasi-libc
)
# Node's own packages bring npm along, and stand against Debian's.
command -v npm > /dev/null || packages+=(nodejs npm)

exec 9>"$lab/lock"
flock -n 9 || { say "waiting for another set-up to finish"; flock 9; }

# Where the lab lies is part of it: a clone that was moved or copied must not use the old one's files.
everything="$(digest_of "$here"/*.sh "$here"/*/*) $lab"
if [ -f "$lab/ready" ] && [ "$(cat "$lab/ready")" = "$everything" ] && lab_env_is_whole && packages_present "${packages[@]}"; then
    exit 0
fi
rm -f "$lab/ready"
if [ -f "$lab/lab.env" ] && ! lab_env_is_whole; then
    say "a part of the lab is gone; making all of it again"
    rm -rf "$lab"/stamps/* "$lab/lab.env"
fi

[ "$(uname -m)" = x86_64 ] || cannot "the lab's kernels and firmware are for x86_64, and this machine is $(uname -m)"
command -v apt-get >/dev/null ||
    cannot "the lab is made of Debian packages, and apt-get is not here; run it on Debian 12 (a container will do)"

install_packages "${packages[@]}"
step qemu     "$here/qemu.sh"                              -- "$here/qemu.sh" "$lab/qemu"
step cloud    "$here/kernel.sh"                            -- "$here/kernel.sh" cloud "$lab/kernel/cloud"
step full     "$here/kernel.sh"                            -- "$here/kernel.sh" full "$lab/kernel/full"
step ramdisks "$here/ramdisk.sh" "$here"/ramdisk/* "$here"/instance/* "$lab/stamps/cloud" "$lab/stamps/full" -- "$here/ramdisk.sh" "$lab"
step disk     "$here/disk.sh" "$here"/disk/*               -- "$here/disk.sh" "$lab/disk"
step grub     "$here/grub.sh" "$here"/grub/*               -- "$here/grub.sh" "$lab/grub"
step signed   "$here/signed.sh"                            -- "$here/signed.sh" "$lab/signed"
step swift    "$here/swift.sh" "$here/openstack/requirements.txt" -- "$here/swift.sh" "$lab/openstack"
step keystone "$here/keystone.sh" "$here/openstack/run_keystone.py" "$lab/stamps/swift" -- "$here/keystone.sh" "$lab/openstack"
step oslo     "$here/oslo.sh" "$here"/oslo/*               -- "$here/oslo.sh" "$lab/oslo"
step bmc      "$here/bmc.sh" "$here"/bmc/*                 -- "$here/bmc.sh" "$lab/bmc"
step plugins  "$here/plugins.sh" "$here"/plugins/*         -- "$here/plugins.sh" "$lab/plugins"
step schemas  "$here/schemas.sh"                           -- "$here/schemas.sh" "$lab/schemas"
step nginx    "$here/nginx.sh" "$here"/nginx/*             -- "$here/nginx.sh"

cat > "$lab/lab.env.new" <<ENV
QEMU=$lab/qemu/usr/bin/qemu-system-x86_64
QEMU_DATA=$lab/qemu/usr/share/qemu:$lab/qemu/usr/share/seabios:$lab/qemu/usr/lib/ipxe/qemu
OVMF_CODE=/usr/share/OVMF/OVMF_CODE_4M.fd
OVMF_VARS=/usr/share/OVMF/OVMF_VARS_4M.fd
DEPLOY_KERNEL=$lab/kernel/full/vmlinuz
DEPLOY_RAMDISK=$lab/ramdisk/deploy-full.cpio.gz
DEPLOY_KERNEL_FULL=$lab/kernel/full/vmlinuz
DEPLOY_RAMDISK_FULL=$lab/ramdisk/deploy-full.cpio.gz
DEPLOY_KERNEL_CLOUD=$lab/kernel/cloud/vmlinuz
DEPLOY_RAMDISK_CLOUD=$lab/ramdisk/deploy-cloud.cpio.gz
INSTANCE_KERNEL=$lab/kernel/cloud/vmlinuz
INSTANCE_RAMDISK=$lab/ramdisk/instance.cpio.gz
ISOLINUX=/usr/lib/ISOLINUX/isolinux.bin
LDLINUX=/usr/lib/syslinux/modules/bios/ldlinux.c32
ISOLINUX_MBR=/usr/lib/ISOLINUX/isohdpfx.bin
GRUB_EFI=$lab/grub/BOOTX64.EFI
GRUB_BIOS=$lab/grub/eltorito.img
GRUB_BIOS_MBR=/usr/lib/grub/i386-pc/boot_hybrid.img
OVMF_CODE_SECURE=/usr/share/OVMF/OVMF_CODE_4M.secboot.fd
OVMF_VARS_SECURE=/usr/share/OVMF/OVMF_VARS_4M.ms.fd
SHIM_EFI_SIGNED=$lab/signed/shimx64.efi.signed
GRUB_EFI_SIGNED=$lab/signed/grubx64.efi.signed
OPENSTACK_PYTHON=$lab/openstack/venv/bin/python
KEYSTONE=$lab/openstack/keystone
NGINX=/usr/sbin/nginx
OSLO_PYTHON=$lab/oslo/bin/python
PLUGIN_WHEELS=$lab/plugins/wheels
PLUGIN_PYTHON=$lab/plugins/python/bin
PLUGIN_NPM_CACHE=$lab/plugins/npm-cache
PLUGIN_JS=$lab/plugins/js/node_modules/.bin
SUSHY_EMULATOR=$lab/bmc/bin/sushy-emulator
BMC_PYTHON=$lab/bmc/bin/python
REDFISH_SCHEMAS=$lab/schemas
DISK_IMAGE=$lab/disk/disk.img
DISK_IMAGE_SHA256=$(sha256sum "$lab/disk/disk.img" | cut -d' ' -f1)
ENV
mv "$lab/lab.env.new" "$lab/lab.env"
lab_env_is_whole || fail "a file that lab.env names is not there"

step boots "$here/boots.sh" "$lab/stamps/qemu" "$lab/stamps/disk" -- "$here/boots.sh" "$lab"
echo "$everything" > "$lab/ready"
say "ready: $lab/lab.env"
