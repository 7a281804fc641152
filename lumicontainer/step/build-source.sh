#!/usr/bin/env bash
# Build and install a source of a lock with the packages that the lock has for it.
#
#   build-source.sh PREFIX
#
# PREFIX-source.txt and PREFIX-build.txt are pip's requirements, each with its hash. Pip isolates the
# build (PEP 517) and finds nothing there but these packages.
set -euo pipefail
requirements="$1" place="$1-build"
mkdir "$place"
# Older versions of pip would otherwise run setup.py, which fetches by no hash.
export PIP_USE_PEP517=1

python3 -m pip download --no-deps --only-binary=:all: --require-hashes --dest "$place/links" \
    --requirement "$requirements-build.txt"
python3 -m pip install --no-deps --no-index --target "$place/packages" "$place"/links/*.whl
# To download a source, pip asks its code for the metadata.
PYTHONPATH="$place/packages${PYTHONPATH:+:$PYTHONPATH}" PATH="$place/packages/bin:$PATH" \
    python3 -m pip download --no-deps --no-build-isolation --require-hashes --dest "$place/source" \
    --requirement "$requirements-source.txt"

# No index and no folder of the host's configuration takes part in the build.
unset "${!PIP_@}"
export PIP_CONFIG_FILE=/dev/null PIP_USE_PEP517=1
python3 -m pip wheel --no-deps --no-index --find-links "$place/links" --wheel-dir "$place/wheels" \
    "$place"/source/*
# By its name: pip would note the path of a wheel in the image.
sed -n 's/ --hash=.*//p' "$requirements-source.txt" >"$requirements-name.txt"
python3 -m pip install --no-deps --no-index --find-links "$place/wheels" \
    --requirement "$requirements-name.txt"
