"""Documents say their format, and a newer one is refused before its keys are read."""

import re

import pytest

from lumicontainer.core.catalog import open_catalog
from lumicontainer.errors import InputError

from ...conftest import HELLO, ROOT, Write

DOCUMENTS = [
    path
    for folder in ("recipes", "envs")
    for path in sorted((ROOT / folder).rglob("*.yaml"))
    if path.name != "rules.yaml" and "checks" not in path.parts
]


def refusal(write: Write, text: str) -> str:
    with pytest.raises(InputError) as error:
        open_catalog(write({**HELLO, "mine.yaml": text})).recipe("mine")
    return str(error.value)


def test_each_shipped_document_says_its_format() -> None:
    assert len(DOCUMENTS) > 30
    assert [path for path in DOCUMENTS if not re.search("(?m)^format: 1$", path.read_text())] == []


def test_a_document_of_a_newer_format_is_refused_for_that_alone(write: Write) -> None:
    text = refusal(write, "format: 2\nsummary: a\nfoundation: hello\n")
    assert text.startswith("error: this lumicontainer reads format 1, and the document has 2")
    assert "mine.yaml:1:9" in text
    assert "foundation" not in text


def test_a_layer_of_a_newer_format_is_refused_for_that_alone(write: Write) -> None:
    layer = "format: 2\nsummary: a\nfoundation: hello\n"
    with pytest.raises(InputError) as error:
        open_catalog(write({**HELLO, "layers/greet/layer.yaml": layer})).layer("greet")
    assert len(error.value.problems) == 1
    assert "install a newer version of lumicontainer" in str(error.value)


@pytest.mark.parametrize("word", ["0", "-1", "one", '"1"', "1.0", "[1]"])
def test_anything_else_is_no_format(write: Write, word: str) -> None:
    text = refusal(write, f"format: {word}\nsummary: a\nbase: hello\nlayers: []\n")
    assert "expected 1, got" in text
    assert "write 1, without quotes" in text


def test_a_document_without_a_format_has_the_first(write: Write) -> None:
    assert open_catalog(write(HELLO)).recipe("hello").format == 1
