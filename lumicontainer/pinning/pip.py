"""Find the wheels that an image takes of an index, with all that these need, by pip itself."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from lumicontainer.build.workspace import temporary_folder
from lumicontainer.core.resolve.facts import normal
from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.pinning import markers
from lumicontainer.system import process

_STAND_IN = "in.the.image"
"""Marks the versions of what stands for a package that the image has already."""
_WITHOUT_CODE = Path(__file__).parents[1] / "host/scripts/pip_without_code.py"
_GOT = re.compile(r"(?m)^\s*Got\s+([0-9a-f]{64})\s*$")
"""How pip tells the hash of what it found (HashMismatch; the same from pip 8 to 26)."""
_ENDED = "a source would run code of its own on this host"
_BRIEF = ("--timeout", "15", "--retries", "1")
"""An index of a layer's own may be out of reach, and is asked for each package."""
_OLD_TAGS = {"manylinux2014": (2, 17), "manylinux2010": (2, 12), "manylinux1": (2, 5)}
"""PEP 600, legacy aliases."""


@dataclass(frozen=True)
class Target:
    """Say for which Python and which glibc wheels are wanted, such as 3.11 and 2.36."""

    python: str
    glibc: str = ""

    def options(self) -> list[str]:
        """Return the options by which pip takes wheels for this one, whatever runs it."""
        words = ["--python-version", self.python, "--implementation", "cp"]
        for tag in self.tags():
            words += ["--platform", tag]
        return words

    def tags(self) -> list[str]:
        """Return the platforms whose wheels it takes, the best first (PEP 600)."""
        found = re.match(r"([0-9]+)\.([0-9]+)", self.glibc)
        newest = (int(found[1]), int(found[2])) if found else (2, 17)
        tags = [f"manylinux_2_{number}_x86_64" for number in range(newest[1], 4, -1)]
        tags += [f"{name}_x86_64" for name, glibc in _OLD_TAGS.items() if glibc <= newest]
        return [*tags, "linux_x86_64"]


@dataclass(frozen=True)
class Wheel:
    """Hold one wheel that pip would install."""

    name: str
    version: str
    sha256: str
    """Empty where its index tells none."""
    url: str
    needs: tuple[str, ...] = ()
    """Its requirements, with their markers."""

    @property
    def file(self) -> str:
        """Return the name of its file."""
        return unquote(urlsplit(self.url).path).rpartition("/")[2]

    @property
    def line(self) -> str:
        """Return it as a line of pip's requirements."""
        return f"{normal(self.name)}=={self.version} --hash=sha256:{self.sha256}"


