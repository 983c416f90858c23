#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kvswapctl: what it says of storage, models and settings, and that bad input is one line and exit 1.

# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
ctl=$BUILD/kvswapctl

# refused STATUS TEXT COMMAND...: ends with it, and one line on stderr that has TEXT.
refused() {
    local status=$1 text=$2 rc=0
    shift 2
    "$@" >"$TMP/out" 2>"$TMP/err" || rc=$?
    [ "$rc" = "$status" ] || fail "'$*' ended with $rc, not $status: $(cat "$TMP/err")"
    [ "$(wc -l <"$TMP/err")" = 1 ] || fail "'$*' said: $(cat "$TMP/err")"
    grep -qF -e "$text" "$TMP/err" || fail "'$*' said: $(cat "$TMP/err"), without '$text'"
    [ ! -s "$TMP/out" ] || fail "'$*' wrote to stdout: $(head -c 200 "$TMP/out")"
}

made_file() { head -c "$2" /dev/urandom >"$TMP/$1" && sync "$TMP/$1"; }

probe_reads_a_file() {
    local before
    made_file data 33554432
    before=$(sha256sum "$TMP/data")
    "$ctl" probe "$TMP/data" --seconds 1 --json >"$TMP/p.json"
    [ "$before" = "$(sha256sum "$TMP/data")" ] || fail "the file has changed"
    [ "$(json "$TMP/p.json" measured)" = "$TMP/data" ]
    holds "$(json "$TMP/p.json" reads.0.iops) > 0"
    holds "$(json "$TMP/p.json" reads.0.p99_us) >= $(json "$TMP/p.json" reads.0.p50_us)"
    [ "$(json "$TMP/p.json" reads.48.bytes)" = 262144 ]
    [ "$(json "$TMP/p.json" reads.48.depth)" = 64 ]
    [ "$(json "$TMP/p.json" writes)" = '[]' ]
    "$ctl" probe "$TMP/data" --seconds 1 | grep -q '256 KiB'
}

probe_is_bounded() {
    made_file data 33554432
    SECONDS=0
    "$ctl" probe "$TMP/data" --seconds 60 --bytes 16M --json >"$TMP/p.json"
    [ $SECONDS -le 40 ] || fail "took $SECONDS s for 16 MiB"
    "$python" - "$TMP/p.json" <<'P'
import json, sys
p = json.load(open(sys.argv[1]))
total = sum(c["bytes"] * c["ios"] for c in p["reads"])
least = sum(c["bytes"] * 16 for c in p["reads"])
assert total <= (16 << 20) + least, total
P
}

probe_directory_and_scratch() {
    mkdir "$TMP/dir"
    made_file dir/data 8388608
    "$ctl" probe "$TMP/dir" --seconds 0.5 --json >"$TMP/p.json"
    [ -n "$(json "$TMP/p.json" measured)" ]
    "$ctl" probe "$TMP/dir" --scratch "$TMP/dir" --scratch-size 32M --seconds 0.5 --json >"$TMP/p.json"
    holds "$(json "$TMP/p.json" writes.0.mib_s) > 0"
    holds "$(json "$TMP/p.json" mixed.0.iops) > 0"
    [ "$(ls "$TMP/dir")" = data ] || fail "left behind: $(ls "$TMP/dir")"
    "$ctl" probe "$TMP/dir" --scratch "$TMP/new" --scratch-size 32M --seconds 0.5 >/dev/null
    [ ! -e "$TMP/new" ] || fail "the scratch file is still there"
    refused 1 data "$ctl" probe "$TMP/dir" --scratch "$TMP/dir/data" --scratch-size 32M
    [ "$(stat -c %s "$TMP/dir/data")" = 8388608 ]
}

