#!/usr/bin/env bash
# Install Python packages that no lock pins.
#
#   install-python.sh REQUIREMENT…
#
# Pip isolates the build of a source. If this fails, or would use another PyTorch than the one of
# the layers below, sources are built with the packages of these layers, as 'lock' and 'extend' do.
set -euo pipefail
below=$(python3 - <<'PYTHON'
from importlib.metadata import PackageNotFoundError, version
try:
    torch = version("torch")
    # Older versions of pip know one kind of constraints.
    is_old = tuple(map(int, version("pip").split(".")[:2])) < (25, 3)
    print("PIP_CONSTRAINT" if is_old else "PIP_BUILD_CONSTRAINT", f"torch=={torch}")
except PackageNotFoundError:
    pass
PYTHON
)
if [ -n "$below" ]; then
    constraints="$TMPDIR/constraints.txt"
    echo "${below#* }" >"$constraints"
    export "${below% *}=$constraints"
fi
python3 -m pip install "$@" && exit
echo "a second try: build sources with the packages of the layers below"
unset PIP_CONSTRAINT PIP_BUILD_CONSTRAINT
python3 -m pip install --no-build-isolation "$@"
