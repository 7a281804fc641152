#!/usr/bin/env bash
# /// check
# summary: every folder that LUMI's modules bind is there, so that any engine can bind it
# hint: rebuild the layer rocm
# ///
set -euo pipefail

for folder in /user-software /runscripts; do
    if [[ ! -d $folder ]]; then
        echo "$folder not found, which LUMI's modules bind" >&2
        exit 1
    fi
done
echo "every folder that LUMI's modules bind is there"
