#!/bin/sh
# SPDX-License-Identifier: MIT
#
# bench.sh [KERNEL...]: instructions a record, the module against io_uring, counted in QEMU: build/bench/module.json, and on
# stdout both sides, the ratio and a table by layer. Every byte read is verified in the guest.
#   null  a store without content and with a latency long against a batch: one interrupt a batch. These are the figures.
#   data  a store with content, on which misdirected reads would show; interrupts as they come
#   file  a regular file on ext4
#   iommu as null, behind an IOMMU that translates
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
top=$here/../..
out=$top/build/vm/bench
latency_ns=8000000

have_tools gcc:gcc python3:python3 mkfs.ext4:e2fsprogs /usr/include/liburing.h:liburing-dev
mkdir -p "$out" "$top/build/bench"
cc="gcc -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wshadow"
$cc -shared -fPIC -o "$out/count.so" "$here/bench/count.c"
$cc -static -o "$out/records" "$here/bench/records.c" -luring

# count_in NAME JOB MACHINE APPEND: one boot, its results in out/NAME.
count_in() {
	run=$out/$1
	rm -rf "$run"
	mkdir -p "$run/out"
	truncate -s 64M "$run/data" "$run/file"
	truncate -s 16M "$run/map"
	mkfs.ext4 -q -F "$run/file"
	DISKS=none CPUS=1 ACPI=1 APPEND="nokaslr mitigations=off $4" SECONDS_MAX=600 QEMU_MORE="$3
		-plugin file=$out/count.so,map=$run/map,out=$run/out
		-drive file=$run/data,if=none,id=b0,format=raw -device nvme,drive=b0,serial=kvdata
		-drive driver=null-co,size=64M,latency-ns=$latency_ns,read-zeroes=on,if=none,id=b1
		-device nvme,drive=b1,serial=kvnull
		-drive file=$run/map,if=none,id=b2,format=raw -device nvme,drive=b2,serial=kvmap
		-drive file=$run/file,if=none,id=b3,format=raw -device nvme,drive=b3,serial=kvfile" \
		"$here/boot.sh" "$kernel-cloud" "$2" "$top/build/vm/$kernel-cloud/kvswap.ko" "$out/records" > "$run/log" 2>&1 ||
		{ tail -n 20 "$run/log" >&2; die "counting on $1 failed, see $run/log"; }
	rm -f "$run/data" "$run/file"
}

[ $# -gt 0 ] || set -- 6.1 6.12
for kernel in "$@"; do
	"$here/module.sh" "$kernel-cloud" "$top/build/vm"
	count_in "$kernel" "$here/bench/job" "" ""
	count_in "$kernel-iommu" "$here/bench/job-iommu" "-M q35 -device intel-iommu" "intel_iommu=on iommu=nopt"
done
python3 "$here/bench/count.py" "$out" "$top/build/bench/module.json"
