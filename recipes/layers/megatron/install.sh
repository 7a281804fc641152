#!/usr/bin/env bash
set -euo pipefail

tree=/opt/megatron-deepspeed
cp --recursive --no-preserve=ownership "$sources/megatron-deepspeed" "$tree"
python modernize.py "$tree"
# A job would compile these at its start, into this folder, which is read-only in an image.
make --directory "$tree/megatron/data"

site="$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
echo "$tree" >"$site/megatron-deepspeed.pth"
if [[ $fused_kernels == 1 ]]; then
    PYTORCH_ROCM_ARCH=gfx90a MAX_JOBS="$jobs" python compile_kernels.py
    echo "$tree/megatron/fused_kernels/build" >>"$site/megatron-deepspeed.pth"
    cat compiled.py >>"$tree/megatron/fused_kernels/__init__.py"
fi
