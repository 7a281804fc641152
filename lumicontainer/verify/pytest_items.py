"""The checks of an image as items of pytest, and the image as a fixture."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import LumicontainerError
from lumicontainer.host.machine import platform_of
from lumicontainer.system import process
from lumicontainer.verify import local
from lumicontainer.verify.subject import Row, chosen, read_subject


class LumiImage:
    """Run commands in an image, with the binds of this host and its platform."""

    def __init__(self, host: local.Host) -> None:
        self.path = host.image
        self._host = host

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> process.Finished:
        """Run a command; return its ``returncode``, ``stdout`` and ``stderr``.

        ``env`` is added to the environment of this process in the container.
        """
        # Otherwise a shell in the container would evaluate the values.
        own = {"SINGULARITY_NO_EVAL": "1", "APPTAINER_NO_EVAL": "1"} if env else {}
        for name, value in (env or {}).items():
            own |= {f"{engine}ENV_{name}": value for engine in ("SINGULARITY", "APPTAINER")}
        return process.finished(self._host.command(command), env={**os.environ, **own})


def host_of(config: pytest.Config) -> local.Host:
    """Return what starts containers of the image; fail if this host cannot."""
    try:
        platform = platform_of(open_catalog(), config.option.lumi_platform)
        return local.host_for(config.option.lumi_image, platform)
    except LumicontainerError as error:
        pytest.fail(str(error), pytrace=False)


class ImageFile(pytest.File):
    """The file of an image: its checks are its items, which run in one container."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each check of the level."""
        try:
            checks = read_subject(self.path).checks
        except LumicontainerError as error:
            raise self.CollectError(str(error)) from error
        for check in chosen(checks, self.config.option.lumi_level, ()):
            yield _Check.from_parent(self, name=check["name"], check=check)

    @cached_property
    def results(self) -> Mapping[str, Row]:
        """Run the selected checks in one container; return their results."""
        due = [item.check for item in self.session.items if isinstance(item, _Check)]
        part = local.run(host_of(self.config), due, required="")
        return {row["name"]: row for row in part.rows()}


class _Check(pytest.Item):
    """One check of an image."""

    def __init__(self, *, check: Row, **others: Any) -> None:
        super().__init__(**others)
        self.check = check

    def setup(self) -> None:
        """Skip a skipped check; raise an error if the check itself has a fault."""
        row = self._row()
        if row["state"] == "skipped":
            pytest.skip(row["reason"])
        if row["state"] == "error":
            raise _CheckFailedError(row)

    def runtest(self) -> None:
        """Fail if the check failed."""
        row = self._row()
        self.add_report_section("call", "stdout", row["output"])
        for each in row["measured"]:
            self.user_properties.append((each["name"], each["value"]))
        if row["state"] != "passed":
            raise _CheckFailedError(row)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the text of a failed check."""
        if isinstance(excinfo.value, _CheckFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return the file and the title of the check."""
        return self.path, None, f"{self.name}: {self.check['summary']}"

    def _row(self) -> Row:
        assert isinstance(self.parent, ImageFile)
        return self.parent.results[self.name]


class _CheckFailedError(Exception):
    """A check failed, or could not run."""

    def __init__(self, row: Row) -> None:
        super().__init__(f"{row['summary']}\n\n{row['reason']}\n\nhint: {row['hint']}")
