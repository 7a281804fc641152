#!/usr/bin/env bash
# Fetch one source of a layer into the folder $sources, and check it before use.
#
#   fetch.sh git URL COMMIT FOLDER [SUBMODULE…]    a plain tree of the commit, without .git
#   fetch.sh url URL FILE [SHA256]
#
# Errors name the URL of the layer, not the mirror's.
set -euo pipefail
# shellcheck source=lumicontainer/step/mirrors.sh
. "${0%/*}/mirrors.sh"
# shellcheck source=lumicontainer/step/limits.sh
. "${0%/*}/limits.sh"

: "${sources:?}"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT

# fail WHAT WHY HINT
fail() {
    local why where="$url"
    why="$(original "$2")"
    [ "$(mirrored "$url")" = "$url" ] || where="$url, from a mirror"
    printf 'error: %s\n  where: %s\n    why: %s\n   hint: %s\n' \
        "$1" "$where" "${why//$'\n'/$'\n         '}" "$3" >&2
    exit 6
}

need() {
    command -v "$1" >/dev/null && return
    fail "the image has no $1, which fetches '$name'" "no package of a layer so far provides it" \
        "add $1 and ca-certificates to packages.apt of this layer or an earlier one"
}

# Plain http to another host needs a hash.
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
        "its mirror uses plain http, so that others could change it" \
        "add its sha256 (a commit of 40 digits), or use a mirror with https"
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

# Try a command; keep its output for the message if all attempts fail.
try() {
    "$@" >>"$work/output" 2>&1
}

output() {
    tail -n 5 "$work/output"
}

# Print a URL without its password, which goes to a file for git: all users see command lines.
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

# Use a separate home, so that git ignores settings of the user and the system, such as insteadOf and
# filters. The settings are in a file because git hides its environment from the server of a local
# repository. No hook runs, wherever it comes from.
prepare_git() {
    local from to allowed=https
    export HOME="$work" GIT_CONFIG_NOSYSTEM=1 GIT_TERMINAL_PROMPT=0
    export GIT_NO_LAZY_FETCH=1
    unset XDG_CONFIG_HOME GIT_CONFIG_GLOBAL GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS GIT_DIR GIT_WORK_TREE
    unset GIT_TEMPLATE_DIR
    git config --global safe.directory '*'
    git config --global advice.detachedHead false
    git config --global init.defaultBranch main
    git config --global core.hooksPath /dev/null
    git config --global core.fsmonitor false
    git config --global core.packedGitLimit 4g
    git config --global http.lowSpeedLimit "$slowest"
    git config --global http.lowSpeedTime "$window"
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

# Run git with a limit of time, of memory, and of the size of its largest file, which is the pack.
limited_git() {
    (
        [ "$(ulimit -S -f)" != unlimited ] || ulimit -S -f "$((most / 1024))"
        [ "$(ulimit -S -v)" != unlimited ] || ulimit -S -v "$most_memory"
        exec timeout --kill-after 10 "$seconds" git "$@"
    )
}

# A few objects can name each other so often that they become more files than any disk holds.
require_bounded() {
    local found
    found="$(git ls-tree -r -l "$1" | awk -v files="$most_files" -v bytes="$most" '
        { size += $4 }
        NR > files { print "it has more than " files " files"; exit }
        size > bytes { print "its files have more than " bytes " bytes"; exit }' || true)"
    [ -z "$found" ] || fail "the repository of '$name' is too large" "$found" "use another commit"
}

fetch_all() {
    try limited_git fetch --quiet "$url" '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*' ||
        fail "cannot fetch the repository of '$name'" "$(output)" \
            "check the URL and the network, or name a mirror: lumicontainer build --mirror FROM=TO"
}

# Print the only commit whose hash starts with $commit.
whole_commit() {
    local object found=()
    while read -r object; do
        if [ "$(git cat-file -t "$object")" = commit ]; then found+=("$object"); fi
    done < <(git rev-parse --disambiguate="$commit")
    case "${#found[@]}" in
    0) fail "the repository of '$name' has no commit $commit" "no branch or tag contains it" \
        "correct the commit" ;;
    1) printf '%s' "${found[0]}" ;;
    *) fail "the commit $commit of '$name' is ambiguous" "it matches ${found[*]}" \
        "write all 40 digits" ;;
    esac
}

