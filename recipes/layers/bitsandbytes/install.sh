#!/usr/bin/env bash
set -euo pipefail

python -m pip install --no-deps --only-binary :all: --require-hashes --requirement requirements.txt
# The wheel has a library for each CUDA, ROCm and XPU. On a machine without a GPU it loads the one for the CPU.
python keep_libraries.py
