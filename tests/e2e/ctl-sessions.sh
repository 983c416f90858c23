#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# kvswapctl watches a session that runs: what top, metrics and doctor say of it is what the run says at its end.

# shellcheck source=tests/e2e/lib.sh
. "$(dirname "$0")/lib.sh"
ctl=$BUILD/kvswapctl
export XDG_RUNTIME_DIR=$TMP/runtime
mkdir "$XDG_RUNTIME_DIR"

# Of the session of $pid; others may run on the machine.
metric() {
    awk -v name="$2" -v pid="$pid" \
        '$1 == name || index($1, name "{session=\"" pid "\"") == 1 { print $NF; exit }' "$1"
}

seen_while_it_runs() {
    local m pid n=0
    m=$(model smollm2-135m)
    head -c 8000 tests/data/moby_dick.txt >"$TMP/text"
    "$KVSWAP" run -m "$m" -f "$TMP/text" -n 4000 --budget 1/4 -t 1 --json >"$TMP/run.json" 2>"$TMP/err" &
    pid=$!
    while [ "${n%.*}" -lt 100 ]; do
        kill -0 $pid || fail "ended early: $(cat "$TMP/err")"
        "$ctl" metrics >"$TMP/m"
        n=$(metric "$TMP/m" kvswap_decode_steps_total)
        n=${n:-0}
        sleep 0.2
    done
    holds "$(metric "$TMP/m" kvswap_sessions) >= 1"
    grep -q "^kvswap_session_info{session=\"$pid\",program=\"kvswap\",backend=\"[a-z_]*\"" "$TMP/m"
    holds "$(metric "$TMP/m" kvswap_resident_bytes) <= $(metric "$TMP/m" kvswap_budget_bytes)"
    holds "$(metric "$TMP/m" kvswap_hit_groups_total) <= $(metric "$TMP/m" kvswap_selected_groups_total)"
    holds "$(metric "$TMP/m" kvswap_written_bytes_total) > 0"
    holds "$(metric "$TMP/m" kvswap_tokens) >= 1000"
    if command -v promtool >/dev/null; then promtool check metrics <"$TMP/m"; fi
    "$ctl" top --plain -n 1 -s 1 >"$TMP/top"
    grep -q "^$pid .* kvswap " "$TMP/top" || fail "$(cat "$TMP/top")"
    awk -v pid="$pid" '$1 == pid { seen = $3 > 0 && $4 > 0 && $6 > 0 } END { exit !seen }' "$TMP/top" || fail "$(cat "$TMP/top")"
    "$ctl" doctor --seconds 1 --store "$TMP" >"$TMP/doctor" || true	# 1: it found something
    grep -q "session $pid, hit rate" "$TMP/doctor"
    kill -TERM $pid
    wait $pid || true
    [ "$(ls "$XDG_RUNTIME_DIR/kvswap")" = '' ] || fail "left behind: $(ls "$XDG_RUNTIME_DIR/kvswap")"
}

killed_is_not_shown() {
    local m pid
    m=$(model smollm2-135m)
    "$KVSWAP" run -m "$m" -p 'Once' -n 4000 --kv memory -t 1 >/dev/null 2>&1 &
    pid=$!
    for _ in $(seq 300); do
        [ ! -e "$XDG_RUNTIME_DIR/kvswap/$pid" ] || break
        sleep 0.1
    done
    "$ctl" metrics >"$TMP/m"
    grep -q "session=\"$pid\"" "$TMP/m"
    kill -KILL $pid
    wait $pid || true
    "$ctl" metrics >"$TMP/m"
    ! grep "session=\"$pid\"" "$TMP/m" || fail "still shown"
    "$KVSWAP" run -m "$m" -p 'Once' -n 1 --kv memory -t 1 >/dev/null 2>&1
    [ "$(ls "$XDG_RUNTIME_DIR/kvswap")" = '' ] || fail "not swept: $(ls "$XDG_RUNTIME_DIR/kvswap")"
}

no_place_is_no_failure() {
    local m
    m=$(model smollm2-135m)
    XDG_RUNTIME_DIR=/proc/none "$KVSWAP" run -m "$m" -p 'Once' -n 1 --kv memory -t 1 >/dev/null
}

case_ "kvswapctl top, metrics and doctor of a running session" seen_while_it_runs
case_ "kvswapctl does not show what was killed" killed_is_not_shown
case_ "no place to publish is no failure" no_place_is_no_failure
