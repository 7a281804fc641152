#!/usr/bin/env bash
set -euo pipefail

if [[ $provider == wheel ]]; then
    python -m pip install --no-deps --require-hashes --requirement requirements.txt
    exit
fi

mkdir "$TMPDIR/mpich"
tar --extract --file "$sources/mpich.tar.gz" --directory "$TMPDIR/mpich" --strip-components 1 \
    --no-same-owner
cd "$TMPDIR/mpich"

arguments=(
    --prefix=/usr --libdir=/usr/lib/x86_64-linux-gnu
    --with-device=ch4:ofi --with-libfabric=/usr --without-ucx
    --with-hip="$ROCM_PATH" --without-cuda
    --enable-fast=O3 --enable-threads=multiple --disable-fortran
)
# Only the slingshot that is built from source has it.
if [[ -e /usr/include/xpmem.h ]]; then
    arguments+=(--with-xpmem=/usr)
fi
# Since 5.0 MPICH compiles kernels of its own, for the GPU of this machine where none is named.
if [[ ${version%%.*} -ge 5 ]]; then
    arguments+=(--with-hip-sm="$HCC_AMDGPU_TARGET")
fi
./configure "${arguments[@]}"
make -j "$jobs"
make install
ldconfig
if [[ $provider == host ]]; then
    # The mount points of what the host brings.
    mkdir -p /opt/cray /run/cxi
fi
