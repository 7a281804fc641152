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

# A few objects can name each other so often that they become more files than any disk holds; the
# files of submodules count too. Folders count, because ls-tree is silent about those without files.
require_bounded() {
    local found entries bytes failed=''
    read -r entries bytes <"$work/bounded"
    found="$(limited_git -c core.quotePath=false ls-tree -r -t -l "$1" 2>>"$work/output" |
        awk -v entries="$entries" -v size="$bytes" -v files="$most_files" -v bytes="$most" '
            { entries += 1; size += $4 }
            entries > files { over = "it has more than " files " files and folders" }
            size > bytes { over = "its files have more than " bytes " bytes" }
            length($0) > 5000 { over = "it has a path of more than 4096 bytes" }
            /\.gitattributes"?$/ && $4 > 262144 { over = "it has a .gitattributes of " $4 " bytes" }
            over { print over; exit }
            END { if (!over) printf "%.0f %.0f\n", entries, size }')" || failed=1
    case "$found" in
    it*) fail "$what is too large" "$found" "use another commit" ;;
    esac
    [ -z "$failed" ] || fail "cannot list the files of $what" "$(output)" "use another commit"
    printf '%s\n' "$found" >"$work/bounded"
}

fetch_all() {
    try limited_git fetch --quiet "$url" '+refs/heads/*:refs/remotes/origin/*' '+refs/tags/*:refs/tags/*' ||
        fail "cannot fetch $what" "$(output)" \
            "check the URL and the network, or name a mirror: lumicontainer build --mirror FROM=TO"
}

# Print the only commit whose hash starts with $commit.
whole_commit() {
    local object found=()
    while read -r object; do
        if [ "$(git cat-file -t "$object")" = commit ]; then found+=("$object"); fi
    done < <(git rev-parse --disambiguate="$commit")
    case "${#found[@]}" in
    0) fail "$what has no commit $commit" "no branch or tag contains it" "correct the commit" ;;
    1) printf '%s' "${found[0]}" ;;
    *) fail "the commit $commit of '$name' is ambiguous" "it matches ${found[*]}" \
        "write all 40 digits" ;;
    esac
}

# Fetch the commit $commit of $url into the current folder, which is empty.
fetch_commit() {
    local whole
    git init --quiet .
    # A server may refuse to send a commit by its hash; a server of plain files cannot.
    if [ "${#commit}" -ne 40 ] || ! try limited_git fetch --quiet --depth 1 "$url" "$commit"; then
        fetch_all
    fi
    whole="$(whole_commit)"
    require_bounded "$whole"
    try limited_git checkout --quiet --force "$whole" ||
        fail "cannot write the files of $what" "$(output)" "use another commit"
    if [ "$(git rev-parse HEAD)" != "$whole" ]; then
        fail "'$name' is not at its commit" "HEAD is $(git rev-parse HEAD), not $whole" "report it"
    fi
    if [ "$commit" != "$whole" ]; then
        echo "note: the commit $commit of '$name' is $whole; write all 40 digits to pin it" >&2
    fi
    report_pointers
}

# Git-lfs keeps the content of files outside the repository, where no commit pins it.
report_pointers() {
    local pointers=()
    mapfile -d '' -t pointers < <(limited_git ls-files -z -- ':(attr:filter=lfs)')
    [ "${#pointers[@]}" -eq 0 ] || printf \
        'warning: %s has pointers to git-lfs in place of files (%s), such as %q\n' \
        "$what" "${#pointers[@]}" "${pointers[0]}" >&2
}

# Fetch the submodules of the repository in the current folder that are named or in a named folder,
# and all of theirs. "git submodule" would write their files before anybody can count them.
fetch_submodules() {
    local row wanted rows=() paths=() missing
    declare -A names=() urls=()
    mapfile -d '' -t rows < <(git ls-tree -r -z HEAD | sed -zn 's/^160000 commit //p')
    [ "${#rows[@]}" -ne 0 ] || [ "$*" != . ] || return 0
    printf 'x%.0s' "${rows[@]}" >>"$work/submodules"
    [ "$(wc -c <"$work/submodules")" -le "$most_submodules" ] || fail "$what is too large" \
        "it has more than $most_submodules submodules" "use another commit"
    paths=("${rows[@]#*$'\t'}")
    for wanted; do
        missing="$wanted"
        for row in "${paths[@]}"; do
            if is_below "$row" "$wanted"; then missing=''; fi
        done
        [ -z "$missing" ] || fail "$what has no submodule '$missing'" \
            "it has these: ${paths[*]}" "correct the path of the submodule"
    done
    read_modules
    for row in "${rows[@]}"; do
        for wanted; do
            if is_below "${row#*$'\t'}" "$wanted"; then
                (fetch_submodule "${row#*$'\t'}" "${row%%$'\t'*}")
                break
            fi
        done
    done
}

is_below() {
    case "$1/" in
    "${2%/}"/*) true ;;
    *) [ "$2" = . ] ;;
    esac
}

# Read the names of submodules by their paths, and their URLs by their names.
read_modules() {
    local row key value
    if [ "$(git cat-file -s HEAD:.gitmodules 2>/dev/null || echo 0)" -gt 1048576 ]; then
        fail "cannot read the submodules of $what" "its .gitmodules has more than 1 MiB" \
            "use another commit"
    fi
    while IFS= read -r -d '' row; do
        key="${row%%$'\n'*}" value="${row#*$'\n'}"
        key="${key#submodule.}"
        case "$key" in
        *.path) names["/$value"]="${key%.path}" ;;
        *.url) urls["/${key%.url}"]="$value" ;;
        esac
    done < <(git config --null --blob HEAD:.gitmodules --get-regexp '^submodule\..*\.(path|url)$')
}

# Fetch the commit of a submodule into its folder. A subshell keeps the folder that is current.
fetch_submodule() {
    local path="$1" commit="$2" top="$PWD" from written
    written="${urls["/${names["/$path"]-}"]-}"
    case "$written" in
    *[[:cntrl:]]*) written="${written@Q}" ;;&
    https://* | ./* | ../*) ;;
    *) fail "cannot fetch a submodule of '$name'" "its URL is '$written'" \
        "use a commit whose submodules come by https" ;;
    esac
    from="$(absolute "$written")"
    local url="$from" what="a submodule of '$name'"
    cd -P "./$path"
    [ "$PWD" = "$top/$path" ] || fail "cannot fetch $what" "'$path' is not its folder" \
        "use another commit"
    fetch_commit
    fetch_submodules .
}

# Print a URL of .gitmodules, which may be relative to that of its repository.
absolute() {
    local base="${url%/}" rest="$1"
    while :; do
        case "$rest" in
        ./*) rest="${rest#./}" ;;
        ../*) rest="${rest#../}" base="${base%/*}" ;;
        *) break ;;
        esac
    done
    [ "$rest" = "$1" ] || rest="$base/$rest"
    printf '%s' "$rest"
}

fetch_git() {
    local url="$1" commit="$2" name="$3" what="the repository of '$3'"
    local tree="$work/tree" target="$sources/$3"
    need git
    [ "${#commit}" -eq 40 ] || require_guarded "$(mirrored "$url")"
    prepare_git
    echo 0 0 >"$work/bounded"
    mkdir "$tree"
    cd -P "$tree"
    fetch_commit
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
