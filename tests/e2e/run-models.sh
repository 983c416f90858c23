# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Models that are not what they should be: one line that says why, exit 1, nothing else.
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

# no_good PATTERN [OPTIONS of random-gguf.py]
no_good() {
    local pattern=$1
    shift
    random_model bad "$@"
    refused "$pattern" "$KVSWAP" run -m "$TMP/bad.gguf" -p hello -n 1 -t 1 --kv dense
}

numbers() {
    no_good 'head_count is 0' --set attention.head_count=0
    no_good 'head_count_kv is 0' --set attention.head_count_kv=0
    no_good '4 heads are not a multiple of 3' --set attention.head_count_kv=3
    no_good 'head_dim is 3,' --set attention.key_length=3
    no_good 'head_dim is 1024' --set attention.key_length=1024
    no_good 'head_dim of V is 32' --set attention.value_length=32
    no_good 'RoPE over 32 of 64' --set rope.dimension_count=32
    no_good 'block_count is 1099511627776' --set block_count=1099511627776
    no_good 'block_count is 0' --set block_count=0
    no_good 'blk.3.attn_norm.weight is missing' --set block_count=4
    no_good 'embedding_length is 0' --set embedding_length=0
    no_good 'context_length is 0' --set context_length=0
    no_good 'expert' --set expert_count=8
    no_good 'must be 1 to' --set rope.freq_base=0.0
    no_good 'epsilon is not a floating' --set attention.layer_norm_rms_epsilon=1
}

tensors() {
    no_good 'blk.1.ffn_up.weight is missing' --drop blk.1.ffn_up.weight
    no_good 'token_embd.weight is missing' --drop token_embd.weight
    no_good 'output_norm.weight is missing' --drop output_norm.weight
    no_good 'attn_q_norm.weight is missing' --arch qwen3 --drop blk.0.attn_q_norm.weight
    no_good 'attn_q.weight is 256 x 256' --set attention.head_count=8
    no_good 'token_embd.weight is 256 x' --set embedding_length=512
    no_good '1 of its .* tensors are not of a qwen2 model' --arch qwen2 --rope-freqs
}

architectures() {
    no_good "architecture 'gpt2' is not supported" --arch gpt2
    no_good "architecture 'mamba' is not supported" --arch mamba
    no_good "architecture 'llama4' is not supported" --arch llama4
}

truncated() {
    local size share
    size=$(stat -c %s "$TMP/good.gguf")
    for share in 1 3 100 30000 $((size / 2)) $((size - 1)); do
        head -c "$share" "$TMP/good.gguf" >"$TMP/bad.gguf"
        refused 'bad.gguf: (not a whole GGUF|truncated)' "$KVSWAP" run -m "$TMP/bad.gguf" -p hello -n 1
    done
    head -c 100000 /dev/urandom >"$TMP/bad.gguf"
    refused 'not a whole GGUF' "$KVSWAP" run -m "$TMP/bad.gguf" -p hello -n 1
    : >"$TMP/bad.gguf"
    refused 'not a whole GGUF' "$KVSWAP" run -m "$TMP/bad.gguf" -p hello -n 1
}

# Bytes of the header changed at random, always the same ones: works or is refused, never worse.
damaged() {
    local rc
    random_model small --layers 2 --heads 2 --kv-heads 1 --head-dim 16 --ff 32
    for seed in $(seq 60); do
        "$python" -c 'import random, sys
r = random.Random(int(sys.argv[1]))
b = bytearray(open(sys.argv[2], "rb").read())
for _ in range(r.choice([1, 1, 2, 4])):
    at = r.randrange(4, 12000)
    b[at:at + 4] = r.choice([b"\0" * 4, b"\xff" * 4, b"\xff\xff\xff\x7f", bytes(r.randrange(256) for _ in range(4))])
open(sys.argv[3], "wb").write(b)' "$seed" "$TMP/small.gguf" "$TMP/bad.gguf"
        rc=0
        timeout 60 "$KVSWAP" run -m "$TMP/bad.gguf" -p hello -n 2 -t 1 --kv dense >/dev/null 2>"$TMP/err" || rc=$?
        [ $rc -le 1 ] || fail "seed $seed: status $rc: $(tail -n 3 "$TMP/err")"
    done
}

contexts() {
    random_model short --ctx 256
    refused 'a context of 300 is more than the 256' "$KVSWAP" run -m "$TMP/short.gguf" -p hello -n 4 -c 300
    run forced -m "$TMP/short.gguf" -p hello -n 4 -c 300 -t 1 --force
    grep -q 'warning: a context of 300' "$TMP/forced.err" || fail "no warning"
    random_model scaled --ctx 256 --rope-scaling linear --set rope.scaling.original_context_length=256
    run scaled -m "$TMP/scaled.gguf" -p hello -n 4 -c 1000 -t 1
    grep -q 'warning: a context of 1000' "$TMP/scaled.err" || fail "no warning"
    refused 'a context of 1025 is more than the 1024' "$KVSWAP" run -m "$TMP/scaled.gguf" -p hello -n 4 -c 1025
    run fits -m "$TMP/short.gguf" -p hello -n 246 -t 1
    ! grep -q warning "$TMP/fits.err" || fail "a warning where the context is just the model's"
}

random_model good
case_ "models: absurd numbers" numbers
case_ "models: tensors missing, of another shape, unknown" tensors
case_ "models: other architectures are refused by name" architectures
case_ "models: truncated, empty, no GGUF at all" truncated
case_ "models: a damaged header" damaged
case_ "models: a context longer than the model's" contexts
