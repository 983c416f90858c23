# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Where the store may be: what works and says truly whether its I/O is direct, what is refused and
# left as it was.
. tests/tools/mounts.sh
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

cleanup() { mounts_undo; }

prompt=(-m "$TMP/recall.gguf" --tokens "$TMP/ids" -n 4 --select 64 --budget 4M)

# works PLACE [OPTIONS]: with the logits of memory; $direct says whether the I/O is to be direct.
works() {
    run disk "${prompt[@]}" --store "$@"
    same_logits memory disk
    [ "$(value disk direct_io)" = "${direct:-true}" ] || fail "direct_io $(value disk direct_io): $(value disk direct_why)"
    [ "$(value disk io.records_read)" -gt 0 ] || fail "nothing was read"
    if [ "${direct:-true}" = false ]; then
        [ -n "$(value disk direct_why)" ] || fail "no reason is given"
        grep -qF "not direct: $(value disk direct_why)" "$TMP/disk.err" || fail "$(cat "$TMP/disk.err")"
    else
        grep -qE "by (io_uring|threads), direct" "$TMP/disk.err" || fail "$(cat "$TMP/disk.err")"
    fi
}

is_refused() {
    local pattern=$1
    shift
    refused "$pattern" "$KVSWAP" run "${prompt[@]}" --store "$@"
}

relative() {
    cd "$TMP"
    works name.kv
    [ ! -e name.kv ] || fail "the file stays"
    mkdir sub
    works sub/../sub/name.kv
    works ./sub
    [ -z "$(ls -A sub)" ] || fail "left behind: $(ls -A sub)"
}

by_default() {
    export XDG_CACHE_HOME=$TMP/cache
    run disk "${prompt[@]}"
    same_logits memory disk
    [ "$(value disk store)" = "$TMP/cache/kvswap" ] || fail "the store is $(value disk store)"
    [ "$(stat -c %a "$TMP/cache/kvswap")" = 700 ] || fail "mode $(stat -c %a "$TMP/cache/kvswap")"
    [ -z "$(ls -A "$TMP/cache/kvswap")" ] || fail "left behind: $(ls -A "$TMP/cache/kvswap")"
}

missing_parent() {
    is_refused "$TMP/none" "$TMP/none/name"
    is_refused "$TMP/none" "$TMP/none/"
    [ ! -e "$TMP/none" ] || fail "it was made"
}

no_store() {
    mkfifo "$TMP/fifo"
    is_refused "fifo" "$TMP/fifo"
    is_refused "character device" /dev/null
    echo "my thesis" >"$TMP/thesis"
    is_refused "thesis.*no store" "$TMP/thesis"
    [ "$(cat "$TMP/thesis")" = "my thesis" ] || fail "it is lost"
}

# As a user who may read the program and the model, and no more.
no_permission() {
    local as=()
    mkdir -p "$TMP/mine" "$TMP/closed"
    touch "$TMP/mine/name"
    chmod 600 "$TMP/mine/name"
    if [ "$(id -u)" = 0 ]; then
        as=(setpriv --reuid 65534 --regid 65534 --clear-groups)
        "${as[@]}" test -x "$KVSWAP" -a -r "$TMP/recall.gguf" || skip "another user cannot reach $KVSWAP"
    else
        chmod 500 "$TMP/closed" "$TMP/mine"
        chmod 400 "$TMP/mine/name"
    fi
    for place in "$TMP/closed" "$TMP/closed/name" "$TMP/mine/name"; do
        refused "${place%/closed/name}.*[Pp]ermission denied" "${as[@]}" "$KVSWAP" run "${prompt[@]}" --store "$place"
    done
    chmod 700 "$TMP/closed" "$TMP/mine"
    [ -z "$(ls -A "$TMP/closed")" ] || fail "left behind: $(ls -A "$TMP/closed")"
}

on_tmpfs() {
    mounted tmpfs none "$TMP/tmpfs" size=64M
    direct=false works "$TMP/tmpfs"
    direct=false works "$TMP/tmpfs/name"
}

on_overlay() {
    mkdir "$TMP/lower" "$TMP/upper" "$TMP/work"
    mounted overlay overlay "$TMP/overlay" "lowerdir=$TMP/lower,upperdir=$TMP/upper,workdir=$TMP/work"
    direct=false works "$TMP/overlay"
    direct=false works "$TMP/overlay/name"
}

