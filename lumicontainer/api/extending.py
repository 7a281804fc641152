"""Put more Python packages on an image, as one file next to it or as a new image."""

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.api.values import OnProgress, progress_of
from lumicontainer.building import image_place
from lumicontainer.cache import usage
from lumicontainer.cache.store import Cache
from lumicontainer.core.model.wheel_names import normal
from lumicontainer.errors import InputError, Problem
from lumicontainer.extending import extension, into
from lumicontainer.extending.extension import Order
from lumicontainer.extending.reading.additions import read_additions
from lumicontainer.image import sif
from lumicontainer.system.files.partial import require_folder_of
from lumicontainer.system.files.user_cache import cache_root
from lumicontainer.system.terminal.masking import masked
from lumicontainer.system.terminal.text import Document, TextPart

_INSTALLERS = {"pip", "conda", "uv"}


@dataclass(frozen=True)
class ExtendRequest:
    """Say which packages an image gets, and in which file."""

    image: Path
    output: Path
    packages: Sequence[str] = ()
    """Packages with their versions, such as ``timm>=1.0``."""
    requirements: Sequence[Path] = ()
    """Files such as requirements.txt, pyproject.toml, pylock.toml or environment.yml."""
    editable: Sequence[Path] = ()
    """Folders of your own code, whose changes need no new file."""
    allow_change: Sequence[str] = ()
    """The packages of the image that may be replaced."""
    into: bool = False
    """Whether ``output`` is a new image, with the packages as a layer."""
    build_date: str = ""
    """The date that the labels of a new image name; by default that of the image, if any."""
    command: str = ""
    """The command line that repeats this, which hints name; by default it is made of the rest."""

    def words(self) -> list[str]:
        """Return the words of the command line."""
        named: Mapping[str, Sequence[object]] = {
            "-r": self.requirements,
            "--editable": self.editable,
            "--allow-change": self.allow_change,
        }
        pairs = [(name, str(value)) for name, values in named.items() for value in values]
        options = [word for pair in pairs for word in pair]
        place = ["--into" if self.into else "--output", str(self.output)]
        return ["extend", str(self.image), *self.packages, *options, *place]


class Extended(NamedTuple):
    """Hold the file of an extension, and the versions that were added; None if it was current."""

    path: Path
    added: Mapping[str, str] | None

    def as_data(self) -> dict[str, Any]:
        """Return it as ``lumicontainer extend --json`` prints it."""
        return {**self._asdict(), "path": str(self.path)}

    def as_text(self) -> Iterator[TextPart]:
        """Yield the path of the file."""
        yield Document(f"{self.path}\n")


def extend(request: ExtendRequest, on_progress: OnProgress | None = None) -> Extended:
    """Write an extension and its lock, unless they are what the same request wrote before.

    Raises ``InputError`` if the packages do not fit the image, and any error of a build.
    """
    image, output = request.image, request.output.absolute()
    usage.wanted_limit()  # An invalid size ends the command before it downloads.
    sif.read_objects(image)
    require_folder_of(output, "output")
    order = _read_order(request)
    _check_output(request, output)
    if request.into:
        image_place.require_replaceable(output)
        into.check_image(order)
    extension.remove_leftovers_of(output)
    kind = into if request.into else extension
    if kind.is_current(order, output):
        _check_output(request, output)  # Another user may have put it there meanwhile.
        return Extended(output, None)
    with progress_of(on_progress) as progress:
        record = kind.make(order, output, progress)
        usage.prune(Cache(cache_root()), progress.say)
    return Extended(output, record.packages)


def _read_order(request: ExtendRequest) -> Order:
    image, packages = request.image, request.packages
    if _INSTALLERS & {*packages[:1]} and "install" in packages:
        places = [shlex.quote(str(each)) for each in (image, request.output)]
        hint = "write the packages alone: lumicontainer extend {} PACKAGE -o {}".format(*places)
        raise InputError(Problem("expected packages, got a command", hint=hint))
    additions = read_additions(packages, request.requirements, request.editable)
    command = request.command or f"lumicontainer {shlex.join(request.words())}"
    changeable = frozenset(map(normal, request.allow_change))
    return Order(image, additions, changeable, masked(command), request.build_date)


def _check_output(request: ExtendRequest, output: Path) -> None:
    if request.into:
        image_place.check_output(output)
    elif output.suffix == ".sif":
        name = shlex.quote(output.name)
        hint = f"name it {output.with_suffix('.sqsh').name}, or write --into {name}"
        raise InputError(Problem("an extension is not an image", str(output), hint=hint))
    else:
        extension.check_output(output, request.requirements)
