#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `make run`: the small model reads about 7,000 tokens of English and sums them up, its KV cache on
# disk, at most 1/8 of it in memory.

set -u
prompt=build/demo.txt

{
    head -c 29000 tests/data/moby_dick.txt | sed '$d'
    echo
    echo 'Summarise the text above in a few sentences: who tells it, where, and what happens.'
} >"$prompt" || exit 1
exec build/kvswap run -m build/models/smollm2-135m.gguf -f "$prompt" --chat --budget 1/8 -n 128
