"""The layer ``deepspeed`` has a parameter for each op builder of every version that it pins.

An op that has none is compiled, or not, as upstream likes it, and its check would not miss it.
"""

import re

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model.source import SdistSource

from ..faults.real import source_files

LAYER = open_catalog().layer("deepspeed")
PINS = {
    name: source.sha256
    for name, each in LAYER.versions.items()
    for source in each.sources
    if isinstance(source, SdistSource)
}
FLAG = re.compile(r"""BUILD_VAR *= *["'](DS_BUILD_\w+)""")
BASE = "DS_BUILD_NOT_IMPLEMENTED"
"""The flag of the class that stands for ops which an accelerator lacks."""


PARAMETERS = {each.name for each in LAYER.parameters if each.name.startswith("DS_BUILD_")}


def flags_of(version: str) -> set[str]:
    """Return the flags of the op builders in a source whose bytes are the pinned ones."""
    source = source_files(f"deepspeed=={version}", PINS[version])
    texts = [path.read_text() for path in (source / "op_builder").rglob("*.py")]
    return {flag for text in texts for flag in FLAG.findall(text)} - {BASE}


@pytest.mark.parametrize("version", PINS)
def test_every_op_builder_of_a_pinned_version_has_a_parameter(version: str) -> None:
    flags = flags_of(version)
    assert len(flags) > 20
    assert flags <= PARAMETERS


def test_every_parameter_is_of_an_op_builder() -> None:
    assert set().union(*map(flags_of, PINS)) == PARAMETERS
