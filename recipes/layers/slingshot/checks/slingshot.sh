#!/usr/bin/env bash
# /// check
# proves: libfabric sees the Slingshot devices of this node
# level: full
# needs: {network: cxi}
# mend: "ask for the nodes' network (srun --network), and look at the binds: lumicontainer binds IMAGE"
# ///
set -euo pipefail

fi_info --provider cxi
