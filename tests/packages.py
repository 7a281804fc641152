"""Packages of a local index: wheels without code, and sources with their own backend."""

import io
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

LOCK = 'lock-version = "1.0"\ncreated-by = "a test"\n'
"""How a lock of PEP 751 begins."""
PROJECT = """\
[build-system]
requires = ["{needs}"]
build-backend = "backend"
backend-path = ["."]
"""
BACKEND = """\
import os
import {module}

def prepare_metadata_for_build_wheel(folder, settings=None):
    notes = os.path.join(folder, "{name}-{version}.dist-info")
    os.makedirs(notes)
    for file, text in (("METADATA", {metadata!r}), ("WHEEL", "Wheel-Version: 1.0\\n")):
        with open(os.path.join(notes, file), "w") as out:
            out.write(text)
    return os.path.basename(notes)
"""
"""It can say what the source needs."""


def metadata(name: str, version: str, needs: Sequence[str]) -> str:
    lines = [f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"]
    return "".join([*lines, *(f"Requires-Dist: {each}\n" for each in needs)])


def write_wheel(folder: Path, name: str, version: str, *needs: str) -> None:
    """Write a wheel with one empty module."""
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as file:
        notes = f"{name}-{version}.dist-info"
        form = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        file.writestr(f"{notes}/METADATA", metadata(name, version, needs))
        file.writestr(f"{notes}/WHEEL", form)
        file.writestr(f"{notes}/RECORD", "")
        file.writestr(f"{name}.py", "")


def write_source(
    folder: Path,
    name: str,
    version: str,
    *needs: str,
    module: str = "helper",
    built_with: str = "helper",
) -> None:
    """Write a source that names a package for its build, and whose backend imports a module."""
    about = metadata(name, version, needs)
    code = BACKEND.format(name=name, version=version, metadata=about, module=module)
    with tarfile.open(folder / f"{name}-{version}.tar.gz", "w:gz") as file:
        project = PROJECT.replace("{needs}", built_with)
        for path, text in {"pyproject.toml": project, "backend.py": code}.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(text)
            file.addfile(entry, io.BytesIO(text.encode()))
