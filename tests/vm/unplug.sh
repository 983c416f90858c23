#!/bin/sh
# SPDX-License-Identifier: MIT
#
# unplug.sh KERNEL: takes an NVMe disk out of the running guest while the module reads and writes it. vmcheck.sh has built
# what it needs. Prints one line as the suite does.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
name=${1:-6.1}
out=$here/../../build/vm
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

truncate -s 64M "$tmp/hot"
python3 "$here/qmp-unplug.py" "$tmp/qmp" "$tmp/log" hot &
helper=$!
DISKS=none ACPI=1 MODULES='pciehp' QEMU_MORE="-M q35 -global ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off
	-qmp unix:$tmp/qmp,server=on,wait=off -device pcie-root-port,id=port0,slot=1
	-drive file=$tmp/hot,if=none,id=h0,format=raw -device nvme,drive=h0,serial=kvhot,bus=port0,id=hot" \
	SECONDS_MAX=200 "$here/boot.sh" "$name" "$here/unplug-job" "$out/$name/kvswap.ko" "$out/$(uname -m)/unplug" \
	"$out/$(uname -m)/pinned" > "$tmp/log" 2>&1 || echo "FAIL unplug: the guest did not come to its end" >> "$tmp/log"
kill "$helper" 2> /dev/null || true
cp "$tmp/log" "$out/$name/unplug.log"
grep -E '^(ok|FAIL) unplug' "$tmp/log" || echo "FAIL unplug: no result, see build/vm/$name/unplug.log"
