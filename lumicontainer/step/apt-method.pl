#!/usr/bin/env bash
# Stand before the method of apt that has this file's name, and tell apt what a mirror has.
#
# A method reads messages, each of lines up to an empty one (libapt-pkg-doc, method). What a mirror has
# is answered with "103 Redirect", as apt's own method "mirror" does, and all else is the method's own
# work. Nothing of it is left in an image: apt calls files by the URLs that its sources hold.
set -euo pipefail
# shellcheck source=lumicontainer/step/mirrors.sh
. "${0%/*}/mirrors.sh"

exec {method}> >(exec "/usr/lib/apt/methods/${0##*/}")
message='' url=''
while IFS= read -r line; do
    message+="$line"$'\n'
    case "$line" in
    URI:*)
        url="${line#URI:}"
        url="${url# }"
        ;;
    '')
        there="$(mirrored "$url")"
        if [[ $message == 600* && $there != "$url" ]]; then
            printf '103 Redirect\nURI: %s\nNew-URI: %s\n\n' "$url" "$there"
        else
            printf '%s' "$message" >&"$method"
        fi
        message='' url=''
        ;;
    esac
done
exec {method}>&-
wait
