#!/bin/sh
# SPDX-License-Identifier: MIT
#
# vmcheck.sh [KERNEL...]: for each kernel, builds the module, boots it in QEMU with NVMe and SD disks and runs the
# programs of tests/device. Ends with "N passed, N failed".
#   FUZZ  operations of the fuzzer on the debug kernels (200000)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
top=$here/../..
out=$top/build/vm
passed=0 failed=0 skipped=0

have_tools mkfs.ext4:e2fsprogs python3:python3 bc:bc make:make

# Programs of tests/device: all but those that others use.
tests=$(cd "$top/tests/device" && ls ./*.c | sed 's|^\./||; s|\.c$||' | grep -vxE 'dev|dm|pinned|unplug')

build_tests() {
	cc=${1}gcc
	mkdir -p "$out/$2"
	for t in $tests pinned unplug; do
		new=$(find "$top/tests/device" "$top/include/uapi" -newer "$out/$2/$t" -name '*.[ch]' 2> /dev/null | head -n 1)
		[ -e "$out/$2/$t" ] && [ -z "$new" ] && continue
		"$cc" -std=c11 -D_GNU_SOURCE -O2 -Wall -Wextra -Wshadow -Wmissing-prototypes -static -pthread \
			-o "$out/$2/$t" "$top/tests/device/$t.c" "$top/tests/device/dev.c" "$top/tests/device/dm.c"
	done
}

# The example of the manual page, as it stands there.
build_example() {
	sed -n '/example begin/,/example end/p' "$top/man/kvswap.4" | grep -v '^\.' | sed 's/\\en/\\n/' > "$out/example.c"
	"${1}gcc" -std=gnu11 -D_GNU_SOURCE -Wall -Wextra -static -I "$top/include/uapi" -o "$out/$2/example" "$out/example.c"
}

check() {
	name=$1
	"$here/module.sh" "$name" "$out"
	case $name in
	*arm64*) have_tools aarch64-linux-gnu-gcc:crossbuild-essential-arm64; arch=arm64 cross=aarch64-linux-gnu- ;;
	*) arch=$(uname -m) cross= ;;
	esac
	build_tests "$cross" "$arch"
	build_example "$cross" "$arch"
	mkdir -p "$out/$name"
	printf '%s\n' $tests "example /dev/kv512" > "$out/$name/tests"
	# More of it where mistakes show.
	case $name in
	uml | full) sed -i "s/^fuzz\$/fuzz ${FUZZ:-200000}/" "$out/$name/tests" ;;
	esac
	files=
	for t in $tests pinned example; do
		files="$files $out/$arch/$t"
	done
	truncate -s 64M "$out/$name/kvfs"
	mkfs.ext4 -q -F "$out/$name/kvfs"
	MODULES='dm_mod dm_flakey dm_delay null_blk' FSIMAGE=$out/$name/kvfs \
		"$here/boot.sh" "$name" "$here/suite" "$out/$name/kvswap.ko" "$out/$name/tests" $files > "$out/$name/log" 2>&1 ||
		echo "FAIL the guest did not come to its end, see build/vm/$name/log" >> "$out/$name/log"
	rm -f "$out/$name/kvfs"
	case $name in 6.1 | 6.12) "$here/unplug.sh" "$name" >> "$out/$name/log" ;; esac
	sed -n "/^\(ok\|skip\|FAIL\) /,\$p" "$out/$name/log" | grep -vE '^(KVSWAP JOB DONE|\[ *[0-9.]+\] reboot)' | sed "s/^/$name: /"
	passed=$((passed + $(grep -c '^ok ' "$out/$name/log" || true)))
	skipped=$((skipped + $(grep -c '^skip ' "$out/$name/log" || true)))
	failed=$((failed + $(grep -c '^FAIL ' "$out/$name/log" || true)))
	ran=$(grep -cE '^(ok|skip|FAIL) ' "$out/$name/log" || true)
	[ "$ran" -ge "$(wc -l < "$out/$name/tests")" ] || { echo "$name: FAIL not all tests ran"; failed=$((failed + 1)); }
}

for name in "${@:-6.1}"; do
	check "$name"
done
[ $skipped = 0 ] || echo "$skipped skipped"
echo "$passed passed, $failed failed"
[ $failed = 0 ]
