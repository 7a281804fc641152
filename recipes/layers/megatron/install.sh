#!/usr/bin/env bash
set -euo pipefail

tree=/opt/megatron-deepspeed
cp --recursive --no-preserve=ownership "$sources/megatron-deepspeed" "$tree"
python modernize.py "$tree"
# A job would compile these at its start, into this folder, which is read-only in an image. Its Makefile asks the
# distribution's Python for the suffix, which may be another one.
suffix="$(python -c 'import sysconfig; print(sysconfig.get_config_var("EXT_SUFFIX"))')"
make --directory "$tree/megatron/data" LIBEXT="$suffix"

site="$(python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')"
echo "$tree" >"$site/megatron-deepspeed.pth"
if [[ $fused_kernels == 1 ]]; then
    PYTORCH_ROCM_ARCH=gfx90a MAX_JOBS="$jobs" python compile_kernels.py "$tree"
    echo "$tree/megatron/fused_kernels/build" >>"$site/megatron-deepspeed.pth"
    cat compiled.py >>"$tree/megatron/fused_kernels/__init__.py"
fi
