# SPDX-License-Identifier: MIT
# shellcheck shell=bash
# Sourced by the other scripts: the cache, the private Python, one-line failures.

set -u
cache=${XDG_CACHE_HOME:-$HOME/.cache}/kvswap
venv=$cache/venv
python=$venv/bin/python
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=   # a directory for what is not whole yet, gone at the end
log=$(mktemp) || exit 1
trap 'rm -rf "$log" "$work"' EXIT
trap 'exit 130' INT TERM

say() { echo "kvswap: $*" >&2; }
die() {
    say "$@"
    exit 1
}

# The line of the log that tells a person most: the first error, else the last line.
reason() {
    local line
    # pip says of an index that it cannot reach what it says of one that lacks the package.
    if grep -q 'from versions: none' "$log"; then
        echo 'the package index cannot be reached or does not have it'
        return
    fi
    line=$(grep -m1 -i 'no space left' "$log" || grep -m1 -iE '^(E:|error: )|[^a-z]error: ' "$log" || tail -n 1 "$log")
    echo "${line:-no output}" | cut -c1-200
}

# under_lock NAME: one process at a time from here to its end, other clones included.
under_lock() {
    mkdir -p "$cache" 2>/dev/null || die "cannot create the cache $cache: set XDG_CACHE_HOME to a writable place"
    exec 9>>"$cache/$1.lock" || die "cannot write to the cache $cache: set XDG_CACHE_HOME to a writable place"
    flock -n 9 && return
    say "waiting for another run that is preparing $1"
    flock 9
}

# What a package is wanted for decides whether it is there: a command (cmd:), a pkg-config file
# (pc:) or a Python module (py:).  So a library that was built by hand counts as well.
has() {
    case $1 in
    cmd:*) command -v "${1#cmd:}" >/dev/null ;;
    pc:*) pkg-config --exists "${1#pc:}" 2>/dev/null ;;
    py:*) "$(system_python)" -c "import ${1#py:}" 2>/dev/null ;;
    esac
}

system_python() {
    if [ -x /usr/bin/python3 ]; then echo /usr/bin/python3; else echo python3; fi
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo "$@"
    else
        return 1
    fi
}

# need_packages FILE: lines of "package probe"; installs those whose probe fails.
need_packages() {
    local missing=() package probe
    while read -r package probe; do
        case $package in '' | '#'*) continue ;; esac
        has "$probe" || missing+=("$package")
    done <"$1"
    [ ${#missing[@]} -gt 0 ] || return 0
    command -v apt-get >/dev/null ||
        die "missing and no apt-get to install them: ${missing[*]}"
    [ "$(id -u)" = 0 ] || command -v sudo >/dev/null ||
        die "missing packages, install them as root: apt-get install ${missing[*]}"
    say "installing ${missing[*]}"
    { as_root apt-get -q update && as_root env DEBIAN_FRONTEND=noninteractive \
        apt-get -q install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null ||
        die "apt-get could not install ${missing[*]}: $(reason)"
}

# The private Python: pip to fetch packages with, gguf to make small models with.
need_python() {
    local wanted
    wanted=$(cat "$here/requirements.txt")
    [ "$(cat "$venv/requirements.txt" 2>/dev/null)" = "$wanted" ] && "$python" -c '' 2>/dev/null && return
    say "setting up Python in $venv"
    rm -rf "$venv"
    if ! { "$(system_python)" -m venv "$venv" &&
        "$python" -m pip install --no-cache-dir -q -r "$here/requirements.txt"; } >"$log" 2>&1; then
        rm -rf "$venv"
        die "cannot set up Python in $venv: $(reason)"
    fi
    cp "$here/requirements.txt" "$venv/requirements.txt"
}

# need_space KIB DIR WHAT
need_space() {
    local free
    free=$(df -Pk "$2" | awk 'NR == 2 { print $4 }')
    [ "$free" -ge "$1" ] || die "$3 needs $(($1 / 1024)) MiB in $2, free are $((free / 1024)) MiB"
}

# pip_fetch SPEC DIR [OPTION...]: the one file of a package, by pip's own configuration.
pip_fetch() {
    local spec=$1 dir=$2
    shift 2
    TMPDIR=$dir "$python" -m pip download -q --no-cache-dir --no-deps -d "$dir" "$@" "$spec" >"$log" 2>&1
}
