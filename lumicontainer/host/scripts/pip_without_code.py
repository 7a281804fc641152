"""Run this Python's pip so that it starts no other program.

Usage: python pip_without_code.py FOLDER SECONDS WORD...

Pip reads the metadata of wheels and indexes in its own process. The metadata of a source comes from
programs of that source (PEP 517), which are refused here. Otherwise a requirement that is a URL,
also in the metadata of a wheel, would make pip build on this host.

Pip waits for as long as a server asks (Retry-After); here it waits SECONDS at most.
"""

import os
import runpy
import sys
import time

_STARTS = {
    *("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn", "os.spawn", "os.fork"),
    *("os.forkpty", "pty.spawn"),
}

_HARMLESS = ("keyring", "lsb_release", "rustc", "uname")
"""The site's keyring returns passwords (pip's --keyring-provider). The others are not run either:
pip would only send their output about this host to the index."""


def _refuse(event: str, values: tuple) -> None:  # type: ignore[type-arg]
    if event not in _STARTS:
        return
    program = str(values[1][0]).rpartition("/")[2] if event == "subprocess.Popen" else ""
    if program in _HARMLESS:
        if program == "keyring":
            return
        raise PermissionError(program)
    sys.stderr.write("ERROR: a source would run code of its own on this host\n")
    sys.stderr.flush()
    os._exit(1)


def _limit_pauses(seconds: float) -> None:
    sleep = time.sleep

    def sleep_less(pause: float) -> None:
        sleep(min(pause, seconds))

    time.sleep = sleep_less  # type: ignore[assignment]


if __name__ == "__main__":
    # Neither files next to this one nor files in the user's folder are modules or paths to pip.
    sys.path.pop(0)
    os.chdir(sys.argv.pop(1))
    _limit_pauses(float(sys.argv.pop(1)))
    sys.argv[0] = "pip"
    sys.addaudithook(_refuse)
    runpy.run_module("pip", run_name="__main__", alter_sys=True)
