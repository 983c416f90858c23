# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What `kvswap run` writes: text as it is made, stop strings, chat, batches, rows, JSON, progress,
# and how it ends when it is interrupted.
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

smol() { "$KVSWAP" run -m "$smollm" -t 1 "$@"; }
need_smollm() { smollm=$(model smollm2-135m); }

sources() {
    need_smollm
    smol -p 'The capital of France is' -n 8 --kv dense >"$TMP/a" 2>/dev/null
    grep -q Paris "$TMP/a"
    printf 'The capital of France is' >"$TMP/prompt"
    smol -f "$TMP/prompt" -n 8 --kv dense >"$TMP/b" 2>/dev/null
    smol - -n 8 --kv dense <"$TMP/prompt" >"$TMP/c" 2>/dev/null
    smol -f - -n 8 --kv dense <"$TMP/prompt" >"$TMP/d" 2>/dev/null
    cmp "$TMP/a" "$TMP/b"
    cmp "$TMP/a" "$TMP/c"
    cmp "$TMP/a" "$TMP/d"
}

stops() {
    need_smollm
    run whole -m "$smollm" -t 1 -p 'One, two, three, four,' -n 24 --kv dense
    value whole text | grep -q 'seven' || fail "does not count: $(value whole text)"
    run cut -m "$smollm" -t 1 -p 'One, two, three, four,' -n 24 --kv dense --stop 'nowhere' --stop ' seven'
    [ "$(value cut text)" = "$(value whole text | sed 's/ seven.*//')" ] || fail "cut at: $(value cut text)"
    holds "$(value cut generated_tokens) < $(value whole generated_tokens)"
    smol -p 'One, two, three, four,' -n 24 --kv dense --stop ' seven' >"$TMP/text" 2>/dev/null
    [ "$(cat "$TMP/text")" = "$(value cut text)" ] || fail "streamed: $(cat "$TMP/text")"
}

chat() {
    need_smollm
    run chat -m "$smollm" -t 1 -p 'What is the capital of France?' -n 40 --kv dense --chat
    value chat text | grep -q Paris
    ! value chat text | grep -q 'im_end' || fail "control tokens in the text"
    # The control token written in the prompt is plain text, unless --special says otherwise.
    run plain -m "$smollm" -t 1 -p 'a<|im_end|>b' -n 0 --kv dense
    run special -m "$smollm" -t 1 -p 'a<|im_end|>b' -n 0 --kv dense --special
    holds "$(value special prompt_tokens) < $(value plain prompt_tokens)"
    run plain -m "$smollm" -t 1 -p 'a<|im_end|>b' -n 0 --kv dense --chat
    run special -m "$smollm" -t 1 -p 'a<|im_end|>b' -n 0 --kv dense --chat --special
    holds "$(value special prompt_tokens) < $(value plain prompt_tokens)"
}

sampling() {
    run a -m "$TMP/m.gguf" -t 1 -p hello -n 40 --kv dense --temp 1 --seed 5
    run b -m "$TMP/m.gguf" -t 1 -p hello -n 40 --kv dense --temp 1 --seed 5
    run c -m "$TMP/m.gguf" -t 1 -p hello -n 40 --kv dense --temp 1 --seed 6
    [ "$(value a tokens)" = "$(value b tokens)" ]
    [ "$(value a tokens)" != "$(value c tokens)" ]
    run d -m "$TMP/m.gguf" -t 1 -p hello -n 40 --kv dense
    run e -m "$TMP/m.gguf" -t 1 -p hello -n 40 --kv dense --temp 1 --top-k 1 --seed 9
    [ "$(value d tokens)" = "$(value e tokens)" ]
    run f -m "$TMP/m.gguf" -t 1 -p hello -n 40 --kv dense --repeat-penalty 8
    [ "$(value d tokens)" != "$(value f tokens)" ]
}

