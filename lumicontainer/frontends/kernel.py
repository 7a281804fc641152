"""Write the specification of a Jupyter kernel that runs in an image."""

import json
import os
import re
import shlex
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lumicontainer.engines import find_engine
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.frontends.owned import MARK, OwnFile
from lumicontainer.host.binds import Needs
from lumicontainer.image import records
from lumicontainer.system import budget, process
from lumicontainer.verify.local import Host

_CONNECTION = "{connection_file}"
"""The word that Jupyter replaces with the path of its connection file."""
_REPLACED = re.compile(r"\{(connection_file|prefix|resource_dir)\}")
_METADATA = """
import sys
sys.path = [each for each in sys.path if each]
import json
try:
    from ipykernel.kernelspec import get_kernel_dict
except ImportError:
    print("null")
else:
    print(json.dumps(get_kernel_dict().get("metadata", {})))
"""
"""Print what the kernel of an image supports, such as encryption and a debugger.

Files of the current folder are no modules to it; Python before 3.11 has no option for that.
"""


def kernels_folder(prefix: Path | None, environment: Mapping[str, str]) -> Path:
    """Return the folder in which Jupyter looks for the user's kernels, or the one in ``prefix``."""
    if prefix:
        return prefix.absolute() / "share/jupyter/kernels"
    data = environment.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")  # noqa: PTH111
    return Path(environment.get("JUPYTER_DATA_DIR") or f"{data}/jupyter") / "kernels"


def kernel(image: Path, needs: Needs, name: str, folder: Path) -> OwnFile:
    """Return the specification of a kernel that runs in an image with what it needs of this host.

    Raises ``InputError`` if the image has no kernel, and ``HostError`` if it cannot run here.
    """
    if needs.unfit():
        raise HostError(*needs.problems)
    if replaced := _REPLACED.search(str(image.absolute())):
        why = f"Jupyter replaces {replaced[0]} in the command of a kernel"
        raise InputError(Problem("invalid path of an image", str(image), why, "move the image"))
    host = Host(find_engine(), image.absolute(), needs)
    metadata = {**_metadata(host), "lumicontainer": f"{MARK} kernel."}
    launch = ["python3", "-m", "ipykernel_launcher", "-f", _CONNECTION]
    data: dict[str, Any] = {
        "metadata": metadata,
        "display_name": name,
        "language": "python",
        # A message reaches the kernel alone; a signal would also reach the engine around it.
        "interrupt_mode": "message",
        # The folder of the connection file may be below /run/user, which engines do not bind.
        "argv": host.command(launch, binds=[_CONNECTION]),
    }
    return OwnFile(folder / name / "kernel.json", json.dumps(data, indent=2) + "\n")


def _metadata(host: Host) -> Mapping[str, Any]:
    printed = process.capture(host.command(["python3", "-c", _METADATA]), limits=budget.ENGINE)
    with suppress(records.RecordError):
        metadata = records.parse(printed.encode(), records.KERNEL)
        return {name: metadata[name] for name in records.KERNEL_NAMES if name in metadata}
    why = "the Python package ipykernel is not in it"
    hint = (
        f"lumicontainer extend {shlex.quote(host.image.name)} ipykernel -o ipykernel.sqsh, "
        "then repeat with --with ipykernel.sqsh"
    )
    raise InputError(Problem("the image has no Jupyter kernel", str(host.image), why, hint))
