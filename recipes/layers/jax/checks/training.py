# /// check
# summary: JAX trains on the CPU as NumPy does, compiled and in batches
# timeout_seconds: 180
# hint: rebuild the layer jax
# ///

import os

# Its plugin for ROCm stops a program if there is no GPU; another check trains on one.
os.environ["JAX_PLATFORMS"] = "cpu"

import _steps

_steps.train()
