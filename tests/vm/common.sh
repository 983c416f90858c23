# SPDX-License-Identifier: MIT
# shellcheck shell=sh disable=SC2034
#
# Sourced by the scripts here: where kernels are kept, how missing tools come in.

kernels=${XDG_CACHE_HOME:-$HOME/.cache}/kvswap/kernels

die() {
	echo "${0##*/}: $*" >&2
	exit 1
}

# have_tools COMMAND:PACKAGE...: installs the packages whose command (or file) is not there.
have_tools() {
	missing=
	for t in "$@"; do
		command -v "${t%%:*}" > /dev/null || [ -e "${t%%:*}" ] || missing="$missing ${t#*:}"
	done
	[ -n "$missing" ] || return 0
	as=
	[ "$(id -u)" = 0 ] || as=sudo
	echo "installing$missing" >&2
	{ $as apt-get -qq update && $as env DEBIAN_FRONTEND=noninteractive \
		apt-get -qq -y install --no-install-recommends $missing; } > /dev/null ||
		die "could not install$missing"
}
