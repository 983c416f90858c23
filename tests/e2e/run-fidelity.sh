# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Real models, dense, over 1,000 positions of text: the next-token distributions against libllama's
# with the same file, and the error of both against libllama with the weights turned to f32.
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

llama() { "$BUILD/tests/llama_logits" "$@"; }

# kl REFERENCE OTHER VOCAB KEY: one figure of the comparison.
kl() {
    gguf_python tests/compare/kl.py "$TMP/$1.f32" "$TMP/$2.f32" "$3" >"$TMP/kl.json"
    json "$TMP/kl.json" "$4"
}

# against_llama NAME VOCAB KL
against_llama() {
    local m
    m=$(model "$1")
    llama "$m" --tokenize $text_file 1000 >"$TMP/ids"
    llama "$m" "$TMP/ids" "$TMP/llama.f32"
    run ours -m "$m" --tokens "$TMP/ids" -n 0 --logits-all --kv dense -t 1
    near llama ours "$2" "$3"
}

# As near to the model as libllama is: to the weights without the rounding of what they multiply.
against_f32() {
    local m theirs ours
    against_llama "$@"
    m=$(model "$1")
    gguf_python tests/compare/f32_gguf.py "$m" "$TMP/f32.gguf"
    llama "$TMP/f32.gguf" "$TMP/ids" "$TMP/true.f32"
    theirs=$(kl true llama "$2" kl)
    ours=$(kl true ours "$2" kl)
    echo "mean KL to f32 weights: libllama $theirs, ours $ours"
    holds "$ours <= 1.2 * $theirs"
    theirs=$(kl true llama "$2" top1)
    ours=$(kl true ours "$2" top1)
    echo "same top-1 as f32 weights: libllama $theirs, ours $ours"
    holds "$ours >= $theirs - 0.02"
    run turned -m "$TMP/f32.gguf" --tokens "$TMP/ids" -n 0 --logits-all --kv dense -t 1
    near true turned "$2" 1e-5 --min-top1 0.995
    rm -f "$TMP"/*.f32 "$TMP/f32.gguf"
}

# f32 weights: what rounding there is comes from attention alone.
stepwise() {
    recall_model
    look_ups 1500 64 32 1 ids
    run prefill -m "$TMP/recall.gguf" --tokens "$TMP/ids" -n 0 --logits-all --kv dense -t 1
    run stepwise -m "$TMP/recall.gguf" --tokens "$TMP/ids" -n 0 --logits-all --kv dense -t 1 --stepwise
    near prefill stepwise 1024 1e-3 --min-top1 0.99
}

case_ "SmolLM2-135M against libllama" against_f32 smollm2-135m 49152 5e-3
case_ "Qwen2.5-Coder-0.5B against libllama" against_llama qwen2.5-coder-0.5b 151936 5e-3
case_ "gemma3-270m against libllama" against_f32 gemma3-270m 262144 8e-3
case_ "decode equals prefill, token by token" stepwise
