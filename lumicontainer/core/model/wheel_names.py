"""Read the names of Python packages and of wheels."""

import re
from collections.abc import Iterator
from contextlib import suppress

from packaging.utils import canonicalize_name, parse_wheel_filename

# In a version (2.9.1+rocm6.4), in the URL of a wheel, or in the URL of PyTorch's own index.
_ROCM = re.compile(r"(?:\+|%2B|/whl/)rocm([0-9]+(?:\.[0-9]+)*)")
_CPYTHON = re.compile(r"cp([0-9])([0-9]+)")
_GLIBC = re.compile(r"manylinux_([0-9]+)_([0-9]+)_.*")
OLD_GLIBC = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
"""PEP 600, legacy aliases."""


def normal(name: str) -> str:
    """Return the name of a Python package as PEP 503 writes it, without extras or a range."""
    return canonicalize_name(re.split(r"[^A-Za-z0-9._-]", name)[0])


def rocm_tags(text: str) -> list[str]:
    """Return the versions of ROCm that a version or an address names."""
    return _ROCM.findall(text)


def wheel_package(file: str) -> Iterator[tuple[str, str]]:
    """Yield the package and the version in the name of a wheel; nothing for other files."""
    with suppress(ValueError):
        name, version, *_ = parse_wheel_filename(file)
        yield name, str(version)


def wheel_facts(file: str) -> Iterator[tuple[str, str]]:
    """Yield the target of a wheel from the name of its file, such as ``wheel.python`` 3.12.

    A wheel that fits every Python or every glibc yields no fact about it.
    """
    try:
        _, version, _, tags = parse_wheel_filename(file)
    except ValueError:
        return
    yield from (("wheel.rocm", tag) for tag in rocm_tags(str(version)))
    # abi3 runs on every later Python.
    exact = {tag.interpreter for tag in tags if _CPYTHON.fullmatch(tag.abi)}
    if len(exact) == 1 and (python := _CPYTHON.fullmatch(exact.pop())):
        yield "wheel.python", ".".join(python.groups())
    libraries = [library for tag in tags if (library := _glibc(tag.platform))]
    if libraries:
        yield "wheel.glibc", ".".join(map(str, min(libraries)))


def _glibc(platform: str) -> tuple[int, int] | None:
    if match := _GLIBC.fullmatch(platform):
        return int(match[1]), int(match[2])
    return OLD_GLIBC.get(platform.partition("_")[0])
