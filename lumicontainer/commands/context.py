"""Share among verbs: options, the fields of requests that these fill, and printing of results."""

import argparse
import dataclasses
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lumicontainer.host.recipes import refuse_other_words
from lumicontainer.jobs import slurm
from lumicontainer.system import units
from lumicontainer.system.terminal.output import print_json
from lumicontainer.system.terminal.printing import print_text
from lumicontainer.system.terminal.progress import FORMS
from lumicontainer.system.terminal.text import TextPart

R = TypeVar("R")


class _Result(Protocol):
    def as_data(self) -> Any: ...
    def as_text(self) -> Iterable[TextPart]: ...


REGISTRY = "oci://HOST/NAME"
REPEATED: Mapping[str, Any] = {"action": "append", "default": []}
"""Settings of an option that can be repeated."""
RECIPE = ("recipe", "--platform", "--profile", "--set", "--recipes")
COMMAND = "the command to run in the image, and its arguments"
IMAGE = ("image", "--platform", "--recipes")
_SLURM_NAME = re.compile(r"|(?a:[\w.,@+][\w.,@+-]*)")


def number(text: str, least: int = 1) -> int:
    """Read the value of an option that counts something, from ``least`` on."""
    if not (text.isascii() and text.isdecimal() and len(text) < 10 and int(text) >= least):
        raise argparse.ArgumentTypeError(f"expected a whole number from {least} on, got {text!r}")
    return int(text)


def number_from_0(text: str) -> int:
    """Read the value of an option that counts something, and may be 0."""
    return number(text, 0)


def slurm_name(text: str) -> str:
    """Read the name of a partition or an account; an empty one leaves the choice to Slurm."""
    if not _SLURM_NAME.fullmatch(text):
        raise argparse.ArgumentTypeError(f"expected a name of Slurm, got {text!r}")
    return text


def memory(text: str) -> int:
    """Read the size of an option with its unit, which sbatch would take for megabytes; in bytes."""
    if not re.fullmatch(r"(?a)[1-9]\d{0,8}[MGT]", text):
        raise argparse.ArgumentTypeError(f"expected a size such as 120G, got {text!r}")
    return units.parse_size(text, "")


def time_limit(text: str) -> str:
    """Read the time limit of a job, and return what sbatch reads."""
    try:
        return slurm.time_limit(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


OPTIONS: Mapping[str, dict[str, Any]] = {
    "image": {"metavar": "IMAGE", "type": Path, "help": "the file of an image"},
    "recipe": {
        "metavar": "RECIPE",
        "help": "the name of a recipe, or its file, whose folder is searched first",
    },
    "--recipes": {
        "metavar": "DIR",
        "type": Path,
        "help": "your folder of recipes, layers/, profiles/ and envs/, searched first",
    },
    "--platform": {"metavar": "NAME", "help": "the platform of the image; default: this host's"},
    "--profile": {
        "metavar": "NAME",
        "default": "",
        "help": "the set of versions; default: the platform's, else the first of the recipe",
    },
    "--set": {
        "metavar": "LAYER.PARAMETER=VALUE",
        **REPEATED,
        "dest": "values",
        "help": "set a parameter of a layer; can be repeated",
    },
    "--mirror": {
        "metavar": "FROM=TO",
        **REPEATED,
        "dest": "mirrors",
        "help": "read URLs that begin with FROM from TO instead, a URL or a folder of this host; "
        "can be repeated; ~/.config/lumicontainer/mirrors.yaml holds permanent ones",
    },
    "--cache-from": {
        "metavar": REGISTRY,
        **REPEATED,
        "help": "take layers and wheels that trusted users have sent there; can be repeated",
    },
    "--progress": {
        "choices": FORMS,
        "default": "auto",
        "help": "the form of the progress on stderr; default: %(default)s",
    },
    "--with": {
        "metavar": "FILE",
        "type": Path,
        **REPEATED,
        "dest": "extensions",
        "help": "mount packages that lumicontainer extend wrote; can be repeated, later ones win",
    },
    "--account": {
        "metavar": "NAME",
        "type": slurm_name,
        "default": "",
        "help": "the project to bill for the job",
    },
    "--signed-by": {
        "metavar": "KEY",
        "default": "",
        "help": "refuse an image that this key has not signed, or that has changed since: the file "
        "of a public key in PEM, or the fingerprint of a PGP key",
    },
    "--json": {"action": "store_true", "help": "print JSON"},
}
"""The options that several verbs have, as ``add_argument`` takes them."""


def add_options(parser: argparse._ActionsContainer, *names: str) -> None:
    """Add options of ``OPTIONS`` to the parser of a verb, or to a group of it."""
    for name in names:
        parser.add_argument(name, **OPTIONS[name])


def find_images(arguments: argparse.Namespace) -> None:
    """Raise ``InputError`` if a word that stands for the file of an image is another thing."""
    images = getattr(arguments, "image", None)
    for path in images if isinstance(images, list) else [images]:
        if isinstance(path, Path):
            refuse_other_words(path)


def request_of(kind: type[R], arguments: argparse.Namespace, **more: Any) -> R:
    """Return a request whose fields are the options of their names, and ``more``.

    An option that was left out leaves the default of its field.
    """
    names = {each.name for each in dataclasses.fields(kind)}  # type: ignore[arg-type]
    options = {name: value for name, value in vars(arguments).items() if value is not None}
    return kind(**{**{name: options[name] for name in names & options.keys()}, **more})


def print_result(result: _Result, arguments: argparse.Namespace) -> None:
    """Print a result as JSON if ``--json`` is set, else as text."""
    if arguments.json:
        print_json(result.as_data())
    else:
        print_text(result.as_text())
