#!/bin/sh
# SPDX-License-Identifier: MIT
#
# boot.sh KERNEL JOB [FILE...]: boots the kernel in QEMU (software emulation), with FILEs in /t, and runs the script JOB
# in the guest, whose standard output becomes ours. Fails unless JOB comes to its end.
#   MODULES   to load (a list in the order of loading), beside what the disks need
#   FSIMAGE   an ext4 image, which becomes /dev/kvfs
#   SHARE     a folder that the guest sees at /share
#   QEMU_MORE more arguments for QEMU, APPEND more for the kernel
#   SECONDS_MAX  kill the guest after so long (900)
# Disks, found by serial number and linked to by the guest: /dev/kv512, /dev/kv4k (NVMe, by their sectors), /dev/kvsd (SD card),
# /dev/kvbad (sector 2048 cannot be read).
# DISKS=none leaves them out. CPUS=1 and ACPI=1 are for counting instructions: message-signalled interrupts, slower to boot.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

name=$1 job=$2
shift 2
dir=$("$here/kernel.sh" "$name")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM

case $name in
uml) arch=amd64 qemu=sh package=dash ;;
*arm64*) arch=arm64 qemu=qemu-system-aarch64 console=ttyAMA0 package=qemu-system-arm ;;
*) arch=amd64 qemu=qemu-system-x86_64 console=ttyS0 package=qemu-system-x86 ;;
esac
have_tools $qemu:$package

MODULES="${MODULES:-}" "$here/initramfs.sh" "$dir" $arch "$job" "$tmp/init.cpio.gz" "$@"

if [ "$name" = uml ]; then
	truncate -s 64M "$tmp/kv512"
	# shellcheck disable=SC2086
	timeout "${SECONDS_MAX:-900}" "$dir/kernel" mem="${MEMORY:-1024}M" initrd="$tmp/init.cpio.gz" con=null con0=fd:0,fd:1 \
		console=tty0 loglevel=4 panic=-1 ubd0="$tmp/kv512" ${FSIMAGE:+ubd1="$FSIMAGE"} ${APPEND:-} < /dev/null 2>&1 |
		stdbuf -oL tr -d '\r' | tee "$tmp/out"
	grep -q '^KVSWAP JOB DONE' "$tmp/out"
	exit
fi

set -- -smp "${CPUS:-2},sockets=${CPUS:-2},cores=1" -m "${MEMORY:-1024}" -nodefaults -nographic -no-reboot -serial stdio -kernel "$dir/kernel" \
	-initrd "$tmp/init.cpio.gz"
if [ $arch = arm64 ]; then
	set -- "$@" -M virt -cpu cortex-a76 -accel tcg,thread=multi
	plain=
else
	set -- "$@" -cpu max -accel tcg,thread=multi
	plain='no_timer_check acpi=off'
	[ -z "${ACPI:-}" ] || plain=no_timer_check
	# Debug kernels do not boot as vmlinux, and need more time for everything.
	[ "$name" != full ] || plain='no_timer_check hung_task_panic=0'
fi
if [ "${DISKS:-all}" != none ]; then
	truncate -s 64M "$tmp/kv512" "$tmp/kv4k"
	truncate -s 32M "$tmp/kvsd"
	set -- "$@" -drive "file=$tmp/kv512,if=none,id=d0,format=raw" -device nvme,drive=d0,serial=kv512 \
		-drive "file=$tmp/kv4k,if=none,id=d1,format=raw" \
		-device nvme,drive=d1,serial=kv4k,logical_block_size=4096,physical_block_size=4096 \
		-device sdhci-pci -drive "file=$tmp/kvsd,if=none,id=d2,format=raw" -device sd-card,drive=d2
	truncate -s 16M "$tmp/kvbad"
	printf '[inject-error]\nevent = "read_aio"\nerrno = "5"\nsector = "2048"\n' > "$tmp/bad.conf"
	set -- "$@" -drive "driver=raw,file.driver=blkdebug,file.config=$tmp/bad.conf,file.image.driver=file,file.image.filename=$tmp/kvbad,if=none,id=d5" \
		-device nvme,drive=d5,serial=kvbad
fi
[ -z "${FSIMAGE:-}" ] ||
	set -- "$@" -drive "file=$FSIMAGE,if=none,id=d3,format=raw" -device nvme,drive=d3,serial=kvfs
[ -z "${SHARE:-}" ] ||
	set -- "$@" -virtfs "local,path=$SHARE,mount_tag=host,security_model=none"

# shellcheck disable=SC2086
timeout "${SECONDS_MAX:-900}" $qemu "$@" ${QEMU_MORE:-} \
	-append "console=$console loglevel=4 panic=-1 ${plain} ${APPEND:-}" < /dev/null 2>&1 |
	stdbuf -oL tr -d '\r' | tee "$tmp/out"
grep -q '^KVSWAP JOB DONE' "$tmp/out"
