#!/usr/bin/env bash
set -euo pipefail

build="$TMPDIR/build"
python -m pip install --target "$build" --requirement build.txt

export PYTORCH_ROCM_ARCH=gfx90a MAX_JOBS="$jobs"
PATH="$build/bin:$PATH" PYTHONPATH="$build" python -m pip wheel --no-deps --no-build-isolation \
    --config-settings "--build-option=--cpp_ext" --config-settings "--build-option=--cuda_ext" \
    --wheel-dir "$wheels" "$sources/apex"
