"""Find wheels and sources for an image by pip."""

import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from packaging.markers import UndefinedComparison, UndefinedEnvironmentName
from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import Version

from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import HostError, LumicontainerError, Problem
from lumicontainer.pinning.wheels import Query, Target, Wheel, with_extras
from lumicontainer.system import budget, process
from lumicontainer.system.files.temporary import temporary_folder

_WITHOUT_CODE = Path(__file__).parents[1] / "host/scripts/pip_without_code.py"
_GOT = re.compile(r"(?m)^\s*Got\s+([0-9a-f]{64})\s*$")
"""How pip prints the hash of a file that does not match (pip 8 to 26)."""
_ENDED = "a source would run code of its own on this host"
_BRIEF = ("--timeout", "15", "--retries", "1")
"""For the index of a layer: it may be out of reach, and pip asks it for each package."""


class Pip:
    """Ask pip what it would install in an image, with the configuration of this host."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._python = _python_for(target.python)

    def wheels(self, query: Query) -> list[Wheel]:
        """Return the wheels of requirements and of all that they need.

        Raises ``ProgramError`` if pip finds none that fit together. Pip evaluates markers (PEP 508)
        for the Python that runs it. Packages that only the image's Python needs are added.
        """
        return with_extras(query, self._resolve)

    def _resolve(self, query: Query) -> tuple[list[Wheel], str]:
        requirements = list(query.requirements)
        while True:
            wheels, printed = self._ask(replace(query, requirements=requirements))
            wheels_by_name = {normal(each.name): each for each in wheels}
            needs = needed(query.requirements, wheels_by_name, self.target.environment())
            missing = [
                word
                for name, word in needs.items()
                if name not in {*wheels_by_name, *query.present}
            ]
            if not missing:
                return [each for name, each in wheels_by_name.items() if name in needs], printed
            requirements += missing

    def _ask(self, query: Query) -> tuple[list[Wheel], str]:
        with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
            # Pip reports files by their real path.
            place = Path(folder).resolve()
            constraints = query.write_constraints(place)
            report, requirements = place / "report.json", place / "wanted.txt"
            index = [f"--extra-index-url {query.index}"] if query.index else []
            requirements.write_text("".join(f"{line}\n" for line in [*index, *query.requirements]))
            words = ["install", "--dry-run", "--quiet", "--no-input", "--only-binary=:all:"]
            words += ["--target", str(place / "nothing"), "--report", str(report)]
            words += ["--find-links", str(place), "--constraint", str(constraints)]
            words += ["--python-version", self.target.python, "--implementation", "cp"]
            words += [word for tag in self.target.platforms() for word in ("--platform", tag)]
            words += ["--requirement", str(requirements), *(_BRIEF if index else ())]
            done = self._run(folder, *words)
            if done.returncode:
                raise process.ProgramError(["pip"], done.returncode, done.stderr)
            wheels = read_report(json.loads(report.read_bytes()))
        stand_ins = f"{place.as_uri()}/"
        return [each for each in wheels if not each.url.startswith(stand_ins)], done.stderr

    def source(self, requirement: str) -> str:
        """Return the sha256 of the source distribution of a requirement.

        Pip checks the hash of a download before it unpacks it. Given a hash that no file has, it
        prints the hash that it found, and does not read the source. Raises ``ProgramError`` where
        there is no source.
        """
        with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
            requirements = Path(folder) / "wanted.txt"
            requirements.write_text(f"{requirement} --hash=sha256:{'0' * 64}\n")
            words = ["download", "--no-input", "--no-deps", "--no-binary=:all:"]
            words += ["--dest", folder, "--requirement", str(requirements)]
            done = self._run(folder, *words)
        names = _GOT.findall(done.stderr)
        if len(names) != 1:
            raise process.ProgramError(["pip"], done.returncode, done.stderr)
        return str(names[0])

    def has_source(self, requirement: str, index: str = "") -> bool:
        """Return whether there is a source distribution that meets a requirement.

        Pip is ended if it would run code of the source to find its dependencies.
        """
        with tempfile.TemporaryDirectory(prefix="lumicontainer-", dir=temporary_folder()) as folder:
            words = ["download", "--no-input", "--no-deps", "--no-binary=:all:"]
            words += ["--python-version", self.target.python, "--dest", folder]
            words += ["--extra-index-url", index, *_BRIEF] if index else []
            done = self._run(folder, *words, requirement)
        return not done.returncode or _ENDED in done.stderr

    def _run(self, folder: str, *words: str) -> process.Finished:
        """Run pip in a folder; it runs no code of a package."""
        command = _command_of_pip(self._python, folder, *words)
        # A pip that is ended leaves its temporary folders.
        settings = {"PIP_QUIET": "0", "TMPDIR": folder}
        return process.in_new_session(
            command, env={**os.environ, **settings}, limits=budget.RESOLVE
        )


def needed(
    requirements: Iterable[str], wheels: Mapping[str, Wheel], environment: Mapping[str, str]
) -> dict[str, str]:
    """Return a requirement, without its marker (PEP 508), for each package that is needed.

    The keys are names of packages. ``wheels`` are the packages whose needs are known.
    """
    needs: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    left = list(_parsed(requirements))
    while left:
        requirement = left.pop()
        requirement.marker = None
        name = normal(requirement.name)
        needs.setdefault(name, str(requirement))
        for extra in {"", *requirement.extras} if name in wheels else ():
            if (name, extra) not in seen:
                seen.add((name, extra))
                values = {**environment, "extra": extra}
                below = _parsed(wheels[name].needs)
                left += [each for each in below if _applies(each, values)]
    return needs


def _applies(requirement: Requirement, values: Mapping[str, str]) -> bool:
    try:
        return not requirement.marker or requirement.marker.evaluate(dict(values))
    except (UndefinedComparison, UndefinedEnvironmentName):
        return True  # Pip reports it.


def _parsed(requirements: Iterable[str]) -> Iterator[Requirement]:
    for each in requirements:
        with suppress(InvalidRequirement):  # Pip reports it.
            yield Requirement(each)


def _command_of_pip(python: str, folder: str, *words: str) -> list[str]:
    """Return the command that runs the pip of a Python in a folder, and no code of a package."""
    return [python, str(_WITHOUT_CODE), folder, str(budget.SOURCE.longest_pause), *words]


def _python_for(python: str) -> str:
    """Return a Python of this host that has pip: if possible the image's version.

    Another version finds the same wheels, but evaluates markers for itself; see ``Pip.wheels``.
    """
    same = f"{sys.version_info.major}.{sys.version_info.minor}" == python
    own, named = sys.executable, f"python{python}"
    for program in (*((own, named) if same else (named, own)), "python3", "python"):
        with suppress(LumicontainerError):
            process.capture(_command_of_pip(program, "/", "--version"))
            return program
    raise HostError(Problem("this host has no pip", hint="install the package python3-pip"))


def read_report(report: Mapping[str, Any]) -> list[Wheel]:
    """Return the wheels of pip's installation report (its version 1)."""
    wheels = []
    for each in report["install"]:
        about, origin = each["metadata"], each["download_info"]
        archive = origin.get("archive_info", {})
        old = str(archive.get("hash", "")).partition("sha256=")[2]
        sha256 = archive.get("hashes", {}).get("sha256", old)
        needs = tuple(about.get("requires_dist", ()))
        version = str(Version(about["version"]))
        wheels.append(Wheel(about["name"], version, sha256, origin["url"], needs))
    return wheels
