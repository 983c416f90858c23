#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# `make check-style`: format, licence lines, file length, shell scripts, kernel style.
# A tool that is not here is named; what it would have checked is not passed over in silence.

set -u
failed=0
complain() {
    echo "$*"
    failed=1
}
missing() { echo "not checked, no $1: $2"; }
tracked() { git ls-files --cached --others --exclude-standard -- "$@" | while read -r f; do [ -f "$f" ] && echo "$f"; done; }

mapfile -t sources < <(tracked '*.c' '*.h')
mapfile -t scripts < <(tracked '*.sh' tests/run .ci/run)
mapfile -t licensed < <(tracked '*.c' '*.h' '*.sh' '*.py' '*.mk' '*.map' Makefile Kbuild tests/run .ci/run 'man/*')

for f in "${licensed[@]}"; do
    case $f in
    kmod/*.mk) want='MIT' ;;
    kmod/* | Kbuild) want='GPL-2.0-only' ;;
    include/uapi/*) want='(GPL-2.0 WITH Linux-syscall-note) OR MIT' ;;
    *) want='MIT' ;;
    esac
    head -n 3 "$f" | tr -d '()' | grep -qF "SPDX-License-Identifier: $(echo "$want" | tr -d '()')" ||
        complain "$f: no line 'SPDX-License-Identifier: $want' at its top"
done
for f in "${sources[@]}"; do
    [ "$(wc -l <"$f")" -le 700 ] || complain "$f: $(wc -l <"$f") lines, at most 700"
done

if command -v clang-format >/dev/null; then
    for f in "${sources[@]}"; do
        clang-format --dry-run --Werror "$f" >/dev/null 2>&1 || complain "$f: not as .clang-format has it: clang-format -i $f"
    done
else
    missing clang-format "format of ${#sources[@]} files"
fi

if command -v shellcheck >/dev/null; then
    shellcheck -S warning -x -P SCRIPTDIR "${scripts[@]}" || failed=1
else
    missing shellcheck "${#scripts[@]} scripts"
fi

# Warnings of checkpatch are about the kernel's own tree as often as not: errors count.
checkpatch=${CHECKPATCH:-$(command -v checkpatch.pl || find /usr/src -path '*/scripts/checkpatch.pl' -print -quit 2>/dev/null)}
mapfile -t kernel < <(tracked 'kmod/*.c' 'kmod/*.h' 'include/uapi/*.h')
if [ -z "$checkpatch" ]; then
    missing checkpatch.pl "kernel style of ${#kernel[@]} files (it comes with the kernel's source; CHECKPATCH=path)"
elif [ ${#kernel[@]} -gt 0 ]; then
    # trace.h has the layout of TRACE_EVENT, which the strict checks do not know.
    strict=(--strict --no-tree --terse --max-line-length=100)
    for f in "${kernel[@]}"; do
        case $f in
        kmod/trace.h) ignore=(--ignore "OPEN_ENDED_LINE,PARENTHESIS_ALIGNMENT") ;;
        *) ignore=() ;;
        esac
        "$checkpatch" "${strict[@]}" "${ignore[@]}" -q -f "$f" || failed=1
    done
fi
[ "$failed" = 0 ] && echo 'style: nothing to complain about'
exit "$failed"
