#!/usr/bin/env bash
# /// check
# summary: libfabric sees the Slingshot devices of this node
# level: full
# needs: {network: cxi}
# hint: "ask for the nodes' network (srun --network), and look at the binds: lumicontainer binds IMAGE"
# ///
set -euo pipefail

if ! fi_info --provider cxi; then
    echo "libfabric finds no device of Slingshot's on this node" >&2
    exit 1
fi
