#!/usr/bin/env bash
set -euo pipefail

if [[ ! -d $sources/$plugin ]]; then
    echo "error: version $version is none of $plugin" >&2
    echo "   mend: set rccl-plugin.plugin and rccl-plugin.version so that they go together" >&2
    exit 1
fi

libraries=/usr/lib/x86_64-linux-gnu
arguments=(--prefix=/usr --libdir="$libraries" --with-libfabric=/usr --enable-trace --disable-tests)
case "$plugin" in
aws-ofi-nccl) arguments+=(--with-rocm="$ROCM_PATH" --with-hwloc=/usr) ;;
aws-ofi-rccl)
    arguments+=(--with-hip="$ROCM_PATH" --with-rccl="$ROCM_PATH" CPPFLAGS="-include $PWD/container_of.h")
    ;;
esac
cd "$sources/$plugin"
./autogen.sh
./configure "${arguments[@]}"
make -j "$jobs"
make install
# The name that RCCL looks for of its own accord; some builds install librccl-net-ofi.so alone.
if [[ ! -e $libraries/librccl-net.so ]]; then
    ln --symbolic librccl-net-ofi.so "$libraries/librccl-net.so"
fi
ldconfig
