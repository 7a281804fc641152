"""An image: its records, and commands that run in it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lumicontainer.api.execute import Executes
from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model import Platform
from lumicontainer.core.shell import shell_value
from lumicontainer.errors import InputError, Problem
from lumicontainer.extending.mounts import add_extensions
from lumicontainer.host.recipes import find_platform
from lumicontainer.image import integrity, records, sif
from lumicontainer.image.digests import IntegrityResult
from lumicontainer.system.process import Finished
from lumicontainer.system.terminal.text import Folded, TextPart, TextTable
from lumicontainer.verify.local import Host, host_for

if TYPE_CHECKING:  # spython is imported when it is used.
    from lumicontainer.api.instance import Instance


@dataclass(frozen=True)
class Image(Executes):
    """Hold the file of an image; what it needs of this host is found when it first runs."""

    path: Path
    platform: str | Platform | None = None
    """Where it runs; by default the platform of this host."""
    recipes: Path | None = None
    binds: Sequence[str] = ()
    """Paths of yours that its containers see, as the engine's ``--bind`` takes them."""
    extensions: Sequence[Path] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    """The time of each step of the build; empty if nothing was built."""

    @property
    def key(self) -> str:
        """Return the key of what the image was built from; empty if another program built it."""
        return records.key(self.path)

    @property
    def build_date(self) -> str:
        """Return the date that its labels name, in the engines' form; empty if they name none."""
        return records.build_date(self.path)

    @property
    def record(self) -> Mapping[str, Any]:
        """Return what was decided for the image: its platform, layers, versions and binds."""
        return records.resolved(self.path)

    @property
    def packages(self) -> Mapping[str, Mapping[str, str]]:
        """Return the versions of its packages, by kind and name."""
        return records.packages(self.path)

    @property
    def recipe(self) -> str:
        """Return the text of the recipe that it was built from."""
        return records.recipe(self.path)

    @property
    def definition(self) -> str | None:
        """Return the definition from which a plain engine builds it; None if it has none."""
        return records.metadata(self.path).definition

    @property
    def warnings(self) -> Sequence[Problem]:
        """Return what may not work on this host, such as an image for another platform."""
        return self._host.needs.problems

    @property
    def written(self) -> str:
        """Return the time of its file, in UTC: its bytes do not depend on their date."""
        return f"{datetime.fromtimestamp(self.path.stat().st_mtime, UTC):%Y-%m-%dT%H:%MZ}"

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer inspect --json`` prints it."""
        size, date = self.path.stat().st_size, self.build_date or None
        file = {"key": self.key, "bytes": size, "written": self.written, "build_date": date}
        return {**self.record, **file}

    def as_text(self) -> Iterator[TextPart]:
        """Yield it as ``lumicontainer inspect`` prints it."""
        data = self.record
        platform = data["platform"]
        yield f"{data['recipe']}: {data['summary']}"
        yield f"platform {platform['name']}, accelerator {platform['accelerator']}"
        if "profile" in data:
            yield f"profile {data['profile']}"
        for label, key in (("bind", "binds"), ("library of the host", "host_libraries")):
            yield from (f"  {label} {each['path']}" for each in data.get(key, ()))
        size = self.path.stat().st_size / 1e6
        yield f"{size:.0f} MB, key {self.key[:12]}, written {self.written}"
        if self.build_date:
            yield f"build date {self.build_date}"
        for name, layer in data["layers"].items():
            yield f"  {name} {layer['version'] or ''}".rstrip()
            values = layer["parameters"].items()
            yield from (f"    {name} = {shell_value(value)}" for name, value in values)
        yield from (
            Folded("  left out: ", f"{name}: {why}") for name, why in data["omitted"].items()
        )

    def list_packages(self) -> Iterator[TextPart]:
        """Yield its packages as ``lumicontainer inspect --packages`` prints them."""
        for kind, versions in self.packages.items():
            yield kind
            yield TextTable(sorted(versions.items()))

    def require_definition(self) -> str:
        """Return its definition; raise ``InputError`` if it has none."""
        if self.definition is None:
            why = "it was not built from a definition; it may have been converted"
            hint = "singularity inspect prints what the engine recorded"
            raise InputError(Problem("the image has no definition", str(self.path), why, hint))
        return self.definition

    def integrity(self) -> IntegrityResult:
        """Read every byte; return whether all are as the build wrote them."""
        return integrity.check_image(self.path)

    def command(self, words: Sequence[str], way: str = "exec") -> list[str]:
        """Return the engine's command that runs ``words``; ``way`` is that of ``Engine``.

        Raises ``HostError`` if the image cannot run here, and ``InputError`` for a bad bind.
        """
        return self._host.command(words, way, self.binds)

    def instance(self, name: str | None = None) -> "Instance":
        """Start an instance and return spython's object for it, which a ``with`` block ends.

        Raises ``HostError`` if it does not start.
        """
        from lumicontainer.api.instance import Instance  # noqa: PLC0415 - imports spython

        return Instance(self._host, name, self.binds)

    @cached_property
    def _host(self) -> Host:
        if absent := [each for each in self.binds if not Path(each.partition(":")[0]).exists()]:
            what = "cannot bind a path that is not there"
            raise InputError(*(Problem(what, each, hint="correct it") for each in absent))
        platform = self.platform
        if not isinstance(platform, Platform):
            platform = find_platform(open_catalog(self.recipes), platform)
        host = host_for(self.path, platform)
        return host._replace(needs=add_extensions(host.needs, self.path, self.extensions))


def inspect(
    image: str | Path,
    *,
    platform: str | None = None,
    recipes: Path | None = None,
    binds: Sequence[str] = (),
    extensions: Sequence[str | Path] = (),
) -> Image:
    """Return an image, to read its records and to run commands in it.

    It runs with the binds of ``platform``, by default that of this host, which the folder
    ``recipes`` may define; with ``binds`` of yours, as the engine's ``--bind`` takes them; and with
    ``extensions``, the files that ``lumicontainer extend`` wrote. Raises ``InputError`` if the file
    is not an image.
    """
    path = Path(image)
    sif.read_objects(path)
    return Image(path, platform, recipes, tuple(binds), tuple(map(Path, extensions)))


def run(
    image: str | Path,
    command: Sequence[str],
    *,
    platform: str | None = None,
    binds: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> Finished:
    """Run a command in an image; return its ``returncode``, ``stdout`` and ``stderr``.

    ``Image.execute`` can also yield the lines while the command runs.
    """
    opened = inspect(image, platform=platform, binds=binds)
    return opened.execute(command, environment=environment)
