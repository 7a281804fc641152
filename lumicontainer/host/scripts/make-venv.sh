#!/usr/bin/env bash
# Make the virtual environment of a checkout, installing by apt what is missing for it.
# Usage: make-venv.sh FOLDER PYTHON
set -euo pipefail

readonly FOLDER=$1 WANTED=$2

fail() {
    printf 'make-venv: error: %s\n' "$*" >&2
    exit 3
}

fits() {
    "$1" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

as_root() {
    if ((EUID == 0)); then
        "$@"
    else
        type -P sudo >/dev/null || fail "this needs root: install python3-venv, or sudo."
        sudo -- "$@"
    fi
}

if ! fits "$WANTED"; then
    type -P apt-get >/dev/null || fail "$WANTED is not Python 3.11 or newer with venv: install one, then make PYTHON=…"
    as_root apt-get update -qq
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends python3 python3-venv >&2
    fits "$WANTED" || fail "$WANTED is older than Python 3.11: name a newer one with make PYTHON=…"
fi
# One that was interrupted has no pip yet.
"$FOLDER/bin/python" -m pip --version >/dev/null 2>&1 || "$WANTED" -m venv --clear "$FOLDER"
"$FOLDER/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[dev,docs]'
# What pip does for a wheel: else a user who lets Python write no bytecode compiles at every start.
"$FOLDER/bin/python" -m compileall -q lumicontainer
