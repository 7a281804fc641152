# shellcheck shell=bash
# Replace URLs while an image is built. LUMICONTAINER_MIRRORS has lines "FROM TO"; the longest FROM
# that a URL starts with is replaced by TO.
mirrors="${LUMICONTAINER_MIRRORS:-}"

# Print a URL with its mirror, or unchanged.
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