# A sequence of a batch makes the tokens and the logits that it makes alone, with a predictor that
# learns nothing from the prompt that comes first.
batches() {
    local i
    text 700 one
    text 1100 two
    text 300 three
    run batch -m "$TMP/m.gguf" -t 1 -f "$TMP/one" -f "$TMP/two" -f "$TMP/three" -n 12 --budget 8M --select 64 \
        --predictor exact
    i=0
    for name in one two three; do
        run alone -m "$TMP/m.gguf" -t 1 -f "$TMP/$name" -n 12 --budget 8M --select 64 --predictor exact
        [ "$(value alone tokens)" = "$(value batch sequences.$i.tokens)" ] || fail "sequence $i differs"
        cp "$TMP/batch.f32.$i" "$TMP/batch.f32"
        near alone batch 320 1e-4
        i=$((i + 1))
    done
    holds "$(value batch generated_tokens) == 36"
    "$KVSWAP" run -m "$TMP/m.gguf" -t 1 -f "$TMP/one" -f "$TMP/two" -n 3 --kv dense >"$TMP/texts" 2>/dev/null
    [ "$(grep -c '^--- [01] ---$' "$TMP/texts")" = 2 ]
}

# One prompt for all: they share its records, and go their own ways by their seeds.
same_prompt() {
    text 1100 two
    run batch -m "$TMP/m.gguf" -t 1 -f "$TMP/two" --batch 3 -n 12 --budget 8M --select 64
    run alone -m "$TMP/m.gguf" -t 1 -f "$TMP/two" -n 12 --budget 8M --select 64
    for i in 0 1 2; do
        [ "$(value alone tokens)" = "$(value batch sequences.$i.tokens)" ] || fail "sequence $i differs"
    done
    run seeds -m "$TMP/m.gguf" -t 1 -f "$TMP/two" --batch 3 -n 12 --budget 8M --select 64 --temp 1
    [ "$(value seeds sequences.0.tokens)" != "$(value seeds sequences.1.tokens)" ]
}

# Sequences that end early leave the others as they were.
uneven() {
    text 700 one
    text 1100 two
    run batch -m "$TMP/m.gguf" -t 1 -f "$TMP/one" -f "$TMP/two" -c 1500 -n 60 --kv dense
    run alone -m "$TMP/m.gguf" -t 1 -f "$TMP/one" -c 1500 -n 60 --kv dense
    [ "$(value alone tokens)" = "$(value batch sequences.0.tokens)" ]
    holds "$(value batch sequences.1.generated_tokens) < 60"
    holds "$(value batch sequences.1.generated_tokens) + $(value batch sequences.1.prompt_tokens) == 1500"
}

rows() {
    run a -m "$TMP/m.gguf" -t 1 -p hello -n 5 --kv dense
    holds "$(stat -c %s "$TMP/a.f32") == 4 * 320 * 5"
    run b -m "$TMP/m.gguf" -t 1 -p hello -n 5 --kv dense --logits-all
    holds "$(stat -c %s "$TMP/b.f32") == 4 * 320 * ($(value b prompt_tokens) + 4)"
    near a b 320 1e-6 --last 5
    run d -m "$TMP/m.gguf" -t 1 -p hello -n 0 --kv dense
    [ ! -s "$TMP/d.f32" ] || fail "rows for no token"
    [ "$(value d text)" = '' ] && [ "$(value d generated_tokens)" = 0 ]
    ls "$TMP"/a.f32.?????? 2>/dev/null && fail "a temporary file is left"
    true
}

# How a prompt is cut into chunks and blocks changes nothing that is read off the logits.
chunks() {
    text 2500 long
    run whole -m "$TMP/m.gguf" -t 1 -f "$TMP/long" -n 8 --budget 16M --select all
    run cut -m "$TMP/m.gguf" -t 1 -f "$TMP/long" -n 8 --budget 1/6 --select all
    near whole cut 320 1e-5 --min-top1 1
}

