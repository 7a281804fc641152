#!/usr/bin/env bash
set -euo pipefail

python -m pip install --no-deps --only-binary :all: --require-hashes --requirement "rocm/plugin-$version.txt"
