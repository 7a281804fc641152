"""Let the image's Python see extensions, and let its pip say how to make one."""

from __future__ import annotations

import os
import sys
import sysconfig

from . import user_software

NAME = "lumicontainer-extensions.pth"
# Each Python of the image runs this line: it reads a file only if there is an extension.
_LINE = (
    "import os; any(name.startswith({mount!r}) for name in os.listdir('/') + os.listdir('/opt'))"
    " and exec(open({file!r}).read(), {{'__name__': {name!r}, 'packages': {packages!r}}})\n"
)
HINT = "this image is read-only: on the host run: lumicontainer extend IMAGE PACKAGE"
# In a virtual environment pip ignores EXTERNALLY-MANAGED (PEP 668). Before it downloads anything it
# reads constraints, and stops at a line that is none; after a semicolon it would print a traceback.
# Environments made from this one have their own pip.conf.
_CONSTRAINTS = os.path.join(sys.prefix, "read-only.txt")
_PIP = f"[install]\nconstraint = {_CONSTRAINTS}\n"
_MANAGED = f"[externally-managed]\nError={HINT}\n"


def line(packages: str) -> str:
    """Return the line of the .pth file in the folder ``packages``."""
    found = user_software
    return _LINE.format(
        mount=found.MOUNT, file=found.__file__, name=found.STARTED, packages=packages
    )


def is_own(path: str) -> bool:
    """Return whether a file is the configuration of pip that ``main`` writes."""
    if path != os.path.join(sys.prefix, "pip.conf"):
        return False
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read() == _PIP


def main() -> None:
    """Write the .pth file, and what pip reads; a configuration that is there is left to a check."""
    packages = sysconfig.get_path("purelib")
    files = {os.path.join(packages, NAME): line(packages)}
    own = os.path.join(sys.prefix, "pip.conf")
    if sys.prefix != sys.base_prefix and not os.path.exists(own):
        files |= {own: _PIP, _CONSTRAINTS: f"{HINT}\n"}
    elif sys.prefix == sys.base_prefix:
        files[os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")] = _MANAGED
    for path, text in files.items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)


if __name__ == "__main__":
    main()
