#!/usr/bin/env bash
set -euo pipefail

libraries=/usr/lib/x86_64-linux-gnu

# install_tree FOLDER ARGUMENT…: configure, compile and install one source tree below /usr.
install_tree() {
    (
        cd "$1"
        [[ -e configure ]] || ./autogen.sh
        ./configure --prefix=/usr --libdir="$libraries" "${@:2}"
        make -j "$jobs"
        make install
    )
}

install_from_source() {
    cp -r "$sources/cassini-headers/include" "$sources/cassini-headers/share" /usr
    cp -r "$sources/cxi-driver/include" /usr

    # Only its library: the module is the host kernel's.
    install_tree "$sources/xpmem" --disable-kernel-module

    # It compiles with -Werror, and newer compilers print warnings that its authors did not see.
    install_tree "$sources/libcxi" --with-rocm="$ROCM_PATH" \
        --with-udevrulesdir=/usr/lib/udev/rules.d --with-systemdsystemunitdir=no --without-systemd \
        CFLAGS="-O2 -g -Wno-unused-but-set-variable"

    # Without tcp MPI finds no provider on machines without Slingshot.
    install_tree "$sources/libfabric" --enable-only --enable-cxi=/usr --enable-lnx --enable-shm \
        --enable-rxm --enable-rxd --enable-tcp --enable-hook_hmem --enable-dmabuf_peer_mem \
        --enable-xpmem=/usr --with-rocr="$ROCM_PATH" LDFLAGS=-Wl,--build-id

    # libfabric's provider for CXI opens libcurl by this path, which is SUSE's (cxip_curl.c).
    mkdir -p /usr/lib64
    ln --symbolic --force "$libraries/libcurl.so.4" /usr/lib64/libcurl.so.4
}

install_for_host() {
    mkdir "$TMPDIR/libfabric"
    tar --extract --file "$sources/libfabric.tar.bz2" --directory "$TMPDIR/libfabric" \
        --strip-components 1 --no-same-owner
    install_tree "$TMPDIR/libfabric" --enable-only --enable-shm --enable-rxm --enable-tcp \
        --with-rocr="$ROCM_PATH" LDFLAGS=-Wl,--build-id
}

case "$provider" in
source) install_from_source ;;
host) install_for_host ;;
debian) ;;
esac
ldconfig
