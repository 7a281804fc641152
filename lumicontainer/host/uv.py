"""Find uv, and write what it reads: pip's sources, and stand-ins for packages that are there.

Sources that refuse access are found here, because uv does not name them.
"""

import json
import os
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote

from packaging.utils import canonicalize_name
from packaging.version import Version

from lumicontainer.errors import InputError, Problem
from lumicontainer.host.site import Site
from lumicontainer.system import budget, process
from lumicontainer.system.terminal.masking import without_password

_TRUE = ("1", "true", "yes", "on", "y", "t")
"""The words by which pip switches an option on."""
_LISTS = ("--extra-index-url", "--find-links")
_STRATEGY = {"--index-strategy": "unsafe-best-match"}
STAND_IN = "in.the.image"
"""Marks the version of a stand-in for a package that the image has already."""
NO_ACCESS = "no access to an index of packages"
LOGIN = "put the password into ~/.netrc; the indexes are in pip's configuration (pip config list)"
_REFUSED = {"401": "401 Unauthorized", "403": "403 Forbidden"}
_SECONDS = 20
"""How long an index may take; the resolver has waited for it already."""


def find_uv() -> Path | None:
    """Return the uv of this Python's environment, else the one on PATH; None if there is none."""
    own = Path(sys.executable).with_name("uv")
    return own if own.is_file() else process.find("uv")


def allows_indexes(settings: Mapping[str, str]) -> bool:
    """Return whether pip's settings allow indexes at all."""
    return settings.get("no-index", "").lower() not in _TRUE


class Sources:
    """The options of pip's sources. They stand in a file, because URLs may hold passwords."""

    def __init__(self, settings: Mapping[str, str], index: str) -> None:
        links = settings.get("find-links", "").split()
        indexes = [*settings.get("extra-index-url", "").split(), *filter(None, [index])]
        default = settings.get("index-url", "")
        self._no_index = not allows_indexes(settings)
        self._links = [f"--find-links {each}" for each in links]
        self._default = [f"--index-url {default}"] if default else []
        self._extra = [] if self._no_index else indexes

    def together(self) -> list[str]:
        """Return the lines of requirements that name all sources."""
        first = ["--no-index"] if self._no_index else self._default
        return [*first, *(f"--extra-index-url {each}" for each in self._extra), *self._links]

    def settings(self, links: Path) -> str:
        """Return them as uv's own settings, with one more folder of wheels."""
        pairs = [line.partition(" ") for line in [*self.together(), f"--find-links {links}"]]
        lists = {option: [b for a, _, b in pairs if a == option] for option in _LISTS}
        single = {option: value for option, _, value in pairs if option not in _LISTS}
        rows = {**lists, **{name: value or True for name, value in single.items()}, **_STRATEGY}
        return "".join(f"{name[2:]} = {json.dumps(value)}\n" for name, value in rows.items())

    def each(self) -> list[list[str]]:
        """Return the lines that name one source, for each source in the order of pip."""
        links = [["--no-index", *self._links]] if self._links or self._no_index else []
        default = [] if self._no_index else [self._default]
        return [*links, *default, *([f"--index-url {each}"] for each in self._extra)]


def require_package(name: str, version: str) -> tuple[str, str]:
    """Return a name and a version as PEP 503 and PEP 440 write them; raise ``InputError``."""
    try:
        return canonicalize_name(name, validate=True), str(Version(version))
    except ValueError as error:
        shown = f"{name!a:.100} {version!a:.100}"
        what, hint = "invalid name or version of a Python package", "use another image"
        raise InputError(Problem(what, shown, hint=hint)) from error


def write_stand_in(
    folder: Path,
    name: str,
    version: str,
    needs: Sequence[str] = (),
    extras: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> str:
    """Write a wheel that stands for a package that is there; return the constraint that takes it.

    No other package has its local version, which meets the same requirements as the public part.
    By default it needs nothing: the image has the needs of the package too. What ``extras`` need
    may not be there.
    """
    name, version = require_package(name, version)
    public, plus, local = version.partition("+")
    marked = f"{public}+{local}{'.' if plus else ''}{STAND_IN}"
    file = name.replace("-", "_")
    notes = f"{file}-{marked}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {marked}\n"
    metadata += "".join(f"Provides-Extra: {each}\n" for each in extras)
    every = dict.fromkeys((*needs, *chain.from_iterable(extras.values())))
    metadata += "".join(f"Requires-Dist: {each}\n" for each in every)
    form = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    with zipfile.ZipFile(folder / f"{file}-{marked}-py3-none-any.whl", "w") as wheel:
        for part, text in (("METADATA", metadata), ("WHEEL", form), ("RECORD", "")):
            wheel.writestr(f"{notes}/{part}", text)
    return f"{name}=={marked}"


def find_refusing_indexes(site: Site, package: str) -> Iterator[Problem]:
    """Yield a warning for each index of pip that refuses access to a requested package.

    If there are other indexes, uv and pip skip such a one silently, and take an older version from
    another. If there are none, they name it.
    """
    pip = site.pip
    extra = pip.get("extra-index-url", "").split()
    places = [pip.get("index-url", ""), *extra, *pip.get("find-links", "").split()]
    if len(places) < 2 or not allows_indexes(pip) or process.find("curl") is None:
        return
    for url in dict.fromkeys(each for each in places[: 1 + len(extra)] if each[:4] == "http"):
        if status := _REFUSED.get(_ask(site, url, package)):
            why = f"it answers {status}; others may have older versions"
            yield Problem(NO_ACCESS, without_password(url), why, LOGIN, level="warning")


def _ask(site: Site, index: str, package: str) -> str:
    """Return the status of a package's page; if it is 403, the status of the index.

    Some storages, such as PyTorch's, answer 403 for what they do not have.
    """
    base = f"{index.rstrip('/')}/"
    status = _read_status(site, f"{base}{quote(package)}/")
    return _read_status(site, base) if status == "403" else status


def _read_status(site: Site, url: str) -> str:
    """Return the status of a URL, which may hold a password; 000 if there is no answer."""
    escaped = url.replace("\\", "\\\\").replace('"', '\\"')
    lines = [f'url = "{escaped}"', 'output = "/dev/null"', 'write-out = "%{http_code}"']
    lines += ["silent", "location", f"max-time = {_SECONDS}"]
    if url.startswith("https:"):
        lines.append("netrc-optional")
    trust = {"CURL_CA_BUNDLE": str(site.trust)} if site.trust else {}
    environment = {**os.environ, **site.environment, **trust}
    config = "".join(f"{line}\n" for line in lines).encode()
    command = ["curl", "--disable", "--config", "-"]
    return process.in_new_session(
        command, env=environment, stdin=config, limits=budget.QUESTION
    ).stdout
