#!/usr/bin/env bash
# Name the files of Debian packages by their sha256, as apt's lists have them.
#
#   apt-files.sh list NAME=VERSION…    print a line "NAME=VERSION sha256" for each file
#   apt-files.sh check FILE            end where the lists lack a line of FILE
#
# The lists are signed, and apt compares each file that it downloads with them.
set -euo pipefail

# What apt does not have is not printed.
list() {
    { apt-cache show "$@" 2>/dev/null || true; } |
        awk '/^Package: / { name = $2 } /^Version: / { version = $2 } /^SHA256: / { print name "=" version, $2 }'
}

check() {
    local -a packages
    mapfile -t packages < <(cut -d ' ' -f 1 "$1")
    local missed others
    missed="$(list "${packages[@]}" | grep --fixed-strings --line-regexp --invert-match --file=- "$1")" || return 0
    others="$(wc -l <<<"$missed")"
    printf 'error: %s\n    why: %s\n   hint: %s\n' \
        "apt does not have the file of '${missed%% *}' that the lock names" \
        "the mirror of Debian has changed since: it lacks $others of the lock's files" \
        "write a new lock, or name a mirror of the lock's time: LUMICONTAINER_MIRROR=URL" >&2
    exit 6
}

"$@"
