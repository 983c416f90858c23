#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# bench.sh [quick]: runs kvswap-bench for the tables of README. One JSON file a run in
# build/bench/runs/, then build/bench/summary.json with the ratios of all, and plots. A run that
# fails is named and makes the result 1.

set -u
out=build/bench
runs=$out/runs
bench=build/kvswap-bench
models=build/models
failed=0
here=$(dirname "$0")

# measure NAME COMMAND OPTION...
measure() {
    local name=$1
    shift
    echo "bench: $name" >&2
    if "$bench" "$@" --json >"$runs/$name.json.part"; then
        mv "$runs/$name.json.part" "$runs/$name.json"
        return
    fi
    rm -f "$runs/$name.json.part"
    echo "bench: $name failed: $bench $*" >&2
    failed=1
}

small() {
    measure smollm2-decode-7k decode -m $models/smollm2-135m.gguf -c 7000 --budget 1/8
    measure smollm2-prefill-7k prefill -m $models/smollm2-135m.gguf -c 7000 --budget 1/8
    measure io io --record 16K --depth 32
    measure attend attend
    measure score score
}

large() {
    local half=$models/qwen2.5-coder-0.5b.gguf context
    measure 0.5b-decode-30k decode -m "$half" -c 30000 --budget 1/13
    measure 1.5b-decode-8k decode -m $models/qwen2.5-coder-1.5b.gguf -c 8192 --budget 1/13
    measure 0.5b-prefill-8k prefill -m "$half" -c 8192 --budget 1/13
    measure 0.5b-prefill-16k prefill -m "$half" -c 16384 --budget 1/13
    KVSWAP_KERNELS=avx2 measure 0.5b-prefill-8k-avx2 prefill -m "$half" -c 8192 --budget 1/13
    for context in 1024 4096 8192 16384; do
        measure "0.5b-context-$context" decode -m "$half" -c $context
    done
    for budget in 4 8 13 20 30 40; do
        measure "0.5b-budget-$budget" decode -m "$half" -c 30000 --budget 1/$budget --no-llama
    done
}

rm -rf $runs && mkdir -p $runs || exit 1
rm -f $out/summary.json $out/*.dat $out/decode-*.png
small
[ "${1:-}" = quick ] || large
python3 "$here/summary.py" $out || failed=1
if [ -s $out/context.dat ] && [ -s $out/budget.dat ]; then
    gnuplot -e "out='$out'" "$here/plot.gp" || failed=1
fi
exit $failed