probe_refuses() {
    mkfifo "$TMP/fifo"
    : >"$TMP/empty"
    refused 1 'character device' "$ctl" probe /dev/zero
    refused 1 'a fifo' "$ctl" probe "$TMP/fifo"
    refused 1 'No such file' "$ctl" probe /nonexistent
    refused 1 'too few to measure' "$ctl" probe "$TMP/empty"
    refused 2 'not an empty one' "$ctl" probe ''
    refused 2 'takes one path' "$ctl" probe
    refused 2 'must be 0.1 to 3600' "$ctl" probe . --seconds 0
    refused 2 'must be a size' "$ctl" probe . --bytes 1X
    refused 2 'needs a value' "$ctl" probe . --bytes
    refused 2 'not an option' "$ctl" probe . --nonsense
}

probe_ends_on_interrupt() {
    local pid rc=0
    made_file data 33554432
    "$ctl" probe "$TMP/data" --seconds 60 >/dev/null 2>&1 &
    pid=$!
    sleep 1
    kill -TERM $pid
    wait $pid || rc=$?
    [ $rc = 143 ] || fail "ended with $rc"
}

loop_device() {
    loop=   # seen by the trap, which runs outside of this function
    [ "$(id -u)" = 0 ] || skip "loop devices take root"
    truncate -s 64M "$TMP/disk"
    loop=$(losetup -f --show "$TMP/disk") || skip "no loop device to be had here"
    blockdev --setrw "$loop"   # an earlier user may have left it read-only
    trap 'losetup -d "$loop"' EXIT
    "$ctl" probe "$loop" --look --json >"$TMP/p.json"
    [ "$(json "$TMP/p.json" stack.0.what)" = loop ]
    grep -q 'losetup --direct-io=on' "$TMP/p.json"
    "$ctl" probe "$loop" --seconds 0.5 --json >"$TMP/p.json"
    holds "$(json "$TMP/p.json" reads.0.iops) > 0"
    "$ctl" probe "$loop" --scratch "$loop" --scratch-size 32M --seconds 0.5 --json >"$TMP/p.json"
    holds "$(json "$TMP/p.json" writes.0.iops) > 0"
    mkswap "$loop" >/dev/null
    refused 1 signature "$ctl" probe "$loop" --scratch "$loop" --scratch-size 32M
    blkid -p "$loop" | grep -q swap || fail "the signature is gone"
    "$ctl" probe "$loop" --scratch "$loop" --scratch-size 32M --seconds 0.5 --force >/dev/null
}

calc_by_hand() {
    "$ctl" calc --layers 24 --kv-heads 2 --head-dim 64 -c 32768 --json >"$TMP/c.json"
    [ "$(json "$TMP/c.json" kv_bytes)" = 402653184 ]
    [ "$(json "$TMP/c.json" kv_bytes_per_token)" = 12288 ]
    "$ctl" calc --layers 32 --kv-heads 8 --head-dim 128 -c 32768 --batch 8 --json >"$TMP/c.json"
    [ "$(json "$TMP/c.json" kv_bytes)" = $((32 << 30)) ]
    [ "$(json "$TMP/c.json" kvswap.kv_resident_bytes)" -le $(((32 << 30) / 13)) ]
    "$ctl" calc --layers 32 --kv-heads 8 --head-dim 128 -c 32768 --kv-type q8 --json >"$TMP/c.json"
    [ "$(json "$TMP/c.json" kv_bytes)" = $(((4 << 30) * 17 / 32)) ]
    refused 2 'no model' "$ctl" calc
    refused 2 'no context' "$ctl" calc --layers 1 --kv-heads 1 --head-dim 64
    refused 2 'must be f16' "$ctl" calc --layers 1 --kv-heads 1 --head-dim 64 -c 100 --kv-type f8
    refused 1 'head_dim 20' "$ctl" calc --layers 1 --kv-heads 1 --head-dim 20 -c 100
    made_file rubbish 1000
    refused 1 'not a whole GGUF' "$ctl" calc -m "$TMP/rubbish"
}

