#!/bin/sh
# SPDX-License-Identifier: MIT
#
# kernel.sh NAME: fetches a Debian kernel with its headers once and prints the folder where it is kept:
#   kver      its release            kernel    what QEMU boots
#   build     headers to build for   root/     the unpacked packages, modules with their dependency list
#   env       ARCH, CROSS_COMPILE, CC and the like for make
# Nothing is installed on the machine but the tools that are missing.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/common.sh"

name=${1:?usage: kernel.sh NAME}
arch=amd64 flavour=amd64 env=
case $name in
uml | full)	exec "$here/debug-kernel.sh" "$name" ;;
5.10)		suite=bullseye pattern='5\.10\.0-[0-9]+' ;;
6.1)		suite=bookworm pattern='6\.1\.0-[0-9]+' ;;
6.1-cloud)	suite=bookworm pattern='6\.1\.0-[0-9]+' flavour=cloud-amd64 ;;
6.1-arm64)	suite=bookworm pattern='6\.1\.0-[0-9]+' arch=arm64 flavour=arm64 ;;
6.12)		suite=bookworm pattern='6\.12\.[0-9]+\+deb12' ;;
6.12-cloud)	suite=bookworm pattern='6\.12\.[0-9]+\+deb12' flavour=cloud-amd64 ;;
6.12-arm64-16k)	suite=bookworm pattern='6\.12\.[0-9]+\+deb12' arch=arm64 flavour=arm64-16k ;;
newest)		suite=sid pattern='[7-9]\.[0-9]+(\.[0-9]+)?\+deb[0-9]+' ;;
*)		die "no kernel named $name" ;;
esac
dir=$kernels/$name
if [ -e "$dir/done" ]; then
	echo "$dir"
	exit
fi

exec 3>&1 >&2
[ $arch = arm64 ] && env='ARCH=arm64 CROSS_COMPILE=aarch64-linux-gnu-'
# Built with a compiler of a name that is not there.
case $suite in bullseye | sid) env='CC=gcc' ;; esac

apt_conf() {
	apt=$kernels/apt/$suite-$arch
	mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
	keys=/usr/share/keyrings/debian-archive-keyring.gpg
	src="deb [signed-by=$keys] http://deb.debian.org/debian"
	echo "$src $suite main" > "$apt/sources.list"
	case $suite in
	sid) ;;
	bullseye) echo "$src-security bullseye-security main" >> "$apt/sources.list" ;;
	*) echo "$src-security $suite-security main" >> "$apt/sources.list" ;;
	esac
	cat > "$apt/conf" <<-CONF
		Dir::Etc::sourcelist "$apt/sources.list";
		Dir::Etc::sourceparts "-";
		Dir::State::lists "$apt/lists";
		Dir::State::status "/dev/null";
		Dir::Cache "$apt/cache";
		APT::Architecture "$arch";
		APT::Architectures { "$arch"; };
		APT::Sandbox::User "root";
		Acquire::Languages "none";
	CONF
	export APT_CONFIG=$apt/conf
	apt-get -qq update
}

newest() {
	apt-cache pkgnames "$1" | grep -E "$2" | sort -V | tail -n 1
}

needed() {
	apt-cache depends "$1" | sed -n 's/^ *Depends: //p' | grep -E "$2" || true
}

fetch() {
	image=$(newest linux-image- "^linux-image-$pattern-$flavour-unsigned\$")
	[ -n "$image" ] || image=$(newest linux-image- "^linux-image-$pattern-$flavour\$")
	[ -n "$image" ] || die "no package for kernel $name in $suite"
	kver=${image#linux-image-}
	kver=${kver%-unsigned}
	common=$(needed "linux-headers-$kver" '^linux-headers-.*-common')
	kbuild=$(needed "linux-headers-$kver" '^linux-kbuild')
	mods=$(needed "$image" '^linux-(modules|binary)')
	mkdir -p "$dir/deb" "$dir/root"
	(cd "$dir/deb" && apt-get -qq download "$image" $mods "linux-headers-$kver" "$common")
	# The programs that build modules are the host's.
	if [ $arch = arm64 ]; then
		(arch=amd64; apt_conf; cd "$dir/deb" && apt-get -qq download "$kbuild")
	else
		(cd "$dir/deb" && apt-get -qq download "$kbuild")
	fi
	for deb in "$dir"/deb/*.deb; do
		dpkg-deb -x "$deb" "$dir/root"
	done
	rm -r "$dir/deb"
}

# Modules uncompressed and indexed, headers that find each other where they are.
arrange() {
	root=$dir/root
	if [ -d "$root/usr/lib/modules" ]; then
		mkdir -p "$root/lib"
		ln -sfn ../usr/lib/modules "$root/lib/modules"
	fi
	find "$root"/lib/modules/ -name '*.ko.xz' -exec xz -d {} +
	/sbin/depmod -b "$root" "$kver"
	find "$root"/usr/src/linux-headers-*/ -maxdepth 1 -name Makefile \
		-exec sed -i "s#\(^\|[ =]\)/usr/src/#\1$root/usr/src/#" {} +
	find "$root/usr/src/" -maxdepth 2 -type l | while read -r link; do
		to=$(readlink "$link")
		case $to in /usr/*) ln -sfn "$root$to" "$link" ;; esac
	done
	ln -sfn "$root/usr/src/linux-headers-$kver" "$dir/build"
	echo "$kver" > "$dir/kver"
	echo "$env" > "$dir/env"
	image=$root/boot/vmlinuz-$kver
	[ -e "$image" ] || image=$root/usr/lib/modules/$kver/vmlinuz
	python3 "$here/vmlinux.py" "$image" "$dir/kernel"
}

have_tools apt-get:apt dpkg-deb:dpkg xz:xz-utils depmod:kmod zstd:zstd
rm -rf "$dir"
mkdir -p "$kernels"
apt_conf
fetch
arrange
touch "$dir/done"
echo "$dir" >&3
