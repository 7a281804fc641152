#!/usr/bin/env bash
# Download a file; end with the exit status of curl.
#
#   download.sh FILE <URL      the URL comes by stdin: all users see command lines, and it may hold
#                              a password
set -euo pipefail
file="$1"
read -r url
case "$url" in
file://*) protocols='=file' ;;
http://*) protocols='=http,https' ;;
*) protocols='=https' ;;
esac
quoted="${url//\\/\\\\}"

attempt() {
    curl --disable --fail --location --globoff --silent --show-error --proto "$protocols" \
        --retry 4 --retry-connrefused --connect-timeout 30 --speed-limit 1 --speed-time 120 \
        --output "$file" --config - <<<"url = \"${quoted//\"/\\\"}\""
}

for pause in 1 4 ''; do
    status=0
    attempt || status=$?
    case "$status" in
    # Connections that were cut or reset, which curl does not repeat (its manual, "EXIT CODES").
    16 | 18 | 35 | 52 | 55 | 56 | 92) [ -n "$pause" ] && sleep "$pause" || exit "$status" ;;
    *) exit "$status" ;;
    esac
done
