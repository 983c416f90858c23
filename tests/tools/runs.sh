# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced after tests/e2e/lib.sh by the scripts that run models: small models and prompts to run,
# runs that must work, runs that must be refused.

text_file=tests/data/moby_dick.txt

# recall_model: $TMP/recall.gguf from the fixture; random_model NAME OPTIONS: $TMP/NAME.gguf.
recall_model() { gguf_python scripts/recall-gguf.py tests/data/recall "$TMP/recall.gguf"; }
random_model() {
    local name=$1
    shift
    gguf_python scripts/random-gguf.py "$TMP/$name.gguf" "$@"
}

# look_ups TOKENS PAIRS QUERIES SEED NAME: token ids in $TMP/NAME, answers in $TMP/NAME.answers.
look_ups() { gguf_python scripts/recall-prompt.py "$1" "$2" "$3" "$4" "$TMP/$5"; }

# text BYTES NAME: the beginning of the book in $TMP/NAME.
text() { head -c "$1" $text_file >"$TMP/$2"; }

# run NAME OPTIONS: must work, on one thread unless -t says more; leaves $TMP/NAME.json, .f32 (logits) and .err.
run() {
    local name=$1
    shift
    "$KVSWAP" run -t 1 "$@" --json --logits "$TMP/$name.f32" >"$TMP/$name.json" 2>"$TMP/$name.err" ||
        fail "kvswap run $*: status $?: $(tail -n 3 "$TMP/$name.err")"
}

# value NAME KEY.KEY: of a run's JSON.
value() { json "$TMP/$1.json" "$2"; }

same_logits() {
    [ -s "$TMP/$1.f32" ] || fail "no logits of $1"
    cmp "$TMP/$1.f32" "$TMP/$2.f32" || fail "the logits of $1 and $2 differ"
}

# near REFERENCE OTHER VOCAB KL [OPTIONS OF kl.py]: mean KL divergence of the logits.
near() { gguf_python tests/compare/kl.py "$TMP/$1.f32" "$TMP/$2.f32" "$3" --max-kl "$4" "${@:5}"; }

# refused PATTERN COMMAND...: ends with 1 after exactly one line on stderr, which matches.
refused() {
    local pattern=$1 rc=0
    shift
    "$@" >"$TMP/refused.out" 2>"$TMP/refused.err" || rc=$?
    cat "$TMP/refused.err"
    [ $rc = 1 ] || fail "status $rc instead of 1: $*"
    [ "$(wc -l <"$TMP/refused.err")" = 1 ] || fail "not one line on stderr"
    [ ! -s "$TMP/refused.out" ] || fail "something on stdout"
    grep -qE -- "$pattern" "$TMP/refused.err" || fail "nothing of '$pattern' in: $(cat "$TMP/refused.err")"
}
