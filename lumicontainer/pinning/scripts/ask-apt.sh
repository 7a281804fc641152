# shellcheck shell=bash disable=SC2154
# Ask apt in an image's base which packages each layer adds. The program that reads this file has
# defined $answers, the folder for the answers, apt_get with the options of a build, and
# $apt_files, the program apt-files.sh.
packages=()

# add SCRIPT: add the repositories of a layer. Its script may use packages of the layers before.
add() {
    apt_get install --no-install-recommends "${packages[@]}"
    packages=()
    bash "$1" && update
}

# A mirror that is frozen on a day has lists that are out of date; apt still checks who has signed them.
update() {
    local status=0
    apt_get update -o Acquire::Check-Valid-Until=false >"$answers/update" 2>&1 || status="$?"
    cat "$answers/update"
    return "$status"
}

# ask NUMBER PACKAGE...: write what apt would install to $answers/NUMBER, and the sha256 of its files to
# $answers/NUMBER.files; or why it refuses.
ask() {
    local number="$1"
    shift
    if apt_get install --simulate --no-install-recommends "${packages[@]}" "$@" \
        >"$answers/$number" 2>"$answers/$number.why"; then
        packages+=("$@")
        rm "$answers/$number.why"
        sed -nE 's/^Inst (\S+) (\[[^]]*\] )?\((\S+) .*/\1=\3/p' "$answers/$number" |
            xargs --no-run-if-empty bash -c "$apt_files" bash list >"$answers/$number.files"
    else
        rm "$answers/$number"
        cat "$answers/update" >>"$answers/$number.why"
        apt-cache pkgnames >"$answers/names"
        cat "$answers/$number.why" >&2
    fi
}

update
