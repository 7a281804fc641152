#!/usr/bin/env bash
# /// check
# proves: all_reduce_perf of rccl-tests adds rightly on a GPU
# level: full
# needs: {gpus: 1, architecture: gfx90a}
# mend: build the layer rccl-tests again
# ///
set -euo pipefail

said="$(all_reduce_perf -b 1M -e 1M -g 1)"
echo "$said"
grep -q 'Out of bounds values : 0 OK' <<<"$said"
