# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# kvswap-bench measures what it says: every side has its figures, the ratios are those of the figures, what cannot be
# measured is said. How fast anything is, is no question here.
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh
bench=$BUILD/kvswap-bench
steps=(--steps 4 --repeat 2)

# ratios FILE: each is the quotient of its sides, inside its quartiles' order, with the command that makes it.
ratios() {
    "$python" - "$1" <<'END'
import json, sys
run = json.load(open(sys.argv[1]))
assert run["ratios"], "no ratios"
for side in run["sides"]:
    assert side["median"] > 0 and side["low"] <= side["median"] <= side["high"], side
    assert min(side["values"]) <= side["median"] <= max(side["values"]), side
    assert len(side["cpu_ms"]) == len(side["values"]), side
for r in run["ratios"]:
    assert abs(r["value"] - r["a"] / r["b"]) <= 1e-4 * r["value"], r
    assert r["spread"] >= 0 and r["command"] == run["command"] and r["unit"], r
END
}

names() { "$python" -c 'import json, sys
print(*(r["name"] for r in json.load(open(sys.argv[1]))["ratios"]))' "$1"; }

recall_decode() {
    "$bench" decode -m "$TMP/recall.gguf" --tokens "$TMP/ids" -c 900 "${steps[@]}" --json "$@" >"$TMP/d.json"
    ratios "$TMP/d.json"
}

decode_measures_all_sides() {
    recall_decode
    [ "$(names "$TMP/d.json")" = "kv_full_over_resident decode_over_depth0 decode_over_llamacpp \
depth0_over_llamacpp disk_over_memory decode_over_dense" ] || fail "$(names "$TMP/d.json")"
    [ "$(json "$TMP/d.json" sides.0.name)" = 'kvswap disk, depth 900' ]
    [ "$(json "$TMP/d.json" depth)" = 900 ]
    holds "$(json "$TMP/d.json" memory.kv_resident_peak_bytes) <= $(json "$TMP/d.json" memory.budget_bytes)"
    holds "$(json "$TMP/d.json" selection.bytes_read_per_token) > 0"
    holds "$(json "$TMP/d.json" stages.attend) > 0"
}

# With threads there are more ways to run libllama, and its KV cache goes from one process to the others.
decode_tries_threads() {
    recall_decode -t 2
    grep -q 'waiting active' "$TMP/d.json" || fail 'no side waits actively'
    grep -q '"1 thread,' "$TMP/d.json" || fail 'no side has one thread'
}

decode_leaves_llama_out() {
    recall_decode --no-llama
    ! grep -q libllama "$TMP/d.json" || fail 'libllama was measured'
}

prefill_measures_all_sides() {
    "$bench" prefill -m "$TMP/recall.gguf" --tokens "$TMP/ids" -c 800 --repeat 2 --json >"$TMP/p.json"
    ratios "$TMP/p.json"
    [ "$(names "$TMP/p.json")" = 'prefill_over_llamacpp prefill_disk_over_dense' ] || fail "$(names "$TMP/p.json")"
}

io_reads_what_it_wrote() {
    local found
    "$bench" io --store "$TMP" --file 16M --record 8K --depth 4 --ms 50 --repeat 2 --json >"$TMP/i.json" 2>"$TMP/i.err"
    found=$(grep -o '"kvswap [a-z_]*"' "$TMP/i.json" | tr '\n' ' ')
    case $found in
    *'"kvswap io_uring" "kvswap threads"'*) ;;
    *) fail "only $found: $(cat "$TMP/i.err")" ;;
    esac
    if command -v fio >/dev/null; then
        ratios "$TMP/i.json"
        [ "$(names "$TMP/i.json")" = bandwidth_over_fio ]
    else
        grep -q 'fio: it is not installed' "$TMP/i.err" || fail "$(cat "$TMP/i.err")"
    fi
}

kernels() {
    "$bench" "$1" --tokens 2048 --select 256 --heads 6 --kv-heads 2 --head-dim 64 --repeat 2 "${@:2}" --json >"$TMP/k.json"
    ratios "$TMP/k.json"
}

# Not in a case's way: wrong usage ends with 2, what cannot be with 1, each with one line.
says() {
    local rc=0 want=$1 text=$2
    shift 2
    "$bench" "$@" >"$TMP/out" 2>"$TMP/err" || rc=$?
    [ $rc = "$want" ] || fail "status $rc: $(cat "$TMP/err")"
    [ "$(wc -l <"$TMP/err")" = 1 ] || fail "not one line: $(cat "$TMP/err")"
    [ ! -s "$TMP/out" ] || fail 'something on stdout'
    grep -q -e "$text" "$TMP/err" || fail "nothing of '$text': $(cat "$TMP/err")"
}

bad_input() {
    says 2 'is not a command' nonsense
    says 2 'no model' decode
    says 2 '--steps' decode -m "$TMP/recall.gguf" --steps 0
    says 2 'every kind' decode -m "$TMP/recall.gguf" --kv dense
    says 2 'is not an option' attend --nonsense
    says 2 'multiple of --kv-heads' attend --heads 5 --kv-heads 2 --tokens 1024
    says 2 'power of two' score --group 3
    says 2 'must hold' io --file 1M --record 1M --depth 2
    says 1 'the text has' decode -m "$TMP/recall.gguf" --tokens "$TMP/ids" -c 3000
    says 1 'cannot open\|No such file' decode -m "$TMP/nothing.gguf" --tokens "$TMP/ids"
}

# A side that dies ends the run; nothing of it stays.
side_that_dies() {
    local pid rc=0 side
    "$bench" decode -m "$TMP/recall.gguf" --tokens "$TMP/ids" -c 900 --steps 60 --repeat 2 >"$TMP/out" 2>"$TMP/err" &
    pid=$!
    for _ in $(seq 200); do
        side=$(pgrep -P $pid | head -n 1) && [ -n "$side" ] && break
        sleep 0.02
    done
    kill -KILL "$side"
    wait $pid || rc=$?
    [ $rc = 1 ] || fail "status $rc: $(cat "$TMP/err")"
    grep -q 'side has ended' "$TMP/err" || fail "$(cat "$TMP/err")"
    [ ! -s "$TMP/out" ] || fail 'figures of a run that failed'
    ! pgrep -P $pid || fail 'a side is still there'
}

recall_model && look_ups 1100 20 5 1 ids || exit 1
case_ 'bench: decode measures all sides' decode_measures_all_sides
case_ 'bench: decode tries threads and wait policies' decode_tries_threads
case_ 'bench: decode without libllama' decode_leaves_llama_out
case_ 'bench: prefill measures all sides' prefill_measures_all_sides
case_ 'bench: io reads what it wrote, against fio' io_reads_what_it_wrote
case_ 'bench: attend' kernels attend
case_ 'bench: attend with threads' kernels attend -t 2
case_ 'bench: score' kernels score
case_ 'bench: bad input is one line' bad_input
case_ 'bench: a side that dies ends the run' side_that_dies