# A device of 10,000 reads a second at depth 1 and 80,000 at 64, or SHARE of it.
made_probe() {
    "$python" - "$1" "$2" "$(hostname)" >"$3" <<'P'
import json, sys
share = float(sys.argv[1])
reads = [{"bytes": b, "depth": d, "iops": share * min(10000 * d, 80000, (2 << 30) / b), "cpu_us": 2,
          "mib_s": share * min(b * 10000 * d, b * 80000, 2 << 30) / (1 << 20), "p50_us": 100, "p99_us": 100 * d}
         for b in (4096, 16384, 65536, 262144) for d in (1, 8, 64)]
print(json.dumps({"format": int(sys.argv[2]), "host": sys.argv[3], "path": "", "device": "/dev/made-up",
                  "kind": "nvme", "direct_io": True, "logical_block": 512, "reads": reads, "writes": []}))
P
}

plan_follows_the_storage() {
    local m
    m=$(model smollm2-135m)
    made_probe 1 1 "$TMP/fast.json"
    made_probe 0.002 1 "$TMP/slow.json"
    "$ctl" plan -m "$m" -c 4096 --budget 1/8 --device "$TMP/fast.json" -t 1 -o "$TMP/plan.json" --json >"$TMP/q.json"
    cmp "$TMP/plan.json" "$TMP/q.json"
    [ "$(json "$TMP/q.json" memory.kv_resident_bytes)" -le $((4096 * 23040 / 8)) ]
    "$python" - "$TMP/q.json" <<'P'
import json, sys
q = json.load(open(sys.argv[1]))
e = q["expected"]
assert abs(sum(e["stages"].values()) - e["ms_per_step"]) < 0.01 * e["ms_per_step"]
assert abs(1000 / e["ms_per_step"] - e["tokens_per_s"]) < 0.01 * e["tokens_per_s"]
assert e["stages"]["compute"] > 0 and e["stages"]["score"] > 0 and e["stages"]["attend"] > 0
assert q["settings"]["group"] in (4, 8, 16, 32, 64)
P
    "$ctl" plan -m "$m" -c 4096 --budget 1/8 --device "$TMP/slow.json" -t 1 --json >"$TMP/r.json"
    holds "$(json "$TMP/r.json" expected.tokens_per_s) < $(json "$TMP/q.json" expected.tokens_per_s)"
    case $(json "$TMP/r.json" expected.binding) in
    storage* | memory) ;;
    *) fail "a device of 20 reads a second does not bind: $(json "$TMP/r.json" expected.binding)" ;;
    esac
    grep -q 'the storage is too slow' "$TMP/r.json"
    "$ctl" plan -m "$m" -c 4096 --budget 1/8 --device "$TMP/plan.json" -t 1 | grep -q 'tokens/s'
}

plan_says_wrong_tool() {
    local m
    m=$(model smollm2-135m)
    made_probe 0.05 1 "$TMP/p.json"
    "$ctl" plan -m "$m" -c 512 --budget 1/2 --device "$TMP/p.json" -t 1 >"$TMP/out"
    grep -q 'wrong tool.*hardly longer' "$TMP/out"
}

plan_refuses() {
    local m
    m=$(model smollm2-135m)
    made_probe 1 1 "$TMP/p.json"
    refused 2 'no model' "$ctl" plan
    refused 1 'the smallest for this context' "$ctl" plan -m "$m" -c 4096 --budget 1M --device "$TMP/p.json" -t 1
    head -c 300 "$TMP/p.json" >"$TMP/cut.json"
    refused 1 'cut short' "$ctl" plan -m "$m" --device "$TMP/cut.json"
    made_probe 1 999 "$TMP/new.json"
    refused 1 'newer version' "$ctl" plan -m "$m" --device "$TMP/new.json"
    sed 's/"host": "[^"]*"/"host": "elsewhere"/' "$TMP/p.json" >"$TMP/other.json"
    refused 1 'measured on elsewhere' "$ctl" plan -m "$m" --device "$TMP/other.json"
    echo '{"format": 1}' >"$TMP/none.json"
    refused 1 'no measured reads' "$ctl" plan -m "$m" --device "$TMP/none.json"
    refused 1 'No such file' "$ctl" plan -m /nonexistent --device "$TMP/p.json"
}

