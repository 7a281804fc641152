"""Run a script or ``-m MODULE`` under PyTorch's profiler, and write the trace when it ends.

Started as ``python3 torch_profiler.py TRACE SCRIPT …``; the program runs as without it.
All events stay in memory until the end, so the run must be short. A program that is killed, or
ends by ``os._exit``, leaves no trace.
"""

import importlib
import os
import runpy
import sys


def main() -> None:
    """Run the program; its exceptions and its exit code pass unchanged."""
    trace, *words = sys.argv[1:]
    module = words[0] == "-m"
    sys.argv = words[1:] if module else words
    _set_path(os.getcwd() if module else os.path.dirname(os.path.realpath(words[0])))

    profiler = importlib.import_module("torch.profiler")
    record = profiler.profile(record_shapes=True)
    record.start()
    try:
        if module:
            runpy.run_module(words[1], run_name="__main__", alter_sys=True)
        else:
            _run_script(os.path.abspath(words[0]))
    finally:
        record.stop()
        record.export_chrome_trace(trace)


def _run_script(path: str) -> None:
    """Run a script in its own ``__main__`` module, where pickle looks for its classes."""
    main_module = type(sys)("__main__")
    main_module.__file__ = path
    sys.modules["__main__"] = main_module
    with open(path, "rb") as stream:
        code = compile(stream.read(), path, "exec")
    exec(code, main_module.__dict__)  # noqa: S102 - it is the user's own program


def _set_path(folder: str) -> None:
    """Put ``folder`` first on the path, in place of the folder of this file."""
    own = os.path.dirname(os.path.realpath(__file__))
    if sys.path and os.path.realpath(sys.path[0]) == own:
        sys.path[0] = folder


if __name__ == "__main__":
    main()
