# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What goes wrong in the store while a run uses it ends the run, in bounded time, with one line that
# says what; nothing wrong is attended to and nothing that others could read is left behind.
. tests/tools/mounts.sh
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

cleanup() { mounts_undo; }

record=4096 # bytes of a record of the recall model: 8 tokens
all=(--select all --reuse 8 --budget 4M --test-delay 50)

# start STORE IDS OPTIONS: a run that has come to $ready and is stopped there; $pid.
ready=(has "$TMP/out")
start() {
    local store=$1 ids=$2
    shift 2
    : >"$TMP/out"
    "$KVSWAP" run -t 1 -m "$TMP/recall.gguf" --tokens "$TMP/$ids" -n 3000 --store "$store" \
        --logits "$TMP/logits" "$@" >"$TMP/out" 2>"$TMP/err" &
    pid=$!
    trap 'kill -KILL $pid 2>/dev/null || :' EXIT
    comes_to "${ready[@]}"
    kill -STOP $pid
}

has() { [ -s "$1" ]; }

comes_to() {
    for _ in {1..600}; do
        ! "$@" || return 0
        kill -0 $pid 2>/dev/null || fail "the run has ended: $(cat "$TMP/err")"
        sleep 0.05
    done
    fail "not within 30 s: $*"
}

killed() {
    kill -KILL $pid
    wait $pid || :
}

# ends PATTERN [SECONDS]: goes on, and ends in time, with status 1 and one line that matches.
ends() {
    local pattern=$1 rc=0 i
    kill -CONT $pid
    for ((i = 0; i < 20 * ${2:-30}; i++)); do
        kill -0 $pid 2>/dev/null || break
        sleep 0.05
    done
    ! kill -0 $pid 2>/dev/null || fail "still running after ${2:-30} s: $(cat "$TMP/err")"
    wait $pid || rc=$?
    cat "$TMP/err"
    [ $rc = 1 ] || fail "status $rc instead of 1"
    [ "$(wc -l <"$TMP/err")" = 1 ] || fail "not one line"
    grep -qE -- "$pattern" "$TMP/err" || fail "nothing of '$pattern'"
    [ ! -e "$TMP/logits" ] || fail "logits of a failed run were kept"
}

damaged='layer [01], tokens [0-9]+ to [0-9]+: the record read from .* does not match its checksum'

# flip FILE FIRST LAST: one bit in the middle of each of these records.
flip() {
    "$python" - "$@" $record <<'END'
import sys
first, last, size = map(int, sys.argv[2:])
with open(sys.argv[1], "r+b") as f:
    for record in range(first, last + 1):
        at = record * size + size // 2 + 1
        f.seek(at)
        byte = f.read(1)[0]
        f.seek(at)
        f.write(bytes([byte ^ 16]))
END
}

# Layer, first and last token that the last line names.
names() { sed -nE 's/.*layer ([0-9]+), tokens ([0-9]+) to ([0-9]+).*/\1 \2 \3/p' "$TMP/err"; }

# The names follow the records: the next one of the same layer holds the next tokens.
one_bit() {
    local layer first last
    start "$TMP/store" ids "${all[@]}"
    flip "$TMP/store" 10 10
    ends "$damaged"
    read -r layer first last < <(names)
    [ "$((last - first)) $((first % 8))" = "7 0" ] || fail "no record has tokens $first to $last"
    start "$TMP/store" ids "${all[@]}"
    flip "$TMP/store" 11 11
    ends "$damaged"
    [ "$(names)" = "$layer $((first + 8)) $((last + 8))" ] || fail "the next record is named $(names)"
}

# The prompt goes in chunks, over records that are read back.
prefill() {
    ready=(first_chunk_written)
    start "$TMP/store" long --budget 2M --test-delay 3000
    flip "$TMP/store" 0 31
    ends "$damaged"
}
first_chunk_written() {
    [ -e "$TMP/store" ] && head -c $((48 * record)) "$TMP/store" | tail -c 16 | tr -d '\0' | grep -q .
}

swapped() {
    local i
    start "$TMP/store" ids "${all[@]}"
    for i in 20 23; do dd if="$TMP/store" of="$TMP/$i" bs=$record skip=$i count=1 status=none; done
    ! cmp -s "$TMP/20" "$TMP/23" || fail "the records are the same"
    dd if="$TMP/23" of="$TMP/store" bs=$record seek=20 conv=notrunc status=none
    dd if="$TMP/20" of="$TMP/store" bs=$record seek=23 conv=notrunc status=none
    ends "$damaged"
}

zeroed() {
    start "$TMP/store" ids "${all[@]}"
    dd if=/dev/zero of="$TMP/store" bs=$record count=64 conv=notrunc status=none
    ends "$damaged"
}

# The same model, settings and places: only the tokens are others.
another_run() {
    start "$TMP/other" ids2 "${all[@]}"
    killed
    start "$TMP/store" ids "${all[@]}"
    cmp -n $record "$TMP/other" "$TMP/store" && fail "both stores begin alike"
    dd if="$TMP/other" of="$TMP/store" bs=64K conv=notrunc status=none
    ends "$damaged"
}

# Selected groups only: what is never read is nobody's loss, what is read is checked.
sparse() {
    start "$TMP/store" ids --select 64 --budget 4M --reuse 8 --test-delay 50
    flip "$TMP/store" 0 255
    ends "$damaged"
}

