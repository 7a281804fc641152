#!/usr/bin/env bash
set -euo pipefail

if [[ ! -d $sources/$plugin ]]; then
    echo "error: $plugin has no version $version" >&2
    echo "   hint: set rccl-plugin.plugin and rccl-plugin.version so that they go together" >&2
    exit 1
fi

libraries=/usr/lib/x86_64-linux-gnu
arguments=(--prefix=/usr --libdir="$libraries" --enable-trace --disable-tests)
case "$plugin" in
# It finds libfabric and hwloc by itself. With --with-libfabric=/usr it passes -isystem /usr/include,
# and the headers of C++ no longer find those of C (m4/check_pkg_libfabric.m4).
aws-ofi-nccl) arguments+=(--with-rocm="$ROCM_PATH") ;;
aws-ofi-rccl)
    arguments+=(--with-libfabric=/usr --with-hip="$ROCM_PATH" --with-rccl="$ROCM_PATH")
    arguments+=(CPPFLAGS="-include $PWD/container_of.h")
    ;;
esac
cd "$sources/$plugin"
# Without this file aws-ofi-nccl asks git for its version (m4/get_version.sh), and a source has no
# .git; with one, configure would add -Werror.
if [[ $plugin == aws-ofi-nccl && ! -e .release_version ]]; then
    echo "$version" >.release_version
fi
./autogen.sh
./configure "${arguments[@]}"
make -j "$jobs"
make install
# RCCL looks for this name by default; some builds install only librccl-net-ofi.so.
if [[ ! -e $libraries/librccl-net.so ]]; then
    ln --symbolic librccl-net-ofi.so "$libraries/librccl-net.so"
fi
ldconfig