on_ext4() {
    local direct
    small_disk ext4 64
    direct=$(loop_direct)
    works "$TMP/ext4"
    works "$TMP/ext4/name"
}

disk_file() {
    truncate -s 64M "$TMP/disk.$1"
    loop_device "$TMP/disk.$1" "$@"
}

# The kernel may take --direct-io=on and go on through the page cache.
on_device() {
    local direct
    disk_file "$@"
    direct=$(loop_direct)
    works "$device"
    works "$device" --backend threads
    run memory "${prompt[@]}" --kv memory --group 1
    works "$device" --group 1 --budget 8M # 512 bytes of a record
    [ "$(value disk settings.record_bytes)" = "$1" ] || fail "records of $(value disk settings.record_bytes) bytes"
    run memory "${prompt[@]}" --kv memory
    [ "$(value disk store)" = "$device" ] || fail "the store is $(value disk store)"
}

too_small() {
    truncate -s 64K "$TMP/tiny"
    loop_device "$TMP/tiny" 512
    is_refused "$device.* missing" "$device"
}

# Refused and left alone without --force; lost with it.
signed() {
    local direct sum
    disk_file 512
    direct=$(loop_direct)
    "$@" "$device" >/dev/null
    sync "$device"
    sum=$(sha256sum <"$TMP/disk.512")
    is_refused "$device.*signature" "$device"
    [ "$(sha256sum <"$TMP/disk.512")" = "$sum" ] || fail "the device was written to"
    works "$device" --force
}

# One partition of type Linux from sector 2048 on, 32768 sectors long.
partition_table() {
    {
        head -c 446 /dev/zero
        printf '\0\0\0\0\203\0\0\0\0\10\0\0\0\200\0\0'
        head -c 48 /dev/zero
        printf '\125\252'
    } >"$1"
}

mounted_device() {
    small_disk used 32
    echo precious >"$TMP/used/file"
    sync -f "$TMP/used/file"
    is_refused "$device.*mounted" "$device"
    [ "$(cat "$TMP/used/file")" = precious ] || fail "it is lost"
}

swap() {
    disk_file 4096
    mkswap -q "$device" >/dev/null || skip "no mkswap here"
    is_refused "$device.*signature" "$device"
}

# The second of two runs is refused, by force too, and the first one goes on.
two_runs() {
    local store=$1 rc=0
    : >"$TMP/out"
    "$KVSWAP" run -t 1 "${prompt[@]}" -n 3000 --select all --reuse 8 --test-delay 100 --store "$store" \
        >"$TMP/out" 2>"$TMP/err" &
    pid=$!
    trap 'kill -KILL $pid 2>/dev/null || :' EXIT
    for _ in {1..600}; do
        [ ! -s "$TMP/out" ] || break
        sleep 0.05
    done
    is_refused "$store.*in use" "$store"
    is_refused "$store.*in use" "$store" --force
    kill -0 $pid || fail "the first one has ended: $(cat "$TMP/err")"
    kill -INT $pid
    wait $pid || rc=$?
    [ $rc = 130 ] || fail "the first one ended with $rc: $(cat "$TMP/err")"
    works "$store"
}

two_runs_device() {
    local direct
    disk_file 512
    direct=$(loop_direct)
    two_runs "$device"
}

chmod 755 "$TMP"
recall_model
look_ups 1024 64 32 1 ids
chmod 644 "$TMP/recall.gguf" "$TMP/ids"
case_ "the reference, in memory" run memory "${prompt[@]}" --kv memory

case_ "a relative path, a directory" relative
case_ "the cache directory by default" by_default
case_ "a parent directory that is not there" missing_parent
case_ "what cannot hold a store or holds something else" no_store
case_ "a place without permission" no_permission
case_ "ext4" on_ext4
case_ "tmpfs: no direct I/O, and said" on_tmpfs
case_ "overlayfs: no direct I/O, and said" on_overlay
case_ "a device with sectors of 512 bytes" on_device 512 --direct-io=on
case_ "a device with sectors of 4096 bytes" on_device 4096 --direct-io=on
case_ "a device through the page cache" on_device 512 --direct-io=off
case_ "a device that is too small" too_small
case_ "a device with a file system" signed mkfs.ext4 -q
case_ "a device with partitions" signed partition_table
case_ "a device with swap space" swap
case_ "a device that is mounted" mounted_device
case_ "two runs on one file" two_runs "$TMP/shared.kv"
case_ "two runs on one device" two_runs_device
