"""Let virtual environments made in the image see its packages, where they ask for the system's.

The image's Python may be a virtual environment itself. One made from it has its base Python for a
home, so with ``--system-site-packages`` it sees what the base has, which is nothing. A file that
the base Python reads then (``site``: lines that begin with ``import``) adds the image's packages.
Neither the base Python itself nor the image's own environment takes anything from it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig

NAME = "lumicontainer.pth"
_LINE = "import sys; sys.prefix in {not_in!r} or __import__('site').addsitedir({packages!r})\n"
_FOLDERS = "import json, site; print(json.dumps(site.getsitepackages()))"


def text(prefix: str, base: str, packages: str) -> str:
    """Return the line by which environments of the Python at ``base`` see the image's packages."""
    return _LINE.format(not_in=(prefix, base), packages=packages)


def home(prefix: str) -> str:
    """Return the folder with the Python that an environment was made by (PEP 405)."""
    with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8") as stream:
        pairs = (line.partition("=") for line in stream)
        return next(value.strip() for key, _, value in pairs if key.strip() == "home")


def folder(prefix: str) -> str:
    """Return the first folder of packages of that Python: environments look there first."""
    import json  # noqa: PLC0415 - an image is built with it, and no rank starts

    python = os.path.join(home(prefix), os.path.basename(sys.executable))
    done = subprocess.run([python, "-I", "-c", _FOLDERS], stdout=subprocess.PIPE, check=True)
    return str(json.loads(done.stdout)[0])


def main() -> None:
    """Write the file, where this Python is that of a virtual environment."""
    if sys.prefix == sys.base_prefix:
        return
    place = folder(sys.prefix)
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, NAME), "w", encoding="utf-8") as stream:
        stream.write(text(sys.prefix, sys.base_prefix, sysconfig.get_path("purelib")))


if __name__ == "__main__":
    main()
