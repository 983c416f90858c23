# SPDX-License-Identifier: MIT
# bash completion for kvswapctl. Commands and options are what --help lists, so that they cannot
# fall behind.

_kvswapctl() {
    local cur=${COMP_WORDS[COMP_CWORD]} words
    if [ "$COMP_CWORD" = 1 ]; then
        words=$(kvswapctl --help 2>/dev/null | sed -n 's/^  \([a-z]*\) .*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$words --help --version" -- "$cur")
        return
    fi
    if [[ $cur == -* ]]; then
        words=$(kvswapctl "${COMP_WORDS[1]}" --help 2>/dev/null | sed -n 's/^  [- ].*\(--[a-z-]*\).*/\1/p')
        mapfile -t COMPREPLY < <(compgen -W "$words" -- "$cur")
        return
    fi
    mapfile -t COMPREPLY < <(compgen -f -- "$cur")
}

complete -o filenames -F _kvswapctl kvswapctl
