#!/usr/bin/env bash
set -euo pipefail

# By name, so that pip records no folder of the build as where it came from.
python -m pip install --no-deps --no-index --find-links "$wheels" flash-attn
