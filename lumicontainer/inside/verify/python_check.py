"""Run a check in Python: ``python_check.py FILE``.

An exception of the check has its own exit code. SIGUSR1 prints the stacks of all threads, which
shows where a check hangs.
"""

from __future__ import annotations

import faulthandler
import os
import runpy
import signal
import sys
import traceback

BROKEN = 70
"""As ``checking.BROKEN``; this file runs without the package."""


def main() -> None:
    """Run the file as a program."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    path = os.path.abspath(sys.argv[1])
    here = os.path.dirname(os.path.abspath(__file__))
    # The search path needs the folder of the check and that of lumi_inside, not this file's.
    sys.path[0] = os.path.dirname(path)
    sys.path.append(os.path.dirname(os.path.dirname(here)))
    sys.argv = sys.argv[1:]
    try:
        runpy.run_path(path, run_name="__main__")
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault of the check
        traceback.print_exc()
        sys.stdout.flush()
        # Threads of a library could keep the process alive.
        os._exit(BROKEN)


if __name__ == "__main__":
    main()
