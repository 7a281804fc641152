#!/usr/bin/env bash
set -euo pipefail

if [[ ! -e /dev/kfd ]]; then
    echo "no /dev/kfd: this machine has no GPU of AMD's with its driver"
    exit 77
fi
said="$(all_reduce_perf -b 1M -e 1M -g 1)"
echo "$said"
grep -q 'Out of bounds values : 0 OK' <<<"$said"
