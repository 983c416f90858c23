# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# A real model answers a question whose answer stands once in a long text, with 1/8 of the KV cache in memory.
. "$(dirname "$0")/lib.sh"

answered() {
    local m
    m=$(model qwen2.5-coder-0.5b)
    {
        head -c 9000 tests/data/moby_dick.txt
        printf '\n\nThe keeper of the lighthouse at Sable Point was called Ambrose Quill, and he had a grey parrot.\n\n'
        tail -c +9001 tests/data/moby_dick.txt | head -c 13000
        printf '\n\nQuestion: What was the name of the keeper of the lighthouse at Sable Point? Answer with the name only.\n'
    } >"$TMP/text"
    "$KVSWAP" run -m "$m" -f "$TMP/text" --chat -n 16 --temp 0 --budget 1/8 -t 1 --json >"$TMP/out"
    grep -q 'Ambrose Quill' <<<"$(json "$TMP/out" text)" || fail "$(json "$TMP/out" text)"
    holds "$(json "$TMP/out" memory.kv_resident_peak_bytes) * 8 <= $(json "$TMP/out" memory.kv_full_bytes)"
    holds "$(json "$TMP/out" io.records_read) > 0"
}

case_ "a question about one sentence of a long text" answered
