#!/usr/bin/env bash
set -euo pipefail

if [[ $provider == debian ]]; then
    exit
fi

cd "$sources/rccl"
# An option of AMD's compiler, which Debian's clang does not know. It only makes the build faster.
sed --in-place '/-parallel-jobs=/d' CMakeLists.txt

arguments=(
    -G Ninja -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_INSTALL_PREFIX=/usr -DCMAKE_INSTALL_LIBDIR=lib/x86_64-linux-gnu
    -DCMAKE_CXX_COMPILER="$ROCM_PATH/bin/hipcc" -DROCM_PATH="$ROCM_PATH" -DGPU_TARGETS="$GPU_TARGETS"
    # MSCCL++ is for gfx942; Debian has no rocprofiler-register.
    -DENABLE_MSCCLPP=OFF -DENABLE_MSCCL_KERNEL=OFF -DRCCL_ROCPROFILER_REGISTER=OFF
)
if [[ $kernels ]]; then arguments+=(-DONLY_FUNCS="$kernels"); fi
cmake -S . -B "$TMPDIR/rccl" "${arguments[@]}"
cmake --build "$TMPDIR/rccl" --parallel "$jobs"
cmake --install "$TMPDIR/rccl"
ldconfig