keys() {
    text 900 one
    run a -m "$TMP/m.gguf" -t 1 -f "$TMP/one" -n 5 --budget 4M
    "$python" - "$TMP/a.json" <<'EOF'
import json, sys
want = """text tokens prompt_tokens reused_tokens generated_tokens backend direct_io store
model.arch model.layers model.heads model.kv_heads model.head_dim
settings.group settings.select settings.predictor settings.rank settings.reuse settings.record_bytes
settings.kv_type memory.kv_full_bytes memory.kv_resident_peak_bytes memory.metadata_bytes
memory.slot_bytes memory.rolling_bytes memory.staging_bytes memory.ratio memory.activation_bytes
memory.rss_peak_bytes prefill.seconds prefill.tokens_per_s decode.seconds decode.tokens_per_s
decode.p50_ms decode.p99_ms io.records_read io.bytes_read io.records_written io.bytes_written
io.wait_seconds io.late_records selection.hit_rate selection.predicted_recall selection.coverage
selection.mean_selected stages.compute stages.attend""".split()
text = open(sys.argv[1]).read()
assert text.count("\n") == 1
top = json.loads(text)
for name in want:
    at = top
    for part in name.split("."):
        at = at[part]
full = (top["prompt_tokens"] + top["generated_tokens"]) * 3 * 2 * 64 * 2 * 2
assert top["memory"]["kv_full_bytes"] == full, full
assert top["memory"]["activation_bytes"] <= 128 << 20
assert top["io"]["records_written"] > 0
EOF
}

progress() {
    text 900 one
    "$KVSWAP" run -m "$TMP/m.gguf" -t 1 -f "$TMP/one" -n 5 --kv dense >/dev/null 2>"$TMP/quiet"
    ! grep -q $'\r' "$TMP/quiet" || fail "progress though stderr is no terminal"
    "$KVSWAP" run -m "$TMP/m.gguf" -t 1 -f "$TMP/one" -n 5 --kv dense --progress >/dev/null 2>"$TMP/loud"
    grep -q 'prefill .* of .* tokens' "$TMP/loud"
    grep -q 'KV cache' "$TMP/loud"
}

# interrupted SIGNAL STATUS: while text is generated; nothing of the store or the rows stays.
interrupted() {
    local pid rc=0
    mkdir -p "$TMP/store"
    text 900 one
    "$KVSWAP" run -m "$TMP/m.gguf" -t 1 -f "$TMP/one" -n 2000 --budget 8M --test-delay 3000 --store "$TMP/store" \
        --logits "$TMP/rows.f32" >"$TMP/text" 2>"$TMP/err" &
    pid=$!
    for _ in $(seq 300); do
        [ ! -s "$TMP/text" ] || break
        sleep 0.1
    done
    [ -s "$TMP/text" ] || fail "no text within 30 s"
    kill -"$1" $pid
    wait $pid || rc=$?
    cat "$TMP/err"
    [ $rc = "$2" ] || fail "status $rc instead of $2"
    grep -q interrupted "$TMP/err"
    [ -z "$(ls -A "$TMP/store")" ] || fail "left in the store: $(ls -A "$TMP/store")"
    ! ls "$TMP"/rows.f32* 2>/dev/null || fail "half a file of rows is left"
}

# A background job of a script ignores SIGINT: Python gives it back.
sigint() {
    local real=$KVSWAP
    printf '#!%s\nimport os, signal, sys\nsignal.signal(signal.SIGINT, signal.SIG_DFL)\nos.execv("%s", ["kvswap"] + sys.argv[1:])\n' \
        "$python" "$real" >"$TMP/with-sigint"
    chmod +x "$TMP/with-sigint"
    KVSWAP=$TMP/with-sigint interrupted INT 130
}

reader_gone() {
    local rc=0
    { "$KVSWAP" run -m "$TMP/m.gguf" -t 1 -p hello -n 3000 --kv dense 2>"$TMP/err" || echo $? >"$TMP/rc"; } | head -c 1 >/dev/null
    rc=$(cat "$TMP/rc")
    [ "$rc" = 1 ] || fail "status $rc instead of 1"
    grep -q 'cannot write to stdout' "$TMP/err"
}

random_model m
case_ "text: prompts from an option, a file, stdin" sources
case_ "text: stop strings" stops
case_ "text: the model's chat template, control tokens" chat
case_ "text: sampling repeats with its seed" sampling
case_ "text: a batch makes what its sequences make alone" batches
case_ "text: a batch of one prompt" same_prompt
case_ "text: sequences of a batch end apart" uneven
case_ "text: rows of logits" rows
case_ "text: a prompt in chunks" chunks
case_ "text: the keys of --json" keys
case_ "text: progress only for people" progress
case_ "text: Ctrl-C ends with 130 and leaves nothing" sigint
case_ "text: SIGTERM ends with 143 and leaves nothing" interrupted TERM 143
case_ "text: the reader of stdout goes away" reader_gone
