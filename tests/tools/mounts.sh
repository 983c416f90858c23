# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced before tests/e2e/lib.sh by the scripts that mount file systems and make loop devices, which
# then run in a mount namespace of their own, so that no mount outlives them. Where the machine
# allows neither, the cases that need it are skipped.

if [ -z "${KVS_PRIVATE_MOUNTS:-}" ] && unshare -m true 2>/dev/null; then
    KVS_PRIVATE_MOUNTS=1 exec unshare -m bash "$0" "$@"
fi
PATH=$PATH:/usr/sbin:/sbin

# mounted TYPE SOURCE DIRECTORY OPTIONS
mounted() {
    [ -n "${KVS_PRIVATE_MOUNTS:-}" ] || skip "no mount namespace here"
    mkdir -p "$3"
    mount -t "$1" -o "$4" "$2" "$3" 2>"$TMP/mount.err" || skip "no $1 can be mounted: $(tail -n 1 "$TMP/mount.err")"
    echo "$3" >>"$TMP/mounts"
}

# loop_device FILE SECTOR [OPTIONS]: $device, detached at the end of the script.
loop_device() {
    device=$(losetup --find --show --sector-size "$2" "${@:3}" "$1" 2>"$TMP/loop.err") ||
        skip "no loop device with sectors of $2 bytes: $(tail -n 1 "$TMP/loop.err")"
    echo "$device" >>"$TMP/loops"
    blockdev --setrw "$device" # whoever had it before may have set it read-only
}

# Whether a loop device reads its file by direct I/O, as the kernel says.
loop_direct() { [ "$(cat "/sys/block/${device#/dev/}/loop/dio")" = 1 ] && echo true || echo false; }

# Undoes what the cases did; the script calls it from its cleanup.
mounts_undo() {
    local at
    [ ! -e "$TMP/mounts" ] || while read -r at; do umount --lazy "$at"; done <"$TMP/mounts"
    [ ! -e "$TMP/loops" ] || while read -r at; do losetup --detach "$at"; done <"$TMP/loops"
}

# small_disk NAME MIB: an ext4 of its own at $TMP/NAME.
small_disk() {
    truncate -s "$2M" "$TMP/$1.img"
    command -v mkfs.ext4 >/dev/null || skip "no mkfs.ext4 here"
    mkfs.ext4 -q -m 0 "$TMP/$1.img"
    loop_device "$TMP/$1.img" 512 --direct-io=on
    mounted ext4 "$device" "$TMP/$1" noatime
}
