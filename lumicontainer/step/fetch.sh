#!/usr/bin/env bash
# Bring one source of a layer into the folder $sources, checked before anything uses it.
#
#   fetch.sh git URL COMMIT FOLDER [submodules]    a plain tree of the commit, without .git
#   fetch.sh url URL FILE [SHA256]
#
# What went wrong is told with the URL as it is written, not with the mirror's.
set -euo pipefail
# shellcheck source=lumicontainer/step/mirrors.sh
. "${0%/*}/mirrors.sh"

: "${sources:?}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# fail WHAT WHY MEND
fail() {
    local told where="$url"
    told="$(original "$2")"
    [ "$(mirrored "$url")" = "$url" ] || where="$url, from a mirror"
    printf 'error: %s\n  where: %s\n    why: %s\n   hint: %s\n' \
        "$1" "$where" "${told//$'\n'/$'\n         '}" "$3" >&2
    exit 6
}

need() {
    command -v "$1" >/dev/null && return
    fail "the image has no $1, which '$name' is fetched with" "no package of a layer up to here has it" \
        "add $1 and ca-certificates to packages.apt of this layer or an earlier one"
}

# Nothing but a hash proves what comes by plain http, unless it never leaves this host.
require_guarded() {
    local authority
    case "$1" in
    http://*) authority="${1#http://}" authority="${authority%%/*}" ;;
    *) return 0 ;;
    esac
    case "$authority" in
    *@*) ;;
    127.0.0.1 | 127.0.0.1:* | localhost | localhost:* | '[::1]' | '[::1]':*) return 0 ;;
    esac
    fail "'$name' was not fetched: nothing pins it" \
        "its mirror is one by plain http: anyone on the way could change it" \
        "add its sha256 (a commit of 40 digits), or name a mirror by https"
}

original() {
    local from to text="$1"
    while read -r from to; do
        [ -n "$to" ] || continue
        text="${text//"$to"/"$from"}"
        text="${text//"${to#file://}"/"$from"}"
    done <<<"$mirrors"
    printf '%s' "$text"
}

# Try a command; what it says is kept for the message, should all attempts fail.
try() {
    "$@" >>"$work/said" 2>&1
}

said() {
    tail -n 5 "$work/said"
}

# Print a URL without its password, which git finds in a file: all users see the words of a command.
set_password_apart() {
    local rest="${1#*://}" authority
    authority="${rest%%/*}"
    case "$authority" in
    *@*)
        (umask 077 && printf '%s\n' "${1%%://*}://$authority" >>"$work/passwords")
        printf '%s' "${1%%://*}://${authority##*@}${rest#"$authority"}"
        ;;
    *) printf '%s' "$1" ;;
    esac
}

# A home of its own, so that the user's and the system's settings of git, such as insteadOf, do not
# count. It is a file because git hides settings in the environment from the server of a local
# repository, which refuses the folder of another user.
prepare_git() {
    local from to allowed=https
    export HOME="$work" GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
    unset XDG_CONFIG_HOME GIT_CONFIG_GLOBAL GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_DIR GIT_WORK_TREE
    git config --global safe.directory '*'
    git config --global advice.detachedHead false
    git config --global init.defaultBranch main
    while read -r from to; do
        [ -n "$to" ] || continue
        to="$(set_password_apart "$to")"
        git config --global --add "url.$to.insteadOf" "$from"
        case "$to" in
        http://*) allowed="$allowed:http" ;;
        file://*) allowed="$allowed:file" ;;
        esac
    done <<<"$mirrors"
    git config --global credential.helper "store --file='$work/passwords'"
    export GIT_ALLOW_PROTOCOL="$allowed"
}

fetch_all() {
    try git fetch --quiet "$url" '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*' ||
        fail "the repository of '$name' could not be fetched" "$(said)" \
            "check the URL and the network, or name a mirror: lumicontainer build --mirror FROM=TO"
}

