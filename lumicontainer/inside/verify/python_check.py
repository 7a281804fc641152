"""Run a check written in Python: ``python_check.py FILE``.

A fault of the check itself is told apart from a check that does not hold, and SIGUSR1 prints the
stacks of all threads, which is how a check that hangs says where.
"""

from __future__ import annotations

import faulthandler
import os
import runpy
import signal
import sys
import traceback

BROKEN = 70
"""As ``checking.BROKEN``; this file runs before the package can be found."""


def main() -> None:
    """Run the file as a program."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1, all_threads=True)
    path = os.path.abspath(sys.argv[1])
    here = os.path.dirname(os.path.abspath(__file__))
    # The folder of this file leaves the search path for that of the check, and for lumi_inside.
    sys.path[0] = os.path.dirname(path)
    sys.path.append(os.path.dirname(os.path.dirname(here)))
    sys.argv = sys.argv[1:]
    try:
        runpy.run_path(path, run_name="__main__")
    except Exception:  # noqa: BLE001 - whatever it is, it is a fault of the check
        traceback.print_exc()
        sys.stdout.flush()
        # Threads of a library may keep the process from its end.
        os._exit(BROKEN)


if __name__ == "__main__":
    main()
