#!/usr/bin/env bash
set -euo pipefail

python -m pip install "tensorflow-cpu==$version"
