#!/usr/bin/env bash
# Unpack Lmod and Environment Modules, and print their folder. Debian's packages exclude each other.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly FOLDER=build/modules
# The last thing that is made, so that an unpacking cut short is begun again.
readonly WHOLE=$FOLDER/whole

download() { (cd "$FOLDER/packages" && apt-get download -qq lmod environment-modules >&2); }

if [[ ! -e $WHOLE ]]; then
    rm -rf "$FOLDER"
    mkdir -p "$FOLDER/packages"
    if ! download; then
        # Without the lists of packages nothing can be downloaded.
        if ((EUID)); then sudo apt-get update -qq >&2; else apt-get update -qq >&2; fi
        download
    fi
    for package in "$FOLDER"/packages/*.deb; do
        dpkg-deb --extract "$package" "$FOLDER"
    done
    touch "$WHOLE"
fi
printf '%s\n' "$PWD/$FOLDER"
