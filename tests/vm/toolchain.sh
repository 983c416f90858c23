#!/bin/sh
# SPDX-License-Identifier: MIT
#
# toolchain.sh COMMAND ARGS...: runs the command, in the current folder, with the compiler of Debian 13, which the newest
# kernels want. It lives in a folder of its own and sees the project and the kernels by bind mounts that end with the
# command. Needs root.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
top=$(cd "$here/../.." && pwd)
dir=$kernels/toolchain

if [ ! -e "$dir/done" ]; then
	have_tools debootstrap:debootstrap
	rm -rf "$dir"
	mkdir -p "$kernels"
	debootstrap --variant=minbase --include=gcc-14,gcc,make,kmod,pahole,libelf1t64,bc,xz-utils \
		trixie "$dir" http://deb.debian.org/debian > "$kernels/toolchain.log" 2>&1 ||
		die "no tool chain, see $kernels/toolchain.log"
	touch "$dir/done"
fi
mkdir -p "$dir$top" "$dir$kernels"
export top kernels dir
cwd=$(pwd)
export cwd
exec unshare -m sh -ec '
	mount --bind "$top" "$dir$top"
	mount --bind "$kernels" "$dir$kernels"
	mount -t proc proc "$dir/proc"
	exec chroot "$dir" sh -c "cd \"\$cwd\" && exec \"\$@\"" sh "$@"' sh "$@"
