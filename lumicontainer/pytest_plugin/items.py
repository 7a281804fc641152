"""The checks of an image as items of pytest, and the image as a fixture."""

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

from lumicontainer import api
from lumicontainer.errors import LumicontainerError


class LumiImage:
    """Run commands in an image, with the binds of this host and its platform."""

    def __init__(self, config: pytest.Config) -> None:
        self.path: Path = config.option.lumi_image
        self._image = api.inspect(self.path, platform=config.option.lumi_platform)

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> api.Finished:
        """Run a command; return its ``returncode``, ``stdout`` and ``stderr``.

        ``env`` is added to the environment of this process in the container.
        """
        try:
            return self._image.execute(command, environment=env)
        except LumicontainerError as error:
            pytest.fail(str(error), pytrace=False)


class ImageFile(pytest.File):
    """The file of an image: its checks are its items, which run in one container."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each check of the level."""
        try:
            checks = api.checks(self.path, level=self.config.option.lumi_level)
        except LumicontainerError as error:
            raise self.CollectError(str(error)) from error
        for check in checks:
            yield _Check.from_parent(self, name=check["name"], check=check)

    @cached_property
    def results(self) -> Mapping[str, api.Check]:
        """Run the selected checks in one container; return their results."""
        due = [item.check for item in self.session.items if isinstance(item, _Check)]
        try:
            done = api.verify(self.path, only=due, platform=self.config.option.lumi_platform)
        except LumicontainerError as error:
            pytest.fail(str(error), pytrace=False)
        return {row["name"]: row for row in done.checks}


class _Check(pytest.Item):
    def __init__(self, *, check: api.Check, **others: Any) -> None:
        super().__init__(**others)
        self.check = check

    def setup(self) -> None:
        row = self._row()
        if row["state"] == "skipped":
            pytest.skip(row["reason"])
        if row["state"] == "error":
            raise _CheckFailedError(row)

    def runtest(self) -> None:
        row = self._row()
        self.add_report_section("call", "stdout", row["output"])
        for each in row["measured"]:
            self.user_properties.append((each["name"], each["value"]))
        if row["state"] != "passed":
            raise _CheckFailedError(row)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        if isinstance(excinfo.value, _CheckFailedError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        return self.path, None, f"{self.name}: {self.check['summary']}"

    def _row(self) -> api.Check:
        assert isinstance(self.parent, ImageFile)
        return self.parent.results[self.name]


class _CheckFailedError(Exception):
    def __init__(self, row: api.Check) -> None:
        super().__init__(f"{row['summary']}\n\n{row['reason']}\n\nhint: {row['hint']}")
