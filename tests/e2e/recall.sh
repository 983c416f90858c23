# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The recall model finds what stands thousands of tokens back: with all of the KV cache, and with
# the little that a predictor selects.
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

prompts="1 2"

# share NAME: of the look-ups of all prompts that succeed.
share() {
    local p args=()
    for p in $prompts; do args+=("$TMP/$1.$p.f32" "$TMP/ids$p.answers"); done
    gguf_python tests/tools/look-ups.py 1024 "${args[@]}"
}

# asked NAME OPTIONS: every position's logits, all tokens by decode.
asked() {
    local p
    for p in $prompts; do
        run "$1.$p" -m "$TMP/recall.gguf" --tokens "$TMP/ids$p" -n 0 --logits-all --stepwise "${@:2}"
    done
}

dense() {
    asked dense --kv dense
    holds "$(share dense) >= 0.98"
}

sparse() {
    asked sparse --kv memory "$@"
    echo "dense $(share dense), $*: $(share sparse)"
    holds "$(share sparse) >= $(share dense) - 0.02"
}

# 400 of 4,096 tokens in groups of 8, with nothing said: what README tells.
by_default() {
    asked default --kv memory
    echo "dense $(share dense), default: $(share default)"
    holds "$(share default) >= 0.93"
}

# What has to be looked up is out of reach for the newest tokens: the figures above mean something.
window() {
    asked window --kv memory --predictor window --select 400
    holds "$(share window) <= 0.1"
}

on_disk() {
    local prompts=1
    asked memory --kv memory --predictor lowrank --select 100
    asked disk --kv disk --predictor lowrank --select 100 --budget 3M
    same_logits memory.1 disk.1
    holds "$(value disk.1 io.records_read) >= 1000"
}

decode_is_prefill() {
    run prefill -m "$TMP/recall.gguf" --tokens "$TMP/ids1" -n 0 --logits-all --kv dense
    near prefill dense.1 1024 1e-3 --min-top1 0.99
    run decode -m "$TMP/recall.gguf" --tokens "$TMP/ids1" -n 0 --logits-all --stepwise --select all --budget 16M
    near prefill decode 1024 1e-3 --min-top1 0.99
}

recall_model
for p in $prompts; do look_ups 4096 256 256 "$p" "ids$p"; done

case_ "512 look-ups at 4096 tokens, dense" dense
case_ "look-ups with 400 of 4096 tokens: the defaults" by_default
case_ "look-ups with 400 of 4096 tokens: means of 2 tokens" sparse --group 2
case_ "look-ups with 100 of 4096 tokens: low rank" sparse --predictor lowrank --select 100
case_ "look-ups with 100 of 4096 tokens: true scores" sparse --predictor exact --select 100
case_ "look-ups fail with the newest tokens alone" window
case_ "look-ups from disk" on_disk
case_ "decode token by token equals prefill" decode_is_prefill
