#!/usr/bin/env bash
set -euo pipefail

build="$TMPDIR/build"
python -m pip install --target "$build" --requirement build.txt

# Downloading a source package runs its setup.py for the metadata: without isolation, as the build below.
python -m pip download --no-deps --no-build-isolation --no-binary horovod \
    --require-hashes --requirement requirements.txt
tar --extract --no-same-owner --file "horovod-$version.tar.gz"
for change in cxx17 gcc13 no-debug-info rocm/hip; do
    patch --directory "horovod-$version" --strip 1 <"$change.patch"
done

export HOROVOD_CMAKE="$build/cmake/data/bin/cmake"
export HOROVOD_WITH_MPI=1 HOROVOD_WITHOUT_GLOO=1 HOROVOD_CPU_OPERATIONS=MPI
export HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 HOROVOD_WITHOUT_MXNET=1
# HOROVOD_ROCM_PATH and HOROVOD_RCCL_HOME, which older recipes set, are read by nothing in Horovod.
export HOROVOD_GPU=ROCM HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_ROCM_HOME="$ROCM_PATH"
# hipcc's target; it asks a GPU for its own otherwise.
export HCC_AMDGPU_TARGET=gfx90a
# Horovod includes <rccl.h>, and RCCL's CMake package names the folder above it only.
export CPATH="$ROCM_PATH/include/rccl"
export MAKEFLAGS="-j$jobs"
python -m pip wheel --no-deps --no-build-isolation --wheel-dir "$wheels" "./horovod-$version"
