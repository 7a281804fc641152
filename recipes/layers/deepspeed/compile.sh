#!/usr/bin/env bash
set -euo pipefail

# Downloading a source package runs its setup.py for the metadata: without isolation, as the build below.
python -m pip download --no-deps --no-build-isolation --no-binary deepspeed \
    --require-hashes --requirement requirements.txt
tar --extract --file "deepspeed-$version.tar.gz"
patch --directory "deepspeed-$version" --strip 1 <cpu-ops.patch

# The DS_BUILD_* flags are parameters of the layer, and stand in the environment already.
export DS_BUILD_MARCH="$march" DS_ENABLE_NINJA=1 MAX_JOBS="$jobs" CFLAGS=-g0
python -m pip wheel --no-deps --no-build-isolation --wheel-dir "$wheels" "./deepspeed-$version"
