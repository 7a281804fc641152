#!/usr/bin/env bash
# Ask the pip of an image which packages it would install; it runs as the script of a layer.
#
# As in a build, pip isolates the code of sources, and installs what they name for it. Where that
# fails, or would build with another PyTorch, they are asked with the packages of the layers below.
set -euo pipefail
# shellcheck disable=SC2154  # A build defines $wheels.
ask() {
    rm -f "$wheels"/*.json
    python3 -m pip install --dry-run --no-input --report "$wheels/report.json" \
        --requirement lumicontainer-wanted.txt "$@"
}

ask_for_builds() {
    python3 lumicontainer-builds.py "$wheels/report.json" lumicontainer-wanted.txt "$wheels/builds.json"
}

if { ask && ask_for_builds; } 2>&1 | tee "$wheels/why"; then
    rm "$wheels/why"
elif ! ask --no-build-isolation 2>&1 | tee "$wheels/why"; then
    rm -f "$wheels"/*.json
fi
