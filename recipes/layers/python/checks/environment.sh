#!/usr/bin/env bash
# /// check
# summary: python3 is the virtual environment's, and its packages accept each other
# hint: rebuild the image; unset PATH and PYTHONPATH outside it
# ///
set -euo pipefail

python=$(command -v python3)
if [[ $python != /opt/venv/bin/python3 ]]; then
    echo "python3 on PATH is $python, not the virtual environment's /opt/venv/bin/python3" >&2
    exit 1
fi
# Every installed package finds the others in versions that it accepts.
python3 -m pip check
python3 --version