tune_goes_on_and_keeps_the_defaults_where_they_win() {
    local m pid rc=0 args
    m=$(model smollm2-135m)
    made_probe 1 1 "$TMP/p.json"
    args=(-m "$m" -f tests/data/moby_dick.txt -c 640 --budget 1/2 -t 1 --device "$TMP/p.json" -o "$TMP/t.json")
    refused 2 'tune wants' "$ctl" tune -m "$m"
    "$ctl" tune "${args[@]}" -s 600 >"$TMP/out" 2>"$TMP/err" &
    pid=$!
    for _ in $(seq 600); do
        [ ! -e "$TMP/t.json.trials" ] || break
        kill -0 $pid || fail "ended early: $(cat "$TMP/err")"
        sleep 0.1
    done
    kill -TERM $pid   # the shell has its background jobs ignore SIGINT
    wait $pid || rc=$?
    [ $rc = 143 ] || fail "ended with $rc: $(cat "$TMP/err")"
    [ ! -e "$TMP/t.json" ] || fail "a profile of a search that was cut short"
    cp "$TMP/t.json.trials" "$TMP/before"
    refused 1 'of another model' "$ctl" tune "${args[@]}" --budget 1/3
    "$ctl" tune "${args[@]}" -s 1 >"$TMP/out"
    [ ! -e "$TMP/t.json.trials" ] || fail "the trials are still there"
    "$python" - "$TMP/before" "$TMP/t.json" <<'P'
import json, sys
before, profile = (json.load(open(p)) for p in sys.argv[1:])
tuned = profile["tuned"]
assert tuned["trials"][0]["coverage"] == before["trials"][0]["coverage"]
assert tuned["tokens_per_s"] >= tuned["default_tokens_per_s"] > 0
assert tuned["coverage"] >= tuned["default_coverage"] - 0.01
assert profile["settings"]["group"] in [t["group"] for t in tuned["trials"]]
P
    "$ctl" plan -m "$m" -c 1024 --budget 1/2 -t 1 --device "$TMP/t.json" >/dev/null
}

metrics_are_prometheus() {
    "$ctl" metrics >"$TMP/m"
    grep -q '^kvswap_sessions [0-9]' "$TMP/m"
    awk '/^# (HELP|TYPE) kvswap_[a-z_]+ ./ || /^kvswap_[a-z_]+(\{[a-z_]+="[^"]*"(,[a-z_]+="[^"]*")*\})? [0-9.e+-]+$/ { next }
        { print; bad = 1 } END { exit bad }' "$TMP/m" || fail "not Prometheus' text format"
    if command -v promtool >/dev/null; then
        promtool check metrics <"$TMP/m"
    fi
    mkdir -p "$TMP/none"
    [ "$("$ctl" metrics --dir "$TMP/none" | grep '^kvswap_sessions')" = 'kvswap_sessions 0' ]
}

watching_without_sessions() {
    mkdir -p "$TMP/none"
    "$ctl" top --dir "$TMP/none" -n 1 -s 0.1 | grep -q 'no session runs'
    "$ctl" doctor --dir "$TMP/none" --store "$TMP" --json >"$TMP/d.json"
    [ "$(json "$TMP/d.json" findings.0.what)" = sessions ]
    "$ctl" doctor --dir "$TMP/none" --store "$TMP" | tail -n 1 | grep -q 'warnings$'
    "$ctl" status | grep -q '^device     /dev/kvswap'
    "$ctl" status --json >"$TMP/s.json"
    json "$TMP/s.json" loaded
}

