"""What checks written in Python use: say that something fails, is left out, or was measured.

A check runs with the image's own Python, and ends with one of the exit codes here. What it measures
and tells it appends, a line of JSON each, to the file that ``REPORT`` names.
"""

from __future__ import annotations

import json
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

FAILED = 1
SKIPPED = 77
"""As in the test drivers of Automake: what was to be proven could not be, and why is told."""
BROKEN = 70
"""The check itself has a fault (EX_SOFTWARE in sysexits.h)."""
REPORT = "LUMI_VERIFY_REPORT"
"""Names the file that takes what a check measures and tells."""
CHECK = "LUMI_VERIFY_CHECK"
"""Holds the check's row of checks.json."""

HOST_PATHS = "LUMI_VERIFY_HOST_PATHS"
"""Names folders of the machine that an image is built on, with ':' between them: no file of the
image may name one."""


def home() -> str:
    """Return the folder in which the image tells of itself."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def record(name: str) -> Any:
    """Return what a file of the image's record says, such as resolved.json; {} without it."""
    try:
        with open(os.path.join(home(), name), encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        return {}


def resolved() -> Any:
    """Return what the image was built from: recipe, platform, layers with their parameters."""
    return record("resolved.json")


def parameters(layer: str) -> Mapping[str, Any]:
    """Return the parameters that a layer of the image was built with."""
    found: Mapping[str, Any] = resolved()["layers"][layer]["parameters"]
    return found


def shared(file: str) -> Any:
    """Return the module that checks share, by its file below those of the image's checks.

    So layers share with others: ``shared("pytorch/rocm/_gpu.py")``.
    """
    import importlib.util  # noqa: PLC0415 - most checks share nothing

    path = os.path.join(home(), "checks", file)
    spec = importlib.util.spec_from_file_location(os.path.basename(file)[:-3], path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is no module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def failed(*problems: str) -> NoReturn:
    """End the check: it does not hold, for the reasons given, a line each."""
    sys.stdout.flush()
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    sys.exit(FAILED)


def skipped(reason: str) -> NoReturn:
    """End the check: it cannot be made here, for a reason; it does not count as passed."""
    tell("skipped", reason)
    print(reason, flush=True)
    sys.exit(SKIPPED)


def tell(name: str, value: Any) -> None:
    """Hand something to the report: the rows of a picture, or what the check ran on.

    ``value`` is plain data for JSON. Without lumi-verify around it, it goes nowhere.
    """
    _append({"told": name, "value": value})


def measured(name: str, value: float) -> None:
    """Hand on what was measured for the threshold ``name``, in the threshold's unit.

    lumi-verify judges it: a check need not, and fails where a value does not reach its floor.
    """
    print(f"{name}: {value:.4g}", flush=True)
    _append({"measured": name, "value": value})


def threshold(name: str) -> Mapping[str, Any]:
    """Return what the check's own comment says of a threshold."""
    row: Mapping[str, Any] = json.loads(os.environ.get(CHECK, "{}"))
    found: Mapping[str, Any] = row.get("thresholds", {}).get(name, {})
    return found


def _append(row: Mapping[str, Any]) -> None:
    path = os.environ.get(REPORT)
    if path:
        # One write, so that lines of several ranks do not run into each other.
        with open(path, "ab", buffering=0) as stream:
            stream.write(json.dumps(row).encode() + b"\n")
