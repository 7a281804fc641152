"""Ask spython's parsers what single lines mean; they read whole files without line numbers."""

from collections.abc import Sequence
from typing import Any

from spython.logger import bot
from spython.main.parse.parsers.docker import DockerParser
from spython.main.parse.parsers.singularity import SingularityParser

# It would print warnings about the current folder to stderr.
bot.level = -5


def instruction(name: str, text: str) -> Any:
    """Return spython's reading of one instruction of a Dockerfile."""
    return _read(DockerParser(None, load=False), [f"{name} {text}"])


def section(name: str, lines: Sequence[str]) -> Any:
    """Return spython's reading of lines of one section of a definition."""
    return _read(SingularityParser(None, load=False), [f"%{name}", *lines])


def _read(parser: Any, lines: Sequence[str]) -> Any:
    parser.lines = lines
    parser.parse()
    return parser.recipe[parser.active_layer]
