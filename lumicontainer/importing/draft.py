"""Collect what a recipe and its layer will hold, and what became of each line of the file."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lumicontainer.core.apptainer_syntax import hazards
from lumicontainer.core.model.files import LayerFile
from lumicontainer.core.yaml import validators
from lumicontainer.core.yaml.nodes import Scalar
from lumicontainer.core.yaml.readers import Reader
from lumicontainer.errors import Place, Problems
from lumicontainer.importing.replacements import find

CARRIED, REPLACED, NOT_NEEDED, NOT_CARRIED = OUTCOMES = (
    *("carried", "replaced", "not needed", "not carried"),
)

_SOURCE: Mapping[str, Reader[Any]] = {
    "git": validators.https_url,
    "url": validators.https_url,
    "folder": validators.file,
    "file": validators.file,
}


class Origin(NamedTuple):
    """Name a line of a file."""

    file: str
    number: int


class ImportedLine(NamedTuple):
    """Hold what became of a line, or of a part of it."""

    origin: Origin
    text: str
    outcome: str
    """One of ``OUTCOMES``."""
    note: str = ""
    layer: str = ""
    """The layer that takes its place."""


class Goal(NamedTuple):
    """Hold what the platform decides."""

    accelerator: str
    base: str
    """The base in words, such as ``debian bookworm``."""
    python: str
    """The version of the base's Python."""


class Draft:
    """Hold the parts of a recipe and of its layer, as they are found."""

    def __init__(self, folder: Path, goal: Goal, name: str) -> None:
        self.folder = folder
        self.goal = goal
        self.name = name
        self.lines: list[ImportedLine] = []
        self.layers: set[str] = set()
        self.apt: dict[str, Origin] = {}
        self.python: dict[str, Origin] = {}
        self.environment: dict[str, str] = {}
        self.path: list[str] = []
        self.parameters: dict[str, str] = {}
        self.files: dict[str, LayerFile] = {}
        self.script: list[str] = []
        self.to_pin: list[Mapping[str, str]] = []
        """Sources whose commit or sha256 the user fills in."""

    def is_layer(self) -> bool:
        """Return whether anything was found for a layer of its own."""
        return any((self.apt, self.python, self.environment, self.path, self.script))

    def note(self, origin: Origin, text: str, outcome: str, why: str = "") -> None:
        """Add what became of a line."""
        self.lines.append(ImportedLine(origin, text, outcome, why))

    def start(self, origin: Origin, text: str, command: str) -> None:
        """Add that ``lumicontainer run`` takes the place of a line that starts a command."""
        self.note(origin, text, REPLACED, f"lumicontainer run {self.name}.sif -- {command}")

    def refuse(self, origin: Origin, text: str, why: str) -> None:
        """Add that a line is not carried over, and why."""
        self.note(origin, text, NOT_CARRIED, why)

    def replace(self, origin: Origin, text: str, layer: str, why: str = "") -> None:
        """Add that a layer takes the place of a line."""
        self.layers.add(layer)
        self.lines.append(ImportedLine(origin, text, REPLACED, why, layer))

    def replace_image(self, origin: Origin, text: str, image: str) -> None:
        """Add what takes the place of a base image: the platform's base, and layers."""
        name = re.split(r"@|:(?=[^/]*$)", image)[0]
        name = re.sub(r"^([\w-]+(\.[\w-]+)+|[\w.-]+:\d+)/", "", name).removeprefix("library/")
        row, base = find("images", name, self.goal.accelerator), f"the base is {self.goal.base}"
        if "layers" in row:
            self.layers.update(row["layers"])
            layer = next(iter(row["layers"]), "")
            self.lines.append(ImportedLine(origin, text, REPLACED, base, layer))
        else:
            why = row.get("refuse", "unknown base image; add what you need of it to the layer")
            self.refuse(origin, text, f"{why}; {base}")

    def refuse_source(self, origin: Origin, text: str, source: Mapping[str, str]) -> None:
        """Add that a download is not carried over, and the source that would pin it."""
        if any(fault(reader, source[key]) for key, reader in _SOURCE.items() if key in source):
            self.refuse(origin, text, "it downloads what nothing pins")
            return
        if source not in self.to_pin:
            self.to_pin.append(source)
        self.refuse(origin, text, "pin it as a source: see 'sources' at the end of layer.yaml")

    def decided(self, kind: str, name: str, origin: Origin, text: str, more: str = "") -> bool:
        """Add what the table of replacements says of a name; return False if it says nothing."""
        row: Mapping[str, Any] = find(kind, name, self.goal.accelerator)
        if "layer" in row:
            self.replace(origin, text, row["layer"], row.get("why", more))
        elif "drop" in row:
            self.note(origin, text, NOT_NEEDED, row["drop"])
        elif "refuse" in row:
            self.refuse(origin, text, row["refuse"])
        return bool(row)


def hazard(text: str) -> str:
    """Return why a line of a script cannot stand in a definition; empty if all can."""
    return next((reason for _, reason in hazards(text)), "")


def fault(reader: Reader[Any], text: str) -> str:
    """Return why a reader of layers refuses a text; empty if it accepts it."""
    problems = Problems()
    reader(Scalar(Place(""), text, plain=False), problems)
    return "; ".join(each.why or each.what for each in problems.found)
