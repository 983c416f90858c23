#!/bin/sh
# SPDX-License-Identifier: MIT
#
# debug-kernel.sh uml|full: builds a kernel from Debian's linux-source-6.1 that looks for mistakes, once, and prints the
# folder where it is kept, laid out as kernel.sh does it.
#   uml   User-Mode Linux with KASAN, lockdep, kmemleak and fault injection (about 7 minutes on two cores)
#   full  x86-64 for QEMU with the same, atomic-sleep and RCU checks, UBSAN (about 20 minutes)
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"
kind=${1:?usage: debug-kernel.sh uml|full}
dir=$kernels/$kind
src=$kernels/source-6.1
if [ -e "$dir/done" ]; then
	echo "$dir"
	exit
fi

exec 3>&1 >&2
have_tools flex:flex bison:bison bc:bc gcc:gcc make:make xz:xz-utils /usr/include/libelf.h:libelf-dev \
	/usr/include/openssl/opensslv.h:libssl-dev

common='64BIT MODULES MODULE_UNLOAD BLK_DEV_INITRD BLOCK PROC_FS SYSFS DEVTMPFS TMPFS DEBUG_FS BINFMT_ELF BINFMT_SCRIPT PRINTK
	FUTEX EPOLL SIGNALFD TIMERFD EVENTFD AIO IO_URING SHMEM MULTIUSER UNIX NET POSIX_TIMERS FILE_LOCKING EXT4_FS BLK_DEV_LOOP MD
	BLK_DEV_DM DM_DELAY DM_FLAKEY BLK_DEV_NULL_BLK CONFIGFS_FS BLK_DEV_ZONED PROC_PAGE_MONITOR
	EXPERT DEBUG_KERNEL KALLSYMS KALLSYMS_ALL STACKTRACE
	KASAN DEBUG_KMEMLEAK DEBUG_LIST DEBUG_SPINLOCK DEBUG_MUTEXES PROVE_LOCKING DEBUG_OBJECTS DEBUG_OBJECTS_WORK
	DEBUG_OBJECTS_TIMERS SLUB_DEBUG DEBUG_VM BUG
	FAULT_INJECTION FAILSLAB FAIL_PAGE_ALLOC FAIL_MAKE_REQUEST FAULT_INJECTION_DEBUG_FS TRACEPOINTS FTRACE'
case $kind in
uml)
	make='make ARCH=um'
	target=linux
	symbols="$common BLK_DEV_UBD STDERR_CONSOLE HOSTFS"
	;;
full)
	make='make ARCH=x86_64'
	target=bzImage
	symbols="$common SMP PCI TTY SERIAL_8250 SERIAL_8250_CONSOLE BLK_DEV_NVME MMC MMC_BLOCK MMC_SDHCI MMC_SDHCI_PCI
		VIRTIO_MENU VIRTIO_PCI NET_9P NET_9P_VIRTIO 9P_FS PREEMPT DEBUG_ATOMIC_SLEEP PROVE_RCU UBSAN UBSAN_BOUNDS
		UBSAN_SHIFT DEBUG_PREEMPT SCHED_DEBUG DETECT_HUNG_TASK HIGH_RES_TIMERS ACPI KASAN_INLINE CGROUPS BLK_CGROUP"
	;;
*) die "no debug kernel named $kind" ;;
esac

source_get() {
	[ -e "$src/done" ] && return
	rm -rf "$src"
	mkdir -p "$src"
	(cd "$src" && apt-get -qq download linux-source-6.1 && dpkg-deb -x linux-source-6.1*.deb . &&
		tar xf usr/src/linux-source-6.1.tar.xz --strip-components=1 && rm -rf usr linux-source-6.1*.deb)
	touch "$src/done"
}

configure() {
	cd "$src"
	$make O="$dir/build" tinyconfig
	for s in $symbols; do
		scripts/config --file "$dir/build/.config" -e "$s"
	done
	scripts/config --file "$dir/build/.config" -d SLOB -e SLUB -d COMPILE_TEST -d WERROR -d MODVERSIONS
	[ "$kind" = uml ] || scripts/config --file "$dir/build/.config" --set-val NR_CPUS 4
	$make O="$dir/build" olddefconfig
	for s in MODULES KASAN PROVE_LOCKING DEBUG_KMEMLEAK FAILSLAB FAIL_PAGE_ALLOC FAIL_MAKE_REQUEST EXT4_FS DM_DELAY BLK_DEV_NULL_BLK; do
		grep -q "^CONFIG_$s=[ym]" "$dir/build/.config" || die "the kernel's configuration lacks $s"
	done
}

source_get
rm -rf "$dir"
mkdir -p "$dir/build" "$dir/root"
{
	configure
	cd "$src"
	nice $make O="$dir/build" -j"$(nproc)" $target modules
	$make O="$dir/build" INSTALL_MOD_PATH="$dir/root" modules_install
} > "$dir/log" 2>&1 || { tail -n 20 "$dir/log"; die "the kernel did not build, see $dir/log"; }
cat "$dir/build/include/config/kernel.release" > "$dir/kver"
if [ "$kind" = uml ]; then
	ln -sf build/linux "$dir/kernel"
	echo ARCH=um > "$dir/env"
else
	ln -sf build/arch/x86/boot/bzImage "$dir/kernel"
	echo > "$dir/env"
fi
touch "$dir/done"
echo "$dir" >&3
