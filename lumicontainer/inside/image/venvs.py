"""Make the image's packages visible in virtual environments with ``--system-site-packages``."""

import json
import os
import subprocess
import sys
import sysconfig

# The image's Python may be a virtual environment. One created from it has the same base Python as
# its home, so with ``--system-site-packages`` it sees the packages of the base, which has none.
# This module writes a .pth file for the base Python (``site`` runs its lines that begin with
# ``import``), which adds the image's packages. It has no effect in the base and in the image's own
# environment.
NAME = "lumicontainer.pth"
_LINE = "import sys; sys.prefix in {not_in!r} or __import__('site').addsitedir({packages!r})\n"
_FOLDERS = "import json, site; print(json.dumps(site.getsitepackages()))"


def text(prefix: str, base: str, packages: str) -> str:
    """Return the line that adds the image's packages to environments of the Python at ``base``."""
    return _LINE.format(not_in=(prefix, base), packages=packages)


def home(prefix: str) -> str:
    """Return the folder of the Python that created an environment (PEP 405)."""
    with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8") as stream:
        pairs = (line.partition("=") for line in stream)
        return next(value.strip() for key, _, value in pairs if key.strip() == "home")


def folder(prefix: str) -> str:
    """Return the first folder of packages of that Python, which environments search first."""
    python = os.path.join(home(prefix), os.path.basename(sys.executable))
    done = subprocess.run([python, "-I", "-c", _FOLDERS], stdout=subprocess.PIPE, check=True)
    return str(json.loads(done.stdout)[0])


def main() -> None:
    """Write the file if this Python is that of a virtual environment."""
    if sys.prefix == sys.base_prefix:
        return
    place = folder(sys.prefix)
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, NAME), "w", encoding="utf-8") as stream:
        stream.write(text(sys.prefix, sys.base_prefix, sysconfig.get_path("purelib")))


if __name__ == "__main__":
    main()
