# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Models of random weights, in shapes that no model at hand has: the logits are libllama's. Weights
# are f32, so that nothing but the order of summation and f16 K and V is between the two.
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

# matches MODEL OPTIONS: prefill, decode token by token and libllama, over 700 positions.
matches() {
    local model=$TMP/model.gguf
    random_model model "$@"
    "$BUILD/tests/llama_logits" "$model" "$TMP/ids" "$TMP/llama.f32"
    run ours -m "$model" --tokens "$TMP/ids" -n 0 --logits-all --kv dense -t 1
    near llama ours 320 1e-4 --min-top1 0.98
    run stepwise -m "$model" --tokens "$TMP/ids" -n 0 --logits-all --kv dense -t "${threads:-1}" --stepwise
    near ours stepwise 320 1e-4 --min-top1 0.98
}

# Ids of the 256 byte tokens, the same for each run.
awk 'BEGIN { x = 7; for (i = 0; i < 700; i++) { x = (x * 1103515245 + 12345) % 2147483648; print 3 + int(x / 65536) % 256 } }' >"$TMP/ids"

case_ "llama" matches
threads=2 case_ "llama: two threads" matches --seed 2
case_ "llama: separate output, biases" matches --separate-output --bias
case_ "llama: frequencies of its own" matches --rope-freqs
case_ "llama: linear RoPE scaling" matches --rope-scaling linear --ctx 1024
case_ "llama: YaRN" matches --rope-scaling yarn --ctx 1024
case_ "llama: heads of 48, 3 to a KV head" matches --head-dim 48 --heads 6 --kv-heads 2
case_ "llama: heads of 128, every head its own KV" matches --head-dim 128 --heads 2 --kv-heads 2
case_ "llama: heads wider than the model" matches --head-dim 128 --heads 4 --embd 192
case_ "llama: f16 weights" matches --type f16
case_ "qwen2" matches --arch qwen2
case_ "qwen2: separate output, 7 heads to a KV head" matches --arch qwen2 --separate-output --heads 14 --kv-heads 2
case_ "qwen2: YaRN" matches --arch qwen2 --rope-scaling yarn --ctx 1024 --rope-base 1000000
case_ "qwen3" matches --arch qwen3
case_ "qwen3: heads wider than the model" matches --arch qwen3 --head-dim 128 --heads 4 --kv-heads 2 --embd 256
case_ "gemma3: windows of 100" matches --arch gemma3 --window 100 --layers 7 --rope-base 1000000
case_ "gemma3: every second layer global, linear scaling" matches --arch gemma3 --window 64 --pattern 2 \
    --layers 4 --rope-scaling linear --ctx 1024
case_ "gemma3: no windows, heads of 256" matches --arch gemma3 --head-dim 256 --heads 2 --kv-heads 1
case_ "gemma3: softcapped logits" matches --arch gemma3 --window 100 --set final_logit_softcapping=30.0
