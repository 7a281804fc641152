# /// check
# summary: JAX trains as NumPy does, compiled and in batches
# timeout_seconds: 180
# hint: rebuild the layer jax
# ///

import _steps

_steps.train()
