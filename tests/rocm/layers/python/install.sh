#!/usr/bin/env bash
set -euo pipefail

python3.11 -m venv --without-pip /opt/venv
PYTHONPATH="$(echo /usr/share/python-wheels/pip-*.whl)" /opt/venv/bin/python -m pip install --requirement tools.txt