threads() {
    start "$TMP/store" ids "${all[@]}" --backend threads
    flip "$TMP/store" 10 10
    ends "$damaged"
}

truncated() {
    start "$TMP/store" ids "${all[@]}"
    truncate -s $((8 * record)) "$TMP/store"
    ends "layer [01], tokens [0-9]+ to [0-9]+: reading from $TMP/store: "
}

# What is written after it makes the file long again, with a hole.
truncated_prefill() {
    ready=(first_chunk_written)
    start "$TMP/store" long --budget 2M --test-delay 3000
    truncate -s $((8 * record)) "$TMP/store"
    ends "$damaged|layer [01], tokens [0-9]+ to [0-9]+: reading from $TMP/store: "
}

# A device that turns bad: the file below it loses what is read.
device_fails() {
    truncate -s 64M "$TMP/disk"
    loop_device "$TMP/disk" 512
    start "$device" ids "${all[@]}"
    truncate -s $((8 * record)) "$TMP/disk"
    ends "layer [01], tokens [0-9]+ to [0-9]+: reading from $device: "
}

# A thin device without room for what is written back.
thin_device() {
    mounted tmpfs none "$TMP/thin" size=2M
    truncate -s 64M "$TMP/thin/disk"
    loop_device "$TMP/thin/disk" 512
    ready=(true)
    start "$device" long --budget 4M
    ends "layer [01], tokens [0-9]+ to [0-9]+: writing to $device: (Input/output error|No space left)"
}

# A file system that holds every write back for longer than is allowed.
stalled() {
    small_disk frozen 64
    command -v fsfreeze >/dev/null || skip "no fsfreeze here"
    start "$TMP/frozen/store" ids --select 64 --budget 4M --io-timeout 1
    SECONDS=0
    fsfreeze --freeze "$TMP/frozen" || skip "cannot be frozen"
    (
        sleep 6
        fsfreeze --unfreeze "$TMP/frozen"
    ) &
    kill -CONT $pid
    comes_to has "$TMP/err"
    [ $SECONDS -lt 5 ] || fail "said after $SECONDS s"
    ends 'does not answer: a request took longer than 1000 ms'
}

no_room() {
    refused "no room for a store of .* free, .* missing" "$KVSWAP" run -m "$TMP/recall.gguf" \
        --tokens "$TMP/long" -n 8 --budget 4M --store "$1"
    [ -z "$(find "$2" -type f)" ] || fail "left behind: $(find "$2" -type f)"
}

no_room_ext4() {
    small_disk small 4
    no_room "$TMP/small" "$TMP/small"
    no_room "$TMP/small/name" "$TMP/small"
}

no_room_tmpfs() {
    mounted tmpfs none "$TMP/tiny" size=2M
    no_room "$TMP/tiny" "$TMP/tiny"
    no_room "$TMP/tiny/name" "$TMP/tiny"
}

kill_unnamed() {
    mkdir "$TMP/dir"
    start "$TMP/dir" ids "${all[@]}"
    [ -z "$(ls -A "$TMP/dir")" ] || fail "it has a name: $(ls -A "$TMP/dir")"
    killed
    [ -z "$(ls -A "$TMP/dir")" ] || fail "left behind: $(ls -A "$TMP/dir")"
}

# Others cannot read what stays, and the next run takes it over and removes it.
kill_named() {
    local rc=0
    start "$TMP/kept" ids "${all[@]}"
    killed
    [ "$(stat -c %a "$TMP/kept")" = 600 ] || fail "mode $(stat -c %a "$TMP/kept")"
    if [ "$(id -u)" = 0 ]; then
        setpriv --reuid 65534 --regid 65534 --clear-groups head -c 1 "$TMP/kept" >"$TMP/byte" 2>/dev/null || rc=$?
        [ "$rc $(stat -c %s "$TMP/byte")" = "1 0" ] || fail "another user reads it"
    fi
    run again -m "$TMP/recall.gguf" --tokens "$TMP/ids" -n 4 --store "$TMP/kept" --budget 4M
    run memory -m "$TMP/recall.gguf" --tokens "$TMP/ids" -n 4 --kv memory
    same_logits memory again
    [ ! -e "$TMP/kept" ] || fail "still there"
}

chmod 755 "$TMP"
recall_model
look_ups 1024 64 32 1 ids
look_ups 1024 64 32 2 ids2
look_ups 4096 64 32 3 long

case_ "a flipped bit is noticed, and named" one_bit
case_ "a flipped bit is noticed by the threads backend" threads
case_ "flipped bits are noticed where few groups are read" sparse
case_ "flipped bits are noticed while a prompt is read" prefill
case_ "two records that changed places are noticed" swapped
case_ "a store full of zeros is noticed" zeroed
case_ "a store of another run is noticed" another_run
case_ "a truncated store is noticed" truncated
case_ "a store truncated while a prompt is read is noticed" truncated_prefill
case_ "a device that cannot be read ends the run" device_fails
case_ "a device that cannot be written ends the run" thin_device
case_ "a store that does not answer ends the run" stalled
case_ "a full ext4 is refused, and nothing is left in it" no_room_ext4
case_ "a full tmpfs is refused, and nothing is left in it" no_room_tmpfs
case_ "kill -9 leaves no unnamed store" kill_unnamed
case_ "kill -9 leaves a named store to nobody else" kill_named
