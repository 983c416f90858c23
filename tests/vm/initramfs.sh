#!/bin/sh
# SPDX-License-Identifier: MIT
#
# initramfs.sh KERNEL_DIR ARCH JOB OUT [FILE...]: an initramfs with busybox, the modules that disks need and those of MODULES,
# ./init, JOB as /job and the FILEs in /t.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

dir=$1 arch=$2 job=$3 out=$4
shift 4
kver=$(cat "$dir/kver")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
have_tools cpio:cpio gzip:gzip modprobe:kmod /bin/busybox:busybox-static

# busybox for the guest's architecture.
busybox() {
	if [ $arch = amd64 ]; then
		cp /bin/busybox "$1"
		return
	fi
	deb=$kernels/busybox-$arch
	[ -e "$deb" ] || {
		APT_CONFIG=$kernels/apt/bookworm-$arch/conf
		export APT_CONFIG
		(cd "$tmp" && apt-get -qq download busybox-static && dpkg-deb -x busybox-static*.deb bb)
		cp "$tmp/bb/bin/busybox" "$deb"
	}
	cp "$deb" "$1"
}

# Modules with what they depend on, in loading order; those built in are passed over.
module_files() {
	for m in nvme ext4 loop virtio_pci 9pnet_virtio 9p sdhci_pci mmc_block ${MODULES:-}; do
		/sbin/modprobe -d "$dir/root" -S "$kver" --show-depends "$m" 2> /dev/null || true
	done | sed -n 's/^insmod \([^ ]*\).*/\1/p' | awk '!seen[$0]++'
}

root=$tmp/root
mkdir -p "$root/bin" "$root/t" "$root/mod" "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/share"
busybox "$root/bin/busybox"
ln -s busybox "$root/bin/sh"
: > "$root/mod/order"
module_files | while read -r m; do
	cp "$m" "$root/mod/"
	echo "${m##*/}" >> "$root/mod/order"
done
cp "$here/init" "$root/init"
cp "$job" "$root/job"
for f in "$@"; do
	cp -rL "$f" "$root/t/"
done
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$out"
