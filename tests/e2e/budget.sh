# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The budget is a limit: what is held stays below it, by the report and seen from outside; too small
# a one is refused with the smallest that works; and the output is the same under every one.
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

deep() { run "$1" -m "$TMP/deep.gguf" --tokens "$TMP/ids" -n 8 "${@:2}"; }

within() {
    holds "$(value "$1" memory.kv_resident_peak_bytes) <= $2"
    holds "$(value "$1" memory.activation_bytes) <= 128 * 1024 * 1024"
    local sum=0 part
    for part in metadata slot rolling staging; do
        sum=$((sum + $(value "$1" memory.${part}_bytes)))
    done
    [ "$sum" = "$(value "$1" memory.kv_resident_peak_bytes)" ] || fail "the parts are $sum bytes"
}

# Works below the budget, or is refused.
kept() {
    local rc=0
    "$KVSWAP" run -t 1 -m "$TMP/deep.gguf" --tokens "$TMP/ids" -n 8 --budget "$1" --json \
        --logits "$TMP/run.f32" >"$TMP/run.json" 2>"$TMP/run.err" || rc=$?
    if [ $rc = 1 ] && [ "${2:-}" = may-refuse ]; then
        grep -q "smallest" "$TMP/run.err" || fail "$(cat "$TMP/run.err")"
        return 0
    fi
    [ $rc = 0 ] || fail "status $rc: $(cat "$TMP/run.err")"
    within run "$full * $1"
    same_logits memory run
}

smallest_of() { sed -n 's/.*--budget \([0-9]*\).*/\1/p' "$TMP/refused.err"; }

# refusal BUDGET OPTIONS: the smallest that is named works, one byte less does not.
refusal() {
    local budget=$1 smallest
    shift
    refused "budget.*smallest" "$KVSWAP" run -t 1 -m "$TMP/deep.gguf" --tokens "$TMP/ids" -n 8 --budget "$budget" "$@"
    smallest=$(smallest_of)
    [ -n "$smallest" ] || fail "no smallest budget named"
    deep smallest --budget "$smallest" "$@"
    within smallest "$smallest"
    refused "--budget $smallest\b" "$KVSWAP" run -t 1 -m "$TMP/deep.gguf" --tokens "$TMP/ids" -n 8 \
        --budget $((smallest - 1)) "$@"
}

# Anonymous memory beside what the report names: it does not grow with context or budget.
outside() {
    local n budget anon base first=
    for n in 1000 3000; do
        cut -d ' ' -f 1-$n "$TMP/ids" >"$TMP/ids$n"
        for budget in 3M 10M; do
            "$python" tests/tools/anon-peak.py "$TMP/anon" "$KVSWAP" run -m "$TMP/deep.gguf" --backend io_uring \
                --tokens "$TMP/ids$n" -n 32 -t 2 --budget $budget --json >"$TMP/run.json" 2>"$TMP/run.err" ||
                fail "$(cat "$TMP/run.err")"
            anon=$(cat "$TMP/anon")
            resident=$(value run memory.kv_resident_peak_bytes)
            base=$((anon - resident - $(value run memory.activation_bytes)))
            echo "$n tokens, $budget: $anon bytes seen, base $base, KV $resident"
            holds "$base >= 0 && $base <= 16 * 1024 * 1024"
            first=${first:-$base}
            holds "$base - $first <= 0.1 * $resident && $first - $base <= 0.1 * $resident"
        done
    done
}

batch() {
    run batch -m "$TMP/deep.gguf" --tokens "$TMP/ids1000" --tokens "$TMP/ids" -n 8 --budget 1/10
    within batch "$(value batch memory.budget_bytes)"
    holds "$(value batch memory.budget_bytes) <= $(value batch memory.kv_full_bytes) / 10"
}

random_model deep --layers 24 --heads 4 --kv-heads 2 --head-dim 64 --embd 64 --ff 64
awk 'BEGIN { srand(3); for (i = 0; i < 3000; i++) printf "%d ", 3 + int(256 * rand()) }' >"$TMP/ids"
cut -d ' ' -f 1-1000 "$TMP/ids" >"$TMP/ids1000"
full=$((3008 * 24 * 1024))

case_ "the reference, in memory" deep memory --kv memory
for part in 4 9 13; do case_ "a budget of 1/$part is kept" kept 1/$part; done
for part in 16 20 30 40; do case_ "a budget of 1/$part is kept or refused" kept 1/$part may-refuse; done
case_ "a refusal names the smallest budget that works" refusal 1/40
case_ "the smallest budget gives the same" same_logits memory smallest
case_ "a refusal names the smallest budget that works: all tokens" refusal 1/40 --select all
case_ "a refusal names the smallest budget that works: true scores" refusal 1/4 --predictor exact
case_ "a refusal names the smallest budget that works: low rank" refusal 1000 --predictor lowrank --group 16
case_ "memory seen from outside agrees with the report" outside
case_ "the budget is that of all sequences together" batch
