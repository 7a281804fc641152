#!/usr/bin/env bash
# Download a file; end with the exit status of curl.
#
#   download.sh FILE <URL      the URL comes by stdin: all users see command lines, and it may hold
#                              a password
set -euo pipefail
# shellcheck source=lumicontainer/step/limits.sh
. "${0%/*}/limits.sh"
file="$1"
read -r url
case "$url" in
file://*) protocols='=file' ;;
http://*) protocols='=http,https' ;;
*) protocols='=https' ;;
esac
quoted="${url//\\/\\\\}"

# Set $status to the exit status of curl and of head. Curl checks the size that a server states, and only
# since 8.4 the size that it sends.
attempt() {
    local left="$((seconds - SECONDS))"
    status=(0 0)
    curl --disable --fail --location --max-redirs 10 --globoff --silent --show-error \
        --proto "$protocols" --connect-timeout 30 --max-time "$((left > 0 ? left : 1))" \
        --speed-limit "$slowest" --speed-time "$window" --max-filesize "$most" \
        --write-out '%{stderr}\nanswer %{http_code} %header{retry-after}\n' --config - \
        <<<"url = \"${quoted//\"/\\\"}\"" 2>"$file.log" | head -c "$((most + 1))" >"$file" ||
        status=("${PIPESTATUS[@]}")
}

# Print the pause that an answer asks for; fail if another attempt is useless.
pause_after() {
    local code="$1" pause="$2" answer asked
    read -r answer asked <<<"$(sed -n 's/^answer //p' "$file.log")"
    case "$code" in
    22)
        case "$answer" in
        408 | 429 | 500 | 502 | 503 | 504) ;;
        *) return 1 ;;
        esac
        # A date, or the text of an old curl, is no number.
        [[ ! "$asked" =~ ^[0-9]{1,9}$ ]] || pause="$((10#$asked))"
        ;;
    # No address, no connection, too slow; or a connection that was cut or reset (curl's manual,
    # "EXIT CODES").
    5 | 6 | 7 | 16 | 18 | 28 | 35 | 52 | 55 | 56 | 92) ;;
    *) return 1 ;;
    esac
    [ "$pause" -le 60 ] && [ "$((SECONDS + pause))" -lt "$seconds" ] && printf '%s' "$pause"
}

give_up() {
    sed '/^answer /d; /^$/d' "$file.log" >&2
    rm -f "$file.log"
    exit "$1"
}

for pause in $pauses ''; do
    attempt
    if [ "$(wc -c <"$file")" -gt "$most" ]; then
        echo "the file has more than $most bytes" >"$file.log"
        give_up 63
    fi
    if [ "${status[1]}" -ne 0 ]; then
        # On a full disk no message can be kept until space is free.
        full="$(head -c 1000000 /dev/zero 2>&1 >"$file.more")" || true
        rm -f "$file" "$file.more"
        echo "$full" >"$file.log"
        give_up 23
    fi
    [ "${status[0]}" -ne 0 ] || break
    if [ -z "$pause" ] || ! pause="$(pause_after "${status[0]}" "$pause")"; then
        give_up "${status[0]}"
    fi
    sleep "$pause"
done
rm -f "$file.log"
