#!/usr/bin/env bash
# Install a Jupyter client and MPICH's mpirun into a virtual environment, and print its folder.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
readonly FOLDER=build/clients
# The last thing that is made, so that an installation cut short is begun again.
readonly WHOLE=$FOLDER/whole
if [[ ! -e $WHOLE ]]; then
    rm -rf "$FOLDER"
    .venv/bin/python -m venv "$FOLDER"
    "$FOLDER/bin/python" -m pip install --quiet --disable-pip-version-check jupyter_client mpich >&2
    touch "$WHOLE"
fi
printf '%s\n' "$PWD/$FOLDER"
