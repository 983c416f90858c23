#!/bin/sh
# SPDX-License-Identifier: MIT
#
# boot.sh KERNEL JOB [FILE...]: boots the kernel in QEMU (software emulation), with FILEs in /t, and runs the script JOB
# in the guest, whose standard output becomes ours. Fails unless JOB comes to its end.
#   MODULES   to load (a list in the order of loading), beside what the disks need
#   SHARE     a folder that the guest sees at /share
#   QEMU_MORE more arguments for QEMU, APPEND more for the kernel
#   SECONDS_MAX  kill QEMU after so long (300)
# Disks, found by serial number and linked to by the guest: /dev/kv512, /dev/kv4k (NVMe, by their sectors), /dev/kvsd (SD card).
# DISKS=none leaves them out. CPUS=1 and ACPI=1 are for counting instructions: message-signalled interrupts, slower to boot.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

name=$1 job=$2
shift 2
dir=$("$here/kernel.sh" "$name")
kver=$(cat "$dir/kver")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM

case $name in
*arm64*) arch=arm64 qemu=qemu-system-aarch64 console=ttyAMA0 package=qemu-system-arm ;;
*) arch=amd64 qemu=qemu-system-x86_64 console=ttyS0 package=qemu-system-x86 ;;
esac
have_tools $qemu:$package cpio:cpio gzip:gzip modprobe:kmod /bin/busybox:busybox-static

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
module_files | while read -r m; do
	cp "$m" "$root/mod/"
	echo "${m##*/}" >> "$root/mod/order"
done
cp "$here/init" "$root/init"
cp "$job" "$root/job"
for f in "$@"; do
	cp -rL "$f" "$root/t/"
done
(cd "$root" && find . | cpio -o -H newc --quiet | gzip -1) > "$tmp/init.cpio.gz"

set -- -smp "${CPUS:-2},sockets=${CPUS:-2},cores=1" -m "${MEMORY:-1024}" -nodefaults -nographic -no-reboot -serial stdio -kernel "$dir/kernel" \
	-initrd "$tmp/init.cpio.gz"
if [ $arch = arm64 ]; then
	set -- "$@" -M virt -cpu cortex-a76 -accel tcg,thread=multi
	plain=
else
	set -- "$@" -cpu max -accel tcg,thread=multi
	plain='no_timer_check acpi=off'
	[ -z "${ACPI:-}" ] || plain=no_timer_check
fi
if [ "${DISKS:-all}" != none ]; then
	truncate -s 64M "$tmp/kv512" "$tmp/kv4k"
	truncate -s 32M "$tmp/kvsd"
	set -- "$@" -drive "file=$tmp/kv512,if=none,id=d0,format=raw" -device nvme,drive=d0,serial=kv512 \
		-drive "file=$tmp/kv4k,if=none,id=d1,format=raw" \
		-device nvme,drive=d1,serial=kv4k,logical_block_size=4096,physical_block_size=4096 \
		-device sdhci-pci -drive "file=$tmp/kvsd,if=none,id=d2,format=raw" -device sd-card,drive=d2
fi
[ -z "${SHARE:-}" ] ||
	set -- "$@" -virtfs "local,path=$SHARE,mount_tag=host,security_model=none"

# shellcheck disable=SC2086
timeout "${SECONDS_MAX:-300}" $qemu "$@" ${QEMU_MORE:-} \
	-append "console=$console loglevel=4 panic=-1 ${plain} ${APPEND:-}" < /dev/null 2>&1 |
	tr -d '\r' | tee "$tmp/out"
grep -q '^KVSWAP JOB DONE' "$tmp/out"
