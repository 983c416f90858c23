# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# What the command line of `kvswap run` takes and refuses: 2 for wrong usage, 1 for what fails, one
# line that names the value.
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

# ends STATUS PATTERN OPTIONS: of `kvswap run`, with one line on stderr that matches.
ends() {
    local want=$1 pattern=$2 rc=0
    shift 2
    "$KVSWAP" run "$@" >"$TMP/out" 2>"$TMP/err" </dev/null || rc=$?
    cat "$TMP/err"
    [ $rc = "$want" ] || fail "status $rc instead of $want: $*"
    [ "$(wc -l <"$TMP/err")" = 1 ] || fail "not one line on stderr: $*"
    [ ! -s "$TMP/out" ] || fail "something on stdout: $*"
    grep -qF -- "$pattern" "$TMP/err" || fail "nothing of '$pattern': $*"
}
wrong() { ends 2 "$1" -m "$TMP/m.gguf" -p hello "${@:2}"; }

commands() {
    "$KVSWAP" --help | grep -q run
    "$KVSWAP" --version | grep -qx 'kvswap [0-9.]*'
    "$KVSWAP" run --help >"$TMP/help"
    grep -q 'kvswap run -m' "$TMP/help"
    "$KVSWAP" run --help | grep -q -- --budget
    for command in '' nonsense; do
        rc=0
        # shellcheck disable=SC2086
        "$KVSWAP" $command 2>/dev/null || rc=$?
        [ $rc = 2 ] || fail "kvswap $command: status $rc"
    done
}

usage() {
    ends 2 'no model' -p hello
    ends 2 'no prompt' -m "$TMP/m.gguf"
    wrong '--bogus' --bogus
    wrong '--coverage' --coverage 0.9
    wrong '--prefix-store' --prefix-store /tmp
    wrong '-n needs a value' -n
    wrong '--predict' -n -1
    wrong '--predict' -n 1.5
    wrong '--predict' -n many
    wrong '--context' -c 0
    wrong '--threads' -t 0
    wrong '--batch' --batch 300
    wrong '--kv ' --kv tape
    wrong '--backend' --backend floppy
    wrong '--profile' --profile punchcard
    wrong 'only f16' --kv-type q8
    wrong '--group' --group 3
    wrong '--group' --group 512
    wrong '--select' --select none
    wrong '--reduce' --reduce max
    wrong '--temp' --temp -1
    wrong '--temp' --temp nan
    wrong '--top-p' --top-p 2
    wrong '--stop' --stop ''
    wrong '--budget' --budget 0
    wrong '--budget' --budget 12Q
    wrong '--budget' --budget 2/1
    wrong '--budget' --budget 1/0
    wrong '--budget' --budget -5M
    wrong '--io-timeout' --io-timeout 0
    wrong '--logits-all' --logits-all
    wrong 'nonsense' nonsense
    wrong '2 prompts' -p again --batch 3
}

failures() {
    ends 1 'No such file' -m "$TMP/none.gguf" -p hello
    ends 1 'not a file' -m "$TMP" -p hello
    ends 1 'prompt is empty' -m "$TMP/m.gguf" -p ''
    ends 1 'prompt is empty' -m "$TMP/m.gguf" -f /dev/null
    ends 1 'prompt is empty' -m "$TMP/m.gguf" -
    ends 1 "$TMP/none.txt" -m "$TMP/m.gguf" -f "$TMP/none.txt"
    ends 1 "$TMP" -m "$TMP/m.gguf" -f "$TMP"
    echo '1 2 three' >"$TMP/ids"
    ends 1 "'three'" -m "$TMP/m.gguf" --tokens "$TMP/ids"
    echo 320 >"$TMP/ids"
    ends 1 "'320'" -m "$TMP/m.gguf" --tokens "$TMP/ids"
    ends 1 'than the context of 3' -m "$TMP/m.gguf" -p hello -c 3
    ends 1 'chat template' -m "$TMP/m.gguf" -p hello --chat
    ends 1 "$TMP/no/dir" -m "$TMP/m.gguf" -p hello --kv dense --logits "$TMP/no/dir/file"
}

budgets() {
    text 2000 long
    ends 1 '--budget ' -m "$TMP/m.gguf" -f "$TMP/long" -n 4 --budget 10K
    smallest=$(grep -o -- '--budget [0-9]*' "$TMP/err" | cut -d ' ' -f 2)
    run smallest -m "$TMP/m.gguf" -f "$TMP/long" -n 4 -t 1 --budget "$smallest"
    holds "$(value smallest memory.kv_resident_peak_bytes) <= $smallest"
    ends 1 '--budget ' -m "$TMP/m.gguf" -f "$TMP/long" -n 4 --budget $((smallest - 1))
    run default -m "$TMP/m.gguf" -p hello -n 4 -t 1
    grep -q '1/13 of the KV cache' "$TMP/default.err" || fail "said nothing of the budget it took"
    holds "$(value default memory.kv_resident_peak_bytes) <= $(value default memory.budget_bytes)"
    run suffix -m "$TMP/m.gguf" -f "$TMP/long" -n 4 -t 1 --budget 3M
    [ "$(value suffix memory.budget_bytes)" = $((3 << 20)) ]
    run half -m "$TMP/m.gguf" -f "$TMP/long" -n 4 -t 1 --budget 1/2
    holds "$(value half memory.budget_bytes) <= 0.5 * $(value half memory.kv_full_bytes) + 1"
}

settings() {
    text 1500 long
    run a -m "$TMP/m.gguf" -f "$TMP/long" -n 4 -t 1 --group 8 --select 64 --predictor lowrank --rank 16 --budget 4M
    [ "$(value a settings.group) $(value a settings.select)" = '8 64' ]
    [ "$(value a settings.predictor) $(value a settings.rank)" = 'lowrank 16' ]
    run a -m "$TMP/m.gguf" -f "$TMP/long" -n 4 -t 1 --select all --budget 4M
    [ "$(value a settings.select)" = all ]
    run fast -m "$TMP/m.gguf" -f "$TMP/long" -n 4 -t 1 --profile nvme --budget 4M
    run slow -m "$TMP/m.gguf" -f "$TMP/long" -n 4 -t 1 --profile emmc --budget 4M
    holds "$(value slow settings.group) == 2 * $(value fast settings.group)"
}

random_model m
case_ "run: commands and help" commands
case_ "run: wrong usage ends with 2" usage
case_ "run: what fails ends with 1" failures
case_ "run: budgets" budgets
case_ "run: settings" settings
