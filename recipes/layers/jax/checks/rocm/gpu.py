# /// check
# summary: JAX finds the GPU, and trains on it as NumPy does
# level: full
# runs: node
# timeout_seconds: 300
# needs: {gpus: 1}
# hint: read JAX's own message above; lumi-verify -k jax/plugin says whether its plugin loads
# ///

import _steps
import jax
from lumi_inside.checking import failed

device = jax.devices()[0]
# It goes on with the CPU where its plugin fails, and logs an error.
if device.platform == "cpu":
    failed(f"JAX computes on {device}, though there is a GPU")
_steps.train()
