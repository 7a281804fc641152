"""A plugin of pytest: ``pytest --lumi-image image.sif`` makes the checks of an image.

Each check is an item below the image's file. Tests of a user's own get the fixture ``lumi_image``,
which runs commands in the image. Without the option it does nothing, and imports nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from lumicontainer.system.process import Finished
    from lumicontainer.verify.local import Host
    from lumicontainer.verify.subject import Row

IMAGE, LEVEL, PLATFORM = "--lumi-image", "--lumi-level", "--lumi-platform"


class LumiImage:
    """Run commands in an image, with what this host and its platform need for it."""

    def __init__(self, host: Host) -> None:
        self.path = host.image
        self._host = host

    def run(self, *command: str, env: Mapping[str, str] | None = None) -> Finished:
        """Run a command to its end; return its ``returncode``, ``stdout`` and ``stderr``.

        ``env`` is set in the container, beside what this process has.
        """
        from lumicontainer.system import process  # noqa: PLC0415

        # As they are: otherwise a shell in the container would read them.
        own = {"SINGULARITY_NO_EVAL": "1", "APPTAINER_NO_EVAL": "1"} if env else {}
        for name, value in (env or {}).items():
            own |= {f"{engine}ENV_{name}": value for engine in ("SINGULARITY", "APPTAINER")}
        return process.finished(self._host.command(command), env={**os.environ, **own})


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("lumicontainer", "images of lumicontainer")
    group.addoption(IMAGE, metavar="IMAGE", type=Path, help="make the checks of this image")
    group.addoption(
        LEVEL,
        metavar="LEVEL",
        choices=("quick", "full", "perf"),
        default="quick",
        help="how much of them to run: quick, full or perf (default: %(default)s)",
    )
    group.addoption(PLATFORM, metavar="NAME", help="where it runs (default: what fits this host)")


def pytest_configure(config: pytest.Config) -> None:
    """Have the image collected beside what is named on the command line."""
    image = config.getoption(IMAGE)
    if image is not None:
        if not image.is_file():
            raise pytest.UsageError(f"{IMAGE}: there is no such file: {image}")
        # Without "..", but with links as they are: so pytest itself names files.
        config.option.lumi_image = Path(os.path.abspath(image))  # noqa: PTH100
        config.args.append(str(config.option.lumi_image))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect the image as a file of tests."""
    image = parent.config.getoption(IMAGE)
    if image is not None and file_path == image:
        collector: pytest.Collector = _File.from_parent(parent, path=file_path)
        return collector
    return None


@pytest.fixture(scope="session")
def lumi_image(request: pytest.FixtureRequest) -> LumiImage:
    """Return the image that ``--lumi-image`` names, to run commands in it."""
    if request.config.getoption(IMAGE) is None:
        pytest.fail(f"no image is named: pytest {IMAGE} image.sif", pytrace=False)
    return LumiImage(_host(request.config))


def _host(config: pytest.Config) -> Host:
    """Return what starts containers of the image; fail, in words, where this host cannot."""
    from lumicontainer.core.catalog import open_catalog  # noqa: PLC0415
    from lumicontainer.errors import LumicontainerError  # noqa: PLC0415
    from lumicontainer.host.machine import platform_of  # noqa: PLC0415
    from lumicontainer.verify.local import host_for  # noqa: PLC0415

    try:
        platform = platform_of(open_catalog(), config.getoption(PLATFORM))
        return host_for(config.getoption(IMAGE), platform)
    except LumicontainerError as error:
        pytest.fail(str(error), pytrace=False)


class _File(pytest.File):
    """The file of an image: its checks are its items, and those to run are run together."""

    def collect(self) -> Iterator[pytest.Item]:
        """Yield an item for each check of the level."""
        from lumicontainer.errors import LumicontainerError  # noqa: PLC0415
        from lumicontainer.verify.subject import chosen, read_subject  # noqa: PLC0415

        try:
            checks = read_subject(self.path).checks
        except LumicontainerError as error:
            raise self.CollectError(str(error)) from error
        for check in chosen(checks, self.config.getoption(LEVEL), ()):
            yield _Check.from_parent(self, name=check["name"], check=check)

    @cached_property
    def results(self) -> Mapping[str, Row]:
        """Run what was selected, in one container; return what came of each."""
        from lumicontainer.verify import local  # noqa: PLC0415

        due = [item.check for item in self.session.items if isinstance(item, _Check)]
        part = local.run(_host(self.config), due, required="")
        return {row["name"]: row for row in part.rows()}


class _Check(pytest.Item):
    """One check of an image."""

    def __init__(self, *, check: Row, **others: Any) -> None:
        super().__init__(**others)
        self.check = check

    def setup(self) -> None:
        """Skip where the check was skipped, and end in an error where it has a fault itself."""
        row = self._row()
        if row["state"] == "skipped":
            pytest.skip(row["reason"])
        if row["state"] == "error":
            raise _NotHeldError(row)

    def runtest(self) -> None:
        """Fail where the check does not hold."""
        row = self._row()
        self.add_report_section("call", "stdout", row["output"])
        for each in row["measured"]:
            self.user_properties.append((each["name"], each["value"]))
        if row["state"] != "passed":
            raise _NotHeldError(row)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return what is shown of a check that does not hold."""
        if isinstance(excinfo.value, _NotHeldError):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Return where it is, and what it is called."""
        return self.path, None, f"{self.name}: {self.check['summary']}"

    def _row(self) -> Row:
        assert isinstance(self.parent, _File)
        return self.parent.results[self.name]


class _NotHeldError(Exception):
    """A check does not hold, or could not be made."""

    def __init__(self, row: Row) -> None:
        super().__init__(f"{row['summary']}\n\n{row['reason']}\n\nhint: {row['hint']}")
