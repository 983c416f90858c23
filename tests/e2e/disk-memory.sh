# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# From disk the logits are those from memory, bit for bit, whatever the backend, the number of
# slots and the timing; with --select all they are those of full attention.
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

vocab=0 # of the model that a case runs

# same PROMPT... -- SETTINGS: memory against both backends, each on time and late.
same() {
    local prompt=()
    while [ "$1" != -- ]; do
        prompt+=("$1")
        shift
    done
    shift
    run memory "${prompt[@]}" --kv memory "$@"
    for backend in io_uring threads; do
        for delay in ${delays:-0 200}; do
            run disk "${prompt[@]}" --kv disk --backend $backend --test-delay $delay "$@"
            [ "$(value disk backend)" = $backend ] || fail "backend $(value disk backend)"
            holds "$(value disk io.records_read) >= ${reads:-100}"
            same_logits memory disk
        done
    done
    holds "$(stat -c %s "$TMP/disk.f32") == 4 * $(value disk generated_tokens) * $vocab"
}

recall() { vocab=1024 same -m "$TMP/recall.gguf" --tokens "$TMP/ids" -n 12 -- "$@"; }
windows() { vocab=320 same -m "$TMP/windows.gguf" -f "$TMP/short" -n 12 -- "$@"; }
smollm() {
    local m
    m=$(model smollm2-135m)
    vocab=49152 delays=100 same -m "$m" -f "$TMP/long" -n 6 -- "$@"
}

# Two sequences at once, one of them longer.
batch() {
    local i
    for where in memory disk; do
        run $where -m "$TMP/recall.gguf" --tokens "$TMP/ids" --tokens "$TMP/ids2" -n 12 --kv $where \
            --budget 4M --select 64
    done
    for i in 0 1; do cmp "$TMP/memory.f32.$i" "$TMP/disk.f32.$i"; done
}

slots() {
    run all -m "$TMP/recall.gguf" --tokens "$TMP/ids" -n 24 --kv memory --select 128
    for reuse in 1 2 3 24 170; do
        run some -m "$TMP/recall.gguf" --tokens "$TMP/ids" -n 24 --select 128 --reuse $reuse --budget 8M
        [ "$(value some settings.reuse)" = $reuse ] || fail "$(value some settings.reuse) slots instead of $reuse"
        same_logits all some
    done
}

# Decode attends to the same tokens in the same order of summation; prefill is another path.
all_is_dense() {
    run dense "$@" --kv dense --logits-all --stepwise
    run all "$@" --kv disk --select all --budget 16M --logits-all --stepwise
    near dense all "$vocab" 1e-4 --min-top1 0.99
    run dense "$@" --kv dense --logits-all
    run all "$@" --kv disk --select all --logits-all
    near dense all "$vocab" 1e-4 --min-top1 0.99
}

recall_all() { vocab=1024 all_is_dense -m "$TMP/recall.gguf" --tokens "$TMP/ids" -n 1; }
windows_all() { vocab=320 all_is_dense -m "$TMP/windows.gguf" -f "$TMP/short" -n 1; }
smollm_all() {
    local m
    m=$(model smollm2-135m)
    vocab=49152 all_is_dense -m "$m" -f "$TMP/brief" -n 1
}

recall_model
random_model windows --arch gemma3 --window 100 --pattern 2 --layers 4 --heads 4 --kv-heads 1
look_ups 1500 64 32 1 ids
look_ups 1100 64 32 2 ids2
text 1200 short
text 3000 long
text 900 brief

case_ "disk equals memory: defaults" recall
case_ "disk equals memory: all tokens" recall --select all
case_ "disk equals memory: 128 tokens in groups of 8, 24 slots" recall --select 128 --group 8 --reuse 24 --budget 4M
reads=30 case_ "disk equals memory: groups of 64, 3 slots" recall --select 256 --group 64 --reuse 3 --budget 4M
case_ "disk equals memory: groups of 1" recall --select 100 --group 1
case_ "disk equals memory: low rank" recall --predictor lowrank --select 100
case_ "disk equals memory: true scores" recall --predictor exact --select 100 --budget 4M
case_ "disk equals memory: averaged logits, other windows" recall --reduce mean --recent 64 --sinks 0 --select 100
case_ "disk equals memory: the estimate alone selects" recall --no-correct --select 100
case_ "disk equals memory: twice as much read ahead, 2 threads" recall --ahead 200 --select 200 --budget 4M -t 2
case_ "disk equals memory: synchronous write-back" recall --profile emmc --select 100
case_ "disk equals memory: two sequences" batch
case_ "disk equals memory: layers with a window" windows --select 64
case_ "disk equals memory: SmolLM2" smollm --budget 6M --select 128
case_ "the number of slots changes nothing" slots
case_ "all tokens selected is full attention" recall_all
case_ "all tokens selected is full attention: layers with a window" windows_all
case_ "all tokens selected is full attention: SmolLM2" smollm_all
