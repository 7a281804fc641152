"""Compile DeepSpeed's ops that an image has ahead of time, all at once; the argument is its home.

The checks find them in PyTorch's folder of extensions.
"""

import contextlib
import importlib
import json
import subprocess
import sys
import time
from pathlib import Path


def main(home: Path) -> int:
    """Compile each op in a separate process; return the exit code."""
    layers = json.loads((home / "resolved.json").read_text())["layers"]
    flags = [
        name
        for name, value in layers["deepspeed"]["parameters"].items()
        if name.startswith("DS_BUILD_") and value
    ]
    begun = time.monotonic()
    jobs = {flag: subprocess.Popen([sys.executable, __file__, "--op", flag]) for flag in flags}
    failed = [flag for flag, job in jobs.items() if job.wait()]
    print(f"{len(flags) - len(failed)} of {len(flags)} ops in {time.monotonic() - begun:.0f} s")
    for flag in failed:
        print(f"error: {flag} does not compile", file=sys.stderr)
    return bool(failed)


def compile_op(flag: str) -> None:
    """Compile and load an op as DeepSpeed does if it is not compiled ahead of time."""
    with contextlib.redirect_stdout(sys.stderr):
        ops = importlib.import_module("deepspeed.ops.op_builder.all_ops").ALL_OPS
        next(each for each in ops.values() if flag == each.BUILD_VAR).load(verbose=False)


if __name__ == "__main__":
    if sys.argv[1] == "--op":
        compile_op(sys.argv[2])
    else:
        sys.exit(main(Path(sys.argv[1])))
