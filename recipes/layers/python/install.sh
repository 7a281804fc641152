#!/usr/bin/env bash
set -euo pipefail

python3 -m venv /opt/venv
# setuptools 81 deprecates and 82 drops pkg_resources, which DeepSpeed's and Horovod's build scripts predate.
/opt/venv/bin/python -m pip install --requirement tools.txt
