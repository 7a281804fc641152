"""Functions for checks in Python: report a failure, a skip or a measured value.

A check runs with the image's own Python and ends with one of the exit codes below. It appends
measured values and facts, one line of JSON each, to the file that ``REPORT`` names.
"""

import importlib.util
import json
import os
import re
import sys
from collections.abc import Iterable, Mapping
from fnmatch import translate
from typing import Any, NoReturn

FAILED = 1
SKIPPED = 77  # the check could not be made, and reports why; as in Automake's test drivers
BROKEN = 70  # the check itself has a fault (EX_SOFTWARE in sysexits.h)
REPORT = "LUMI_VERIFY_REPORT"  # names the file for measured values and facts
CHECK = "LUMI_VERIFY_CHECK"  # holds the check's row of checks.json

# Names folders of the build machine, separated by ':'; no file of the image may contain one.
HOST_PATHS = "LUMI_VERIFY_HOST_PATHS"

# The folder of the host that PRoot shows as the root; the kernel knows the files by its path.
PROOT_TREE = "LUMI_VERIFY_PROOT_TREE"

# Names the paths that a check of each path has to judge, separated by ':', or all of them.
DUE_PATHS, EVERY_PATH = "LUMI_VERIFY_DUE_PATHS", "all"

READ_BY_ALL = (
    *("*/bin/*", "*/sbin/*", "*/lib/*", "*/lib32/*", "*/lib64/*", "*/libx32/*"),
    *("*.so", "*.so.*", "*/site-packages/*", "*/dist-packages/*", "*-info*", "*.pth"),
    *("*/pyvenv.cfg", "/etc/ld.so.*"),
)
"""Patterns of what the programs that run checks read, beside files of ELF, links, and ``home``."""

# Facts: paths that a check has read and does not declare, and those over which something was
# mounted, so that it did not see what the image has there.
UNDECLARED, HIDDEN = "read and not declared", "hidden by mounts"


def memory_map() -> str:
    """Return what this process has mapped, as proc_pid_maps(5), with the image's paths."""
    with open("/proc/self/maps", encoding="utf-8") as stream:
        return stream.read().replace(os.environ.get(PROOT_TREE) or "\0", "")


def home() -> str:
    """Return the folder with the image's records and checks, normally /opt/lumicontainer."""
    return os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def record(name: str) -> Any:
    """Return a record of the image, such as resolved.json; {} if there is no such file."""
    try:
        with open(os.path.join(home(), name), encoding="utf-8") as stream:
            return json.load(stream)
    except FileNotFoundError:
        return {}


def resolved() -> Any:
    """Return the image's recipe, platform, and layers with their parameters."""
    return record("resolved.json")


def parameters(layer: str) -> Mapping[str, Any]:
    """Return the parameters that a layer of the image was built with."""
    values: Mapping[str, Any] = resolved()["layers"][layer]["parameters"]
    return values


def shared(file: str) -> Any:
    """Return the module of a file below the image's checks, such as ``pytorch/rocm/_gpu.py``."""
    path = os.path.join(home(), "checks", file)
    spec = importlib.util.spec_from_file_location(os.path.basename(file)[:-3], path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a module")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def failed(*problems: str) -> NoReturn:
    """End the check as failed, and print the reasons, one a line."""
    sys.stdout.flush()
    sys.stderr.write("".join(f"{problem}\n" for problem in problems))
    sys.exit(FAILED)


def note_undeclared(paths: Iterable[str]) -> None:
    """Note what a check with ``reads`` in its header has read beside that.

    A build then does not take over that it passed. Where Python looks for modules counts too.
    """
    row: Mapping[str, Any] = json.loads(os.environ.get(CHECK, "{}"))
    patterns = (*READ_BY_ALL, f"{home()}/*", *row.get("reads", ()))
    declared = re.compile("|".join(map(translate, patterns)))
    others = {path for path in (*paths, *filter(None, sys.path)) if not declared.fullmatch(path)}
    if others:
        note(UNDECLARED, sorted(others)[:10])


def skipped(reason: str) -> NoReturn:
    """End the check as skipped, which does not count as passed."""
    note("skipped", reason)
    print(reason, flush=True)
    sys.exit(SKIPPED)


def note(name: str, value: Any) -> None:
    """Add a fact to the report: the rows of a chart, or what the check ran on.

    ``value`` is plain data for JSON. Without lumi-verify this does nothing.
    """
    _append({"fact": name, "value": value})


def measured(name: str, value: float) -> None:
    """Report a value for the threshold ``name``, in the threshold's unit.

    lumi-verify compares it with the threshold, and fails the check if it does not reach it.
    """
    print(f"{name}: {value:.4g}", flush=True)
    _append({"measured": name, "value": value})


def threshold(name: str) -> Mapping[str, Any]:
    """Return a threshold from the check's header comment."""
    row: Mapping[str, Any] = json.loads(os.environ.get(CHECK, "{}"))
    limits: Mapping[str, Any] = row.get("thresholds", {}).get(name, {})
    return limits


def _append(row: Mapping[str, Any]) -> None:
    path = os.environ.get(REPORT)
    if path:
        # One write, so that lines of several ranks do not mix.
        with open(path, "ab", buffering=0) as stream:
            stream.write(json.dumps(row).encode() + b"\n")
