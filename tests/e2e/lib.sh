# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced first by every script of this directory, which runs from the top of the tree:
#
#     . "$(dirname "$0")/lib.sh"
#     sparse_equals_dense() { ...; [ "$a" = "$b" ] || fail "$a is not $b"; }
#     case_ "sparse equals dense" sparse_equals_dense
#
# A case is a command or function in a subshell of its own, under `set -eu`: it passes when it ends
# with 0, fails otherwise (its output is then shown), and `skip why` ends it as skipped.

set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cd "$top" || exit 1
BUILD=${BUILD:-$top/build}
export KVSWAP=$BUILD/kvswap
KVS_RESULTS=${KVS_RESULTS:-/dev/null}
export OMP_WAIT_POLICY=${OMP_WAIT_POLICY:-passive}
TMP=$(mktemp -d "$BUILD/e2e.XXXXXX") || exit 1   # not /tmp, which may be a tmpfs: no direct I/O there
cases_failed=0

# What a script has to undo at its end (loop devices and the like): it defines its own cleanup.
cleanup() { :; }
finish() {
    local rc=$?
    cleanup
    rm -rf "$TMP"
    [ "$rc" != 0 ] || exit "$cases_failed"
    exit "$rc"
}
trap finish EXIT
trap 'exit 130' INT TERM

pass() { exit 0; }
fail() { echo "$*" >&2; exit 1; }
skip() { echo "$*" >&2; exit 77; }

case_() {
    local name=$1 begin seconds result rc
    shift
    begin=$(date +%s.%N)
    (trap - EXIT; set -eu; "$@") >"$TMP/case.log" 2>&1
    rc=$?
    seconds=$(echo "$begin $(date +%s.%N)" | awk '{ printf "%.2f", $2 - $1 }')
    case $rc in
    0) result=pass ;;
    77) result=skip ;;
    *)
        result=fail
        cases_failed=1
        ;;
    esac
    printf '%s %8s s  %s%s\n' $result "$seconds" "$name" "$([ $rc != 77 ] || echo ": $(tail -n 1 "$TMP/case.log")")"
    [ $result != fail ] || { echo "     status $rc"; tail -n 60 "$TMP/case.log" | sed 's/^/     /'; }
    printf '%s\t%s\n' $result "$name" >>"$KVS_RESULTS"
}

# m=$(model NAME): the path of a model that was fetched, be it by another clone; else the case is
# skipped.
model() {
    local file=$BUILD/models/$1.gguf
    [ -e "$file" ] || file=${XDG_CACHE_HOME:-$HOME/.cache}/kvswap/models/$1.gguf
    [ -e "$file" ] || skip "no $1 here: make model MODEL=$1"
    echo "$file"
}

python=/usr/bin/python3
[ -x $python ] || python=python3

# json FILE KEY.KEY...: one value of a JSON file.
json() {
    "$python" -c 'import functools, json, sys
value = functools.reduce(lambda d, k: d[int(k) if isinstance(d, list) else k],
                         sys.argv[2].split("."), json.load(open(sys.argv[1])))
print(json.dumps(value) if isinstance(value, (bool, dict, list)) else value)' "$1" "$2"
}

# holds EXPRESSION: arithmetic on decimal numbers, as in holds "$a <= 0.125 * $b".
holds() { awk "BEGIN { exit !($1) }" || fail "does not hold: $1"; }

# gguf_python ARGUMENTS: the Python that has the gguf package (scripts/*-gguf.py).
gguf_python() { "${XDG_CACHE_HOME:-$HOME/.cache}/kvswap/venv/bin/python" "$@"; }
