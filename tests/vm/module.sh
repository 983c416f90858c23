#!/bin/sh
# SPDX-License-Identifier: MIT
#
# module.sh KERNEL OUT: builds kvswap.ko for a kernel of kernel.sh into OUT/KERNEL/kvswap.ko.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
name=$1 out=$2
dir=$("$here/kernel.sh" "$name")

mkdir -p "$out/$name"
# The versions of newer kernels want a newer compiler than the machine may have: see toolchain.sh.
run=
case $name in newest) run=$here/toolchain.sh ;; esac
# shellcheck disable=SC2046
$run make -s -C "$here/../.." modules KDIR="$dir/build" KMOD_B="build/modules/$name" $(cat "$dir/env") \
	KFLAGS="CONFIG_DEBUG_INFO_BTF_MODULES=" > "$out/$name/build.log" 2>&1 || {
	cat "$out/$name/build.log" >&2
	die "the module does not build for $name"
}
cp "$here/../../build/modules/$name/kvswap.ko" "$out/$name/kvswap.ko"
