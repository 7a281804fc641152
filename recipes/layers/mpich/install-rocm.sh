#!/usr/bin/env bash
set -euo pipefail

if [[ $provider == wheel ]]; then
    python -m pip install --no-deps --require-hashes --requirement requirements.txt
    # For programs of later layers that are linked with its libmpi.so.12.
    python -c 'import sys; print(sys.prefix + "/lib")' >/etc/ld.so.conf.d/mpich.conf
    ldconfig
    exit
fi

mkdir "$TMPDIR/mpich"
tar --extract --file "$sources/mpich.tar.gz" --directory "$TMPDIR/mpich" --strip-components 1 \
    --no-same-owner
cd "$TMPDIR/mpich"

arguments=(
    --prefix=/usr --libdir=/usr/lib/x86_64-linux-gnu
    --with-device=ch4:ofi --with-libfabric=/usr --without-ucx
    # Its yaksa compiles kernels, for the GPU of this machine where none is named.
    --with-hip="$ROCM_PATH" --with-hip-sm="$HCC_AMDGPU_TARGET" --without-cuda
    --enable-fast=O3 --enable-threads=multiple --disable-fortran
)
# Only the layer slingshot that is built from source installs it.
if [[ -e /usr/include/xpmem.h ]]; then
    arguments+=(--with-xpmem=/usr)
fi
./configure "${arguments[@]}"
make -j "$jobs"
make install
ldconfig
