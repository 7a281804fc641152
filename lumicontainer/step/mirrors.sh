# shellcheck shell=bash
# What stands in the place of URLs while an image is built, by the lines "FROM TO" in
# LUMICONTAINER_MIRRORS: of the FROMs that a URL begins with, the longest is replaced.
mirrors="${LUMICONTAINER_MIRRORS:-}"

# Print a URL at its mirror, or as it is where it has none.
mirrored() {
    local from to longest='' result="$1"
    while read -r from to; do
        if [ -n "$to" ] && [[ "$1" == "$from"* ]] && [ "${#from}" -gt "${#longest}" ]; then
            longest="$from"
            result="$to${1#"$from"}"
        fi
    done <<<"$mirrors"
    printf '%s' "$result"
}
