#!/usr/bin/env bash
set -euo pipefail

. ./gpu-tools.sh
gpu_tools | while read -r tool; do
    # A newer one of a later layer stays.
    if cmp --silent one-gfx90a.sh "$tool"; then
        mv --force "$tool.real" "$tool"
    else
        rm --force "$tool.real"
    fi
done
