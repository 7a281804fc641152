#!/usr/bin/env bash
# Ask the pip of an image which packages it would install; it runs as the script of a layer.
set -euo pipefail
# shellcheck disable=SC2154  # A build defines $wheels.
if ! python3 -m pip install --dry-run --no-input --no-build-isolation \
    --report "$wheels/report.json" --requirement lumicontainer-wanted.txt 2>&1 | tee "$wheels/why"; then
    rm -f "$wheels/report.json"
fi
