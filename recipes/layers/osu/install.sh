#!/usr/bin/env bash
set -euo pipefail

mkdir "$TMPDIR/osu"
tar --extract --file "$sources/osu.tar.gz" --directory "$TMPDIR/osu" --strip-components 1 \
    --no-same-owner
cd "$TMPDIR/osu"
./configure --prefix=/usr --enable-rocm --with-rocm="$ROCM_PATH" CC=mpicc CXX=mpicxx
make -j "$jobs"
make install
