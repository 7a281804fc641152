"""Build a wheel by the backend of a source (PEP 517 and 660). Runs in the image, with its packages.

Usage: python3 build_wheel.py HOOK SOURCE FOLDER

HOOK is build_wheel or build_editable. SOURCE is an archive, or a folder. The wheel goes to FOLDER.
"""

import importlib
import os
import shutil
import sys
import tempfile
from pathlib import Path


def main() -> None:
    """Unpack the source, find its backend, and call the hook."""
    hook, source, folder = sys.argv[1:]
    os.chdir(source if Path(source).is_dir() else unpack(source))
    system = settings()
    sys.argv = ["setup.py"]
    sys.path[:0] = [str(Path(each).resolve()) for each in system.get("backend-path", ())]
    named = system.get("build-backend", "setuptools.build_meta:__legacy__")
    name, _, attribute = named.partition(":")
    backend = importlib.import_module(name)
    for each in filter(None, attribute.split(".")):
        backend = getattr(backend, each)
    if not hasattr(backend, hook):
        sys.exit(f"error: {name} has no {hook}")
    getattr(backend, hook)(folder)


def unpack(archive: str) -> Path:
    """Unpack an archive of one folder; return that folder."""
    folder = tempfile.mkdtemp()
    more = {"filter": "data"} if sys.version_info >= (3, 12) else {}
    shutil.unpack_archive(archive, folder, **more)  # type: ignore[arg-type]
    (top,) = Path(folder).iterdir()
    return top


def settings() -> dict:  # type: ignore[type-arg]
    """Return the table build-system of the folder's pyproject.toml."""
    file = Path("pyproject.toml")
    if not file.exists():
        return {}
    # Python has it from 3.11 on, and pip before.
    name = "tomllib" if sys.version_info >= (3, 11) else "pip._vendor.tomli"
    table = importlib.import_module(name).loads(file.read_text("utf-8"))
    return dict(table.get("build-system", {}))


if __name__ == "__main__":
    # Neither files next to this one nor files in the current folder are modules to a backend.
    sys.path.pop(0)
    main()
