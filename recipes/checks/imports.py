# /// check
# summary: every module at the top of every Python package of the image can be imported
# level: full
# timeout_seconds: 600
# hint: build the layer again that installs the package
# ///

import contextlib
import importlib
import io
import os
import sys
import warnings

from lumi_inside.checking import failed, note, record
from lumi_inside.image.distributions import packages, plain_name

UNTOLD = {
    "flash_attn": "asks for a GPU as it is imported, where its kernels are Triton's",
}
"""Modules that cannot be imported on a machine without a GPU, and why."""


def imported(name):
    """Return why a module cannot be imported; empty if it can."""
    try:
        # Some talk as they are imported, and some warn.
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importlib.import_module(name)
    except BaseException as error:  # noqa: BLE001 - a package may end the process on purpose
        return f"{type(error).__name__}: {error}"
    return ""


built = {plain_name(name) for name in record("packages.json").get("python", ())}
problems, modules = [], 0
# It takes the place of distutils, and refuses if a package has imported that before.
for package in sorted(packages(), key=lambda each: each.name != "setuptools"):
    if plain_name(package.name) not in built:
        continue
    for name in package.modules():
        modules += 1
        why = imported(name)
        if why and name in UNTOLD and not os.path.exists("/dev/kfd"):
            note("left out", f"{name} {UNTOLD[name]}")
        elif why:
            first = why.splitlines()[0]
            problems.append(f"{name} of {package.name} {package.version} fails: {first}")
sys.stdout.flush()
if problems:
    failed(*problems)
print(f"{modules} modules of {len(built)} packages can be imported")
