#!/usr/bin/env bash
set -euo pipefail

build="$TMPDIR/build"
python -m pip install --target "$build" --requirement build.txt

export PYTORCH_ROCM_ARCH=gfx90a MAX_JOBS="$jobs"
# Apex 1.10 asks these what to compile, and passes the options of 1.9 over (ROCm/apex pull request
# 296); what it does not compile, each job would.
export APEX_BUILD_CPP_OPS=1 APEX_BUILD_CUDA_OPS=1
# The wheel requires what this file lists. Apex's modules import these two; the others serve its
# tests, and kernels that jobs compile.
sed --in-place '/^\(numpy\|packaging\)\b/!d' "$sources/apex/requirements.txt"
# Apex 1.10 compiles for the processor that builds it; those of LUMI's GPU nodes are of Zen 3.
if [ -e "$sources/apex/op_builder/builder.py" ]; then
    sed --in-place 's/-march=native/-march=znver3/' "$sources/apex/op_builder/builder.py"
fi
PATH="$build/bin:$PATH" PYTHONPATH="$build" python -m pip wheel --no-deps --no-build-isolation \
    --config-settings "--build-option=--cpp_ext" --config-settings "--build-option=--cuda_ext" \
    --wheel-dir "$wheels" "$sources/apex"