# Fetch the named submodules of the repository in the current folder, and all of theirs.
fetch_submodules() {
    local path where
    while IFS= read -r -d '' where; do
        case "${where#*$'\n'}" in
        https://* | ./* | ../*) ;;
        *) fail "cannot fetch a submodule of '$name'" "its URL is '${where#*$'\n'}'" \
            "use a commit whose submodules come by https" ;;
        esac
    done < <(git config --null --file .gitmodules --get-regexp '^submodule\..*\.url$')
    try limited_git submodule update --quiet --init --checkout --depth 1 -- "$@" ||
        try limited_git submodule update --quiet --init --checkout -- "$@" ||
        fail "cannot fetch a submodule of '$name'" "$(output)" \
            "name a mirror of its URL too: lumicontainer build --mirror FROM=TO"
    for path; do
        (fetch_inner_submodules "$path")
    done
}

fetch_inner_submodules() {
    local inner=()
    cd "$1"
    require_bounded HEAD
    if [ -f .gitmodules ]; then
        mapfile -d '' -t inner < <(git ls-files --stage -z | sed -zn 's/^160000 [0-9a-f]* 0\t//p')
        [ "${#inner[@]}" -eq 0 ] || fetch_submodules "${inner[@]}"
    fi
}

fetch_git() {
    local url="$1" commit="$2" name="$3" whole
    local tree="$work/tree" target="$sources/$3"
    need git
    [ "${#commit}" -eq 40 ] || require_guarded "$(mirrored "$url")"
    prepare_git
    git init --quiet "$tree"
    cd "$tree"
    git remote add origin "$url"
    # A server may refuse to send a commit by its hash; a server of plain files cannot.
    if [ "${#commit}" -ne 40 ] || ! try limited_git fetch --quiet --depth 1 "$url" "$commit"; then
        fetch_all
    fi
    whole="$(whole_commit)"
    require_bounded "$whole"
    git checkout --quiet --force "$whole"
    if [ "$(git rev-parse HEAD)" != "$whole" ]; then
        fail "'$name' is not at its commit" "HEAD is $(git rev-parse HEAD), not $whole" "report it"
    fi
    if [ "$commit" != "$whole" ]; then
        echo "note: the commit $commit of '$name' is $whole; write all 40 digits to pin it" >&2
    fi
    shift 3
    [ "$#" -eq 0 ] || fetch_submodules "$@"
    cd /
    find "$tree" -name .git -prune -exec rm -rf {} +
    put "$tree" "$target"
}

fetch_url() {
    local url="$1" name="$2" wanted="${3:-}" from found
    local file="$work/file" target="$sources/$2"
    need curl
    from="$(mirrored "$url")"
    [ -n "$wanted" ] || require_guarded "$from"
    try bash "${0%/*}/download.sh" "$file" <<<"$from" ||
        fail "cannot download '$name'" "$(output)" \
            "check the URL and the network, or name a mirror: lumicontainer build --mirror FROM=TO"
    found="$(sha256sum <"$file")"
    found="${found%% *}"
    if [ -z "$wanted" ]; then
        echo "note: '$name' is not pinned; its sha256 is $found" >&2
    elif [ "$found" != "$wanted" ]; then
        fail "'$name' does not match its sha256" "expected $wanted, got $found" \
            "correct the sha256 if upstream changed it on purpose"
    fi
    put "$file" "$target"
}

# Move a source to its place, with the time of all files in an image. With equal times, make does not
# rebuild files that upstream generated.
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
