# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# The library as others use it: the example program, the manual and its example, the shared library.
. "$(dirname "$0")/lib.sh"
. tests/tools/runs.sh

manual() { "$python" tests/tools/manual.py "$@"; }

example() {
    "$BUILD/example" "$TMP" | tee "$TMP/out"
    grep -qE '1024 tokens, [0-9]{5,} records read, greatest difference' "$TMP/out" || fail "not what it says"
    XDG_CACHE_HOME=$TMP/cache "$BUILD/example"
    [ -z "$(ls -A "$TMP/cache/kvswap")" ] || fail "left behind: $(ls -A "$TMP/cache/kvswap")"
    refused "example: .*none" "$BUILD/example" "$TMP/none/name"
}

# It stands for what others can do: the public header, the shared library, one screen and a half.
public() {
    local included
    included=$(sed -n 's/^#include *//p' examples/*.c)
    echo "$included"
    ! grep -q '"' <<<"$included" || fail "a header that is not public"
    [ "$(cat examples/*.c | wc -l)" -lt 100 ] || fail "100 lines or more"
    ldd "$BUILD/example" | grep -q 'libkvswap.so.0 => /' || fail "not linked to the shared library"
}

symbols() {
    manual functions include/kvswap.h >"$TMP/declared"
    nm -D --defined-only "$BUILD/libkvswap.so" | awk '$2 != "A" { sub("@.*", "", $3); print $3 }' | sort >"$TMP/exported"
    diff "$TMP/declared" "$TMP/exported"
}

header() {
    local warn=(-Wall -Wextra -Wpedantic -Werror -Iinclude -fsyntax-only)
    echo '#include <kvswap.h>' >"$TMP/only.c"
    ${CC:-cc} -std=c11 "${warn[@]}" "$TMP/only.c"
    ${CXX:-c++} -x c++ -std=c++17 "${warn[@]}" "$TMP/only.c"
}

manual_example() {
    manual example man/libkvswap.3 >"$TMP/manual.c"
    ${CC:-cc} -std=c11 -Wall -Wextra -Werror -Iinclude -o "$TMP/manual" "$TMP/manual.c" -L"$BUILD" -lkvswap \
        -Wl,-rpath,"$BUILD"
    XDG_CACHE_HOME=$TMP "$TMP/manual"
}

manual_clean() {
    local page
    command -v groff >/dev/null || skip "no groff here"
    for page in man/*.[1-8]; do
        groff -man -ww -W break -z -Tutf8 "$page" 2>"$TMP/groff.err"
        [ ! -s "$TMP/groff.err" ] || fail "$(cat "$TMP/groff.err")"
    done
}

case_ "the example works, and says what it cannot" example
case_ "the example needs the public header and the shared library" public
case_ "the library exports what its header declares" symbols
case_ "the header stands alone, in C and C++" header
case_ "the manual has every function as it is declared" manual prototypes include/kvswap.h man/libkvswap.3
case_ "the example of the manual compiles and runs" manual_example
case_ "the manuals have no error" manual_clean