load_explains() {
    [ ! -e /sys/module/kvswap ] || skip "the module is loaded here"
    made_file rubbish.ko 1000
    refused 1 'cannot load' "$ctl" load -f "$TMP/rubbish.ko"
    refused 2 'NAME=VALUE' "$ctl" load nonsense
    "$ctl" unload 2>&1 | grep -q 'not loaded'
}

plot_draws() {
    made_probe 1 1 "$TMP/p.json"
    echo '{"x": 1}' >"$TMP/x.json"
    refused 1 'nothing to draw' "$ctl" plot "$TMP/x.json"
    refused 2 '.svg or .png' "$ctl" plot "$TMP/p.json" -o "$TMP/p.gif"
    command -v gnuplot >/dev/null || {
        refused 1 'gnuplot' "$ctl" plot "$TMP/p.json"
        skip "no gnuplot here"
    }
    "$ctl" plot "$TMP/p.json"
    grep -q '</svg>' "$TMP/p.svg"
    "$ctl" plot "$TMP/p.json" -o "$TMP/p.png"
    [ "$(head -c 4 "$TMP/p.png" | tail -c 3)" = PNG ]
    [ "$(cd "$TMP" && ls ./*.new 2>/dev/null)" = '' ]
}

help_and_completion() {
    local command commands
    commands=$("$ctl" --help | sed -n 's/^  \([a-z]*\) .*/\1/p')
    for command in probe calc plan tune load unload status top metrics doctor plot; do
        echo "$commands" | grep -qx $command || fail "$command is not in --help"
        "$ctl" $command --help | grep -q "^  kvswapctl $command" || fail "$command --help has no example"
    done
    for command in $commands; do
        grep -q "^\.[A-Z]* *\"*$command" man/kvswapctl.8 || fail "$command is not in the man page"
    done
    refused 2 'not a command' "$ctl" nonsense
    "$ctl" --version | grep -q '^kvswapctl [0-9]'
    (
        export PATH=$BUILD:$PATH
        # shellcheck source=tools/kvswapctl/kvswapctl.bash
        . tools/kvswapctl/kvswapctl.bash
        COMP_WORDS=(kvswapctl 'do')
        COMP_CWORD=1
        _kvswapctl
        [ "${COMPREPLY[*]}" = doctor ] || fail "completes 'do' by '${COMPREPLY[*]}'"
        COMP_WORDS=(kvswapctl probe --sc)
        COMP_CWORD=2
        _kvswapctl
        [ "${COMPREPLY[*]}" = '--scratch --scratch-size' ] || fail "completes '--sc' by '${COMPREPLY[*]}'"
    )
}

case_ "kvswapctl probe reads a file and leaves it alone" probe_reads_a_file
case_ "kvswapctl probe keeps to its bounds" probe_is_bounded
case_ "kvswapctl probe of a directory, with a scratch" probe_directory_and_scratch
case_ "kvswapctl probe refuses what is no storage" probe_refuses
case_ "kvswapctl probe ends on a signal" probe_ends_on_interrupt
case_ "kvswapctl probe on a loop device" loop_device
case_ "kvswapctl calc of a shape given by hand" calc_by_hand
case_ "kvswapctl plan follows the storage" plan_follows_the_storage
case_ "kvswapctl plan says when kvswap is the wrong tool" plan_says_wrong_tool
case_ "kvswapctl plan refuses bad profiles and budgets" plan_refuses
case_ "kvswapctl tune goes on after it was interrupted" tune_goes_on_and_keeps_the_defaults_where_they_win
case_ "kvswapctl metrics in Prometheus' text format" metrics_are_prometheus
case_ "kvswapctl top, doctor and status without sessions" watching_without_sessions
case_ "kvswapctl load explains a refusal" load_explains
case_ "kvswapctl plot" plot_draws
case_ "kvswapctl help, man page and completion" help_and_completion