# Print the one commit that begins with the digits in $commit.
whole_commit() {
    local object found=()
    while read -r object; do
        if [ "$(git cat-file -t "$object")" = commit ]; then found+=("$object"); fi
    done < <(git rev-parse --disambiguate="$commit")
    case "${#found[@]}" in
    0) fail "the repository of '$name' has no commit $commit" "none of its branches and tags has it" \
        "correct the commit" ;;
    1) printf '%s' "${found[0]}" ;;
    *) fail "the commit $commit of '$name' is ambiguous" "these begin so: ${found[*]}" \
        "write all 40 digits" ;;
    esac
}

fetch_git() {
    local url="$1" commit="$2" name="$3" submodules="${4:-}" whole
    local tree="$work/tree" target="$sources/$3"
    need git
    [ "${#commit}" -eq 40 ] || require_guarded "$(mirrored "$url")"
    prepare_git
    git init --quiet "$tree"
    cd "$tree"
    git remote add origin "$url"
    # A server may refuse to give a commit by its hash alone, and one of plain files cannot.
    if [ "${#commit}" -ne 40 ] || ! try git fetch --quiet --depth 1 "$url" "$commit"; then
        fetch_all
    fi
    whole="$(whole_commit)"
    git checkout --quiet --force "$whole"
    if [ "$(git rev-parse HEAD)" != "$whole" ]; then
        fail "'$name' is not at its commit" "HEAD is $(git rev-parse HEAD), not $whole" "report it"
    fi
    if [ "$commit" != "$whole" ]; then
        echo "note: the commit $commit of '$name' is $whole; all 40 digits would pin it" >&2
    fi
    if [ -n "$submodules" ]; then
        try git submodule update --quiet --init --recursive --depth 1 ||
            try git submodule update --quiet --init --recursive ||
            fail "a submodule of '$name' could not be fetched" "$(said)" \
                "name a mirror of its URL too: lumicontainer build --mirror FROM=TO"
    fi
    cd /
    find "$tree" -name .git -prune -exec rm -rf {} +
    put "$tree" "$target"
}

fetch_url() {
    local url="$1" name="$2" wanted="${3:-}" from quoted protocols found full=''
    local file="$work/file" target="$sources/$2"
    need curl
    from="$(mirrored "$url")"
    [ -n "$wanted" ] || require_guarded "$from"
    case "$from" in
    file://*) protocols='=file' ;;
    http://*) protocols='=http,https' ;;
    *) protocols='=https' ;;
    esac
    # In a file, because all users see the words of a command, and a mirror's URL may hold a password.
    quoted="${from//\\/\\\\}"
    (umask 077 && printf 'url = "%s"\n' "${quoted//\"/\\\"}" >"$work/curl")
    try curl --disable --fail --location --globoff --silent --show-error --proto "$protocols" \
        --retry 4 --retry-connrefused --connect-timeout 30 --speed-limit 1 --speed-time 120 \
        --output "$file" --config "$work/curl" || {
        # 23: curl tells that it cannot write, and not why; the next that writes tells.
        [ "$?" -ne 23 ] || full="$(dd if=/dev/zero of="$work/more" bs=1M count=1 2>&1)" || true
        fail "'$name' could not be downloaded" "$(said)${full:+ $full}" \
            "check the URL and the network, or name a mirror: lumicontainer build --mirror FROM=TO"
    }
    found="$(sha256sum <"$file")"
    found="${found%% *}"
    if [ -z "$wanted" ]; then
        echo "note: '$name' is not pinned; what came has the sha256 $found" >&2
    elif [ "$found" != "$wanted" ]; then
        fail "'$name' is not what it should be" "its sha256 is $found, not $wanted" \
            "if upstream changed it on purpose, correct the sha256; otherwise do not use it"
    fi
    put "$file" "$target"
}

# Give what was fetched its name, and the time that everything in an image has: files of one time
# also keep make from thinking that a generated one is older than what it was made of.
put() {
    if [ -n "${SOURCE_DATE_EPOCH:-}" ]; then
        find "$1" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
    fi
    mkdir -p "$sources"
    mv --no-target-directory "$1" "$2"
}

kind="$1"
shift
"fetch_$kind" "$@"
