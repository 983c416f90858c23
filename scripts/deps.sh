#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Installs what is missing: system packages, the private Python, ggml with libllama.
# With everything there it touches nothing and needs no network.
# deps.sh [FILE...]: further lists of packages, in the form of packages.txt.

. "$(dirname "$0")/common.sh"

version=0.3.36
sha256=832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e
dir=${LLAMA_DIR:-$cache/llama-$version}
CC=${CC:-gcc}

# The libraries are built for this CPU; a cache carried to another one is built again.
cpu() { gcc -march=native -Q --help=target | sha256sum | cut -c1-16; }

# A libllama of the system serves when the runner's calls compile against it.
system_llama() {
    pkg-config --exists llama ggml 2>/dev/null || return 1
    # shellcheck disable=SC2046
    echo '#include <llama.h>
int main(void) { return (int)llama_model_default_params().load_mode; }' |
        $CC $(pkg-config --cflags llama ggml) -x c -fsyntax-only - 2>/dev/null
}

build_llama() {
    local src=$1/src out=$1/out
    local off='-DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF
        -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF -DLLAMA_BUILD_APP=OFF
        -DLLAMA_OPENSSL=OFF -DGGML_CCACHE=OFF'

    mkdir -p "$src" "$out/lib" "$out/include"
    say "fetching llama-cpp-python $version (77 MB)"
    pip_fetch "llama-cpp-python==$version" "$1" --no-binary llama-cpp-python ||
        die "cannot fetch llama-cpp-python $version: $(reason)"
    echo "$sha256  $(echo "$1"/*.tar.gz)" | sha256sum -c --status ||
        die "wrong checksum of llama-cpp-python $version: not used"
    tar xzf "$1"/*.tar.gz -C "$src" --strip-components=1 2>"$log" ||
        die "cannot unpack llama-cpp-python $version: $(reason)"
    say "building ggml and libllama, a minute or two"
    # shellcheck disable=SC2086
    { cmake -S "$src/vendor/llama.cpp" -B "$1/build" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_C_COMPILER="$CC" -DBUILD_SHARED_LIBS=OFF -DGGML_NATIVE=ON $off &&
        env -u MAKEFLAGS -u MFLAGS cmake --build "$1/build" --target llama -j "$(nproc)"; } >"$log" 2>&1 </dev/null ||
        die "building ggml and libllama failed: $(reason)"
    find "$1/build" -name '*.a' -exec cp -t "$out/lib" {} +
    cp "$src"/vendor/llama.cpp/{include,ggml/include}/*.h "$out/include"
    cp "$src/vendor/llama.cpp/LICENSE" "$out"
    cpu >"$out/cpu"
}

need_llama() {
    [ "$(cat "$dir/cpu" 2>/dev/null)" = "$(cpu)" ] && return
    [ ! -d "$dir" ] && system_llama && return
    under_lock llama
    [ "$(cat "$dir/cpu" 2>/dev/null)" = "$(cpu)" ] && return
    rm -rf "$cache"/.llama.*
    work=$(mktemp -d "$cache/.llama.XXXXXX") || die "cannot write to the cache $cache"
    need_space $((1024 * 1024)) "$cache" "building ggml and libllama"
    build_llama "$work"
    rm -rf "$dir"
    { mkdir -p "$(dirname "$dir")" && mv -T "$work/out" "$dir"; } || die "cannot write to $dir"
}

need_packages "$here/packages.txt"
for list; do
    need_packages "$list"
done
(
    under_lock python
    need_python
) || exit 1
need_llama
