"""Read the options of programs that other files call; ``options.yaml`` lists them."""

import functools
import getopt
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import yaml


class Options(NamedTuple):
    """Hold the options of a command with their values, and its other words."""

    pairs: tuple[tuple[str, str], ...] = ()
    """Each option by its whole name; the value of one that has none is empty."""
    operands: tuple[str, ...] = ()
    unknown: str = ""
    """The first option that the table does not have; nothing else is known then."""


@functools.cache
def _tables() -> Mapping[str, Mapping[str, Any]]:
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    tables: Mapping[str, Mapping[str, Any]] = yaml.safe_load(text)
    return tables


@functools.cache
def _names(program: str) -> tuple[str, tuple[str, ...]]:
    """Return the short and the long options of a program as ``getopt`` takes them."""
    table = _tables()[program]
    rows = [(each, "") for each in table.get("flags", ())]
    rows += [(each, "value") for each in table.get("values", ())]
    short = "".join(f"{name[1:]}{value and ':'}" for name, value in rows if name[1] != "-")
    return short, tuple(f"{name[2:]}{value and '='}" for name, value in rows if name[1] == "-")


def is_wrapper(program: str) -> bool:
    """Return whether a program starts the one that is named behind its options."""
    return bool(_tables().get(program, {}).get("starts"))


def words_behind(program: str, words: Sequence[str]) -> list[str] | None:
    """Return the words behind the options of a wrapper; None if an option is not known."""
    try:
        _, behind = getopt.getopt([*words], *_names(program))
    except getopt.GetoptError:
        return None
    return behind[_tables()[program].get("operands", 0) :]


def read_options(program: str, words: Sequence[str]) -> Options:
    """Return the options and the operands among the words behind a program's name."""
    try:
        options, operands = getopt.gnu_getopt([*words], *_names(program))
    except getopt.GetoptError as error:
        dashes = "--" if len(error.opt) > 1 else "-"
        return Options(unknown=f"{dashes}{error.opt}")
    pairs = tuple((name, value.removeprefix("=")) for name, value in options)
    return Options(pairs, tuple(operands))


def knows_option(program: str, option: str) -> bool:
    """Return whether a program has an option, by its whole name."""
    table = _tables()[program]
    return option in table.get("flags", ()) or option in table.get("values", ())