class Pip:
    """Ask pip, as this host has configured it, what it would install in an image."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._python = _python_for(target.python)

    def wheels(
        self,
        requirements: Sequence[str],
        there: Mapping[str, str],
        *,
        same: Mapping[str, str],
        index: str = "",
    ) -> list[Wheel]:
        """Return the wheels of requirements and of all that they need.

        ``there`` are the versions by name of what the image has already, ``same`` those that are
        to be taken where they are needed. ``index`` is asked beside the configured index. Raises
        ``ProgramError`` where pip finds none that go together.

        Pip judges markers (PEP 508) by the Python that runs it; here the image's decides, and what
        pip then left out is asked for as well.
        """
        asked = list(requirements)
        while True:
            found = {normal(each.name): each for each in self._ask(asked, there, same, index)}
            needed = markers.needed(requirements, found, self.target.python)
            missing = [word for name, word in needed.items() if name not in {*found, *there}]
            if not missing:
                return [each for name, each in found.items() if name in needed]
            asked += missing

    def _ask(
        self,
        requirements: Sequence[str],
        there: Mapping[str, str],
        same: Mapping[str, str],
        index: str,
    ) -> list[Wheel]:
        with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
            # Pip tells where its files are by their real path.
            place = Path(folder).resolve()
            lines = [write_stand_in(place, *each) for each in sorted(there.items())]
            lines += [f"{name}=={version}" for name, version in sorted(same.items())]
            (place / "held.txt").write_text("".join(f"{line}\n" for line in lines))
            report, wanted = place / "report.json", place / "wanted.txt"
            asked = [f"--extra-index-url {index}"] if index else []
            wanted.write_text("".join(f"{line}\n" for line in [*asked, *requirements]))
            self._run(
                folder,
                *("install", "--dry-run", "--quiet", "--no-input", "--only-binary=:all:"),
                *("--target", str(place / "nothing"), "--report", str(report)),
                *("--find-links", str(place), "--constraint", str(place / "held.txt")),
                *(_BRIEF if index else ()),
                *self.target.options(),
                *("--requirement", str(wanted)),
            )
            own = place.as_uri() + "/"
            found = read_report(json.loads(report.read_bytes()))
        return [each for each in found if not each.url.startswith(own)]

    def source(self, requirement: str) -> str:
        """Return the sha256 of the source distribution of a requirement.

        Pip proves the hash of a download before it unpacks it. Given one that no file has, it says
        which hash it found, and looks no further into the source. Raises ``ProgramError`` where
        there is none.
        """
        with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
            wanted = Path(folder) / "wanted.txt"
            wanted.write_text(f"{requirement} --hash=sha256:{'0' * 64}\n")
            words = ["download", "--no-input", "--no-deps", "--no-binary=:all:"]
            words += ["--dest", folder, "--requirement", str(wanted)]
            done = self._finished(folder, *words)
        found = _GOT.findall(done.stderr)
        if len(found) != 1:
            raise process.ProgramError(["pip"], done.returncode, done.stderr)
        return str(found[0])

    def has_source(self, requirement: str, index: str = "") -> bool:
        """Tell whether there is a source distribution that meets a requirement.

        Pip is ended where it would run code of what it found, to learn what that needs.
        """
        with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
            words = ["download", "--no-input", "--no-deps", "--no-binary=:all:"]
            words += ["--python-version", self.target.python, "--dest", folder]
            words += ["--extra-index-url", index, *_BRIEF] if index else []
            done = self._finished(folder, *words, requirement)
        return not done.returncode or _ENDED in done.stderr

    def _run(self, folder: str, *words: str) -> None:
        """Run pip in a folder; raise ``ProgramError`` where it fails."""
        done = self._finished(folder, *words)
        if done.returncode:
            raise process.ProgramError(["pip"], done.returncode, done.stderr)

    def _finished(self, folder: str, *words: str) -> process.Finished:
        """Run pip in a folder, without code of what it looks at; return how it ended."""
        command = [*self._python, str(_WITHOUT_CODE), folder, *words]
        # Where it is ended at once it leaves its own temporary folders.
        settings = {"PIP_QUIET": "0", "TMPDIR": folder}
        return process.finished(command, env={**os.environ, **settings})


def _python_for(python: str) -> list[str]:
    """Return a Python of this host that has pip, the same as the image's where that is there.

    Another's pip finds the same wheels, but judges what they need by its own Python's version,
    which is put right afterwards.
    """
    same = f"{sys.version_info.major}.{sys.version_info.minor}" == python
    own, named = sys.executable, f"python{python}"
    for program in (*((own, named) if same else (named, own)), "python3", "python"):
        try:
            process.capture([program, "-m", "pip", "--version"])
        except LumicontainerError:
            continue
        return [program]
    raise HostError(Problem("this host has no pip", hint="install the package python3-pip"))


def write_stand_in(folder: Path, name: str, version: str) -> str:
    """Write a wheel that stands for a package that is there; return the constraint that takes it.

    A version with a local part of its own is no other package's, and meets what its public part
    meets. It needs nothing: what the package needs is there with it.
    """
    public, plus, local = version.partition("+")
    marked = f"{public}+{local}{'.' if plus else ''}{_STAND_IN}"
    file = re.sub(r"[-_.]+", "_", name)
    notes = f"{file}-{marked}.dist-info"
    with zipfile.ZipFile(folder / f"{file}-{marked}-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            f"{notes}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {marked}\n"
        )
        wheel.writestr(
            f"{notes}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{notes}/RECORD", "")
    return f"{name}=={marked}"


def read_report(report: Mapping[str, Any]) -> list[Wheel]:
    """Return the wheels of pip's installation report (its version 1)."""
    found = []
    for each in report["install"]:
        about, origin = each["metadata"], each["download_info"]
        archive = origin.get("archive_info", {})
        old = str(archive.get("hash", "")).partition("sha256=")[2]
        sha256 = archive.get("hashes", {}).get("sha256", old)
        needs = tuple(about.get("requires_dist", ()))
        found.append(Wheel(about["name"], about["version"], sha256, origin["url"], needs))
    return found


def is_of(wheel: Wheel, index: str) -> bool:
    """Tell whether a wheel comes from an index, which may serve its files by another host."""
    hosts = [(urlsplit(url).hostname or "").split(".")[-2:] for url in (wheel.url, index)]
    return bool(index) and hosts[0] == hosts[1]
