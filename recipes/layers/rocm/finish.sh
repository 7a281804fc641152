#!/usr/bin/env bash
set -euo pipefail

. ./gpu-tools.sh
gpu_tools | while read -r tool; do
    # Where a later layer has brought a newer one, that stays.
    if cmp --silent one-gfx90a.sh "$tool"; then
        mv --force "$tool.real" "$tool"
    else
        rm --force "$tool.real"
    fi
done
