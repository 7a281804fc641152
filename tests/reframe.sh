#!/usr/bin/env bash
# Install ReFrame into a virtual environment of its own, and print the path of its program.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly FOLDER=build/reframe VERSION=4.10.4
# The last thing that is made, so that an installation cut short is begun again.
readonly WHOLE=$FOLDER/whole-$VERSION
if [[ ! -e $WHOLE ]]; then
    rm -rf "$FOLDER"
    .venv/bin/python -m venv "$FOLDER"
    "$FOLDER/bin/python" -m pip install --quiet --disable-pip-version-check "ReFrame-HPC==$VERSION" >&2
    touch "$WHOLE"
fi
printf '%s\n' "$PWD/$FOLDER/bin/reframe"
