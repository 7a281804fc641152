#!/usr/bin/env bash
set -euo pipefail

# Downloading a source package runs its setup.py for the metadata: without isolation, as the build below.
python -m pip download --no-deps --no-build-isolation --no-binary deepspeed \
    --require-hashes --requirement requirements.txt
tar --extract --no-same-owner --file "deepspeed-$version.tar.gz"
patch --directory "deepspeed-$version" --strip 1 <cpu-ops.patch

# DeepSpeed asks rocminfo for the wave size, and takes 32 where that names no GPU: kernels that depend on it
# would compute nonsense on gfx90a, and say nothing.
cd "deepspeed-$version"
wave="$(python -c 'from op_builder.builder import OpBuilder; print(OpBuilder.get_rocm_wavefront_size())')"
cd ..
if [[ $wave != 64 ]]; then
    echo "error: DeepSpeed would be compiled for a wave size of $wave, and gfx90a has 64" >&2
    echo "    why: $ROCM_PATH/bin/rocminfo names no GPU of that kind, nor does what stands in for it" >&2
    echo "   hint: put the layer 'rocm' before 'deepspeed'" >&2
    exit 1
fi

# The DS_BUILD_* flags are parameters of the layer, and stand in the environment already.
export PYTORCH_ROCM_ARCH=gfx90a
export DS_BUILD_MARCH="$march" DS_ENABLE_NINJA=1 MAX_JOBS="$jobs" CFLAGS="-g0 -include $PWD/rocm/wave_size.h"
python -m pip wheel --no-deps --no-build-isolation --wheel-dir "$wheels" "./deepspeed-$version"
