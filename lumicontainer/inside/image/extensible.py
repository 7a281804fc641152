"""Write the files by which Python sees more packages, and by which pip says how to add some."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig

from . import interrupt, user_software

NAME = "lumicontainer-extensions.pth"
# Each Python of the image runs this line: it reads a file only if there is an extension.
_LINE = (
    "import os; any(name.startswith({mount!r}) for name in os.listdir('/') + os.listdir('/opt'))"
    " and exec(open({file!r}).read(), {{'__name__': {name!r}, 'packages': {packages!r}}})\n"
)
# The Python of a rank that lumi-entry starts runs this one.
_LINE_OF_RANKS = (
    "import os; os.environ.get({variable!r}) == str(os.getpid())"
    " and exec(compile(open({file!r}).read(), {file!r}, 'exec'), {{'__name__': {name!r}}})\n"
)
HINT = "this image is read-only: on the host run: lumicontainer extend IMAGE PACKAGE"
# In a virtual environment pip ignores EXTERNALLY-MANAGED (PEP 668). Before it downloads anything it
# reads constraints, and stops at an invalid line; after a semicolon it would print a traceback.
# Environments made from this one have their own pip.conf.
_CONSTRAINTS = os.path.join(sys.prefix, "read-only.txt")
_PIP = f"[install]\nconstraint = {_CONSTRAINTS}\n"
_MANAGED = f"[externally-managed]\nError={HINT}\n"
# The image's Python may be a virtual environment. One created from it has the same base Python as
# its home, so with ``--system-site-packages`` it sees the packages of the base, which has none. A
# .pth file for the base Python (``site`` runs its lines that begin with ``import``) adds the
# image's packages. It has no effect in the base and in the image's own environment.
VENVS = "lumicontainer.pth"
_OF_VENVS = "import sys; sys.prefix in {not_in!r} or __import__('site').addsitedir({packages!r})\n"
_FOLDERS = "import json, site; print(json.dumps(site.getsitepackages()))"


def line(packages: str, file: str = user_software.__file__) -> str:
    """Return the line of the .pth file in the folder ``packages``; ``file`` is user_software.py."""
    mount, name = user_software.MOUNT, user_software.STARTED
    return _LINE.format(mount=mount, file=file, name=name, packages=packages)


def line_of_ranks() -> str:
    """Return the line of the .pth file that lets SIGINT end a rank that waits for others."""
    file, name = interrupt.__file__, interrupt.STARTED
    return _LINE_OF_RANKS.format(variable=interrupt.PROCESS, file=file, name=name)


def line_of_venvs(prefix: str, base: str, packages: str) -> str:
    """Return the line that adds the image's packages to environments of the Python at ``base``."""
    return _OF_VENVS.format(not_in=(prefix, base), packages=packages)


def home(prefix: str) -> str:
    """Return the folder of the Python that created an environment (PEP 405)."""
    with open(os.path.join(prefix, "pyvenv.cfg"), encoding="utf-8") as stream:
        pairs = (row.partition("=") for row in stream)
        return next(value.strip() for key, _, value in pairs if key.strip() == "home")


def folder(prefix: str) -> str:
    """Return the first folder of packages of that Python, which environments search first."""
    python = os.path.join(home(prefix), os.path.basename(sys.executable))
    done = subprocess.run([python, "-I", "-c", _FOLDERS], stdout=subprocess.PIPE, check=True)
    return str(json.loads(done.stdout)[0])


def is_own(path: str) -> bool:
    """Return whether a file is the configuration of pip that ``main`` writes."""
    if path != os.path.join(sys.prefix, "pip.conf"):
        return False
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read() == _PIP


def files() -> dict[str, str]:
    """Return the .pth files, and pip's; another configuration is left to a check."""
    packages = sysconfig.get_path("purelib")
    texts = {os.path.join(packages, NAME): line(packages) + line_of_ranks()}
    own = os.path.join(sys.prefix, "pip.conf")
    if sys.prefix == sys.base_prefix:
        texts[os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")] = _MANAGED
    else:
        text = line_of_venvs(sys.prefix, sys.base_prefix, packages)
        texts[os.path.join(folder(sys.prefix), VENVS)] = text
        if not os.path.exists(own) or is_own(own):
            texts.update({own: _PIP, _CONSTRAINTS: f"{HINT}\n"})
    return texts


def main() -> None:
    """Write the files, or with ``--print PYTHON`` print them for one who writes them elsewhere."""
    if sys.argv[1:2] == ["--print"]:
        json.dump({"python": sys.argv[2], "files": files()}, sys.stdout)
        return
    for path, text in files().items():
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as stream:
            stream.write(text)


if __name__ == "__main__":
    main()
