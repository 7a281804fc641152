"""Templates require each of their values, and never interpret the text of users."""

import tomllib

import pytest
from jinja2 import UndefinedError

from lumicontainer.core.render.jinja import fill, toml_string


def test_a_template_requires_each_value() -> None:
    with pytest.raises(UndefinedError, match="'home' is undefined"):
        fill("runscript.sh.j2")


def test_template_syntax_in_a_value_is_text() -> None:
    text = "{{ home }} {% raw %} ${#array} <b>"
    assert text in fill("runscript.sh.j2", home=text)


@pytest.mark.parametrize("text", ["", "a b", "'\"\\", "\x01\n\x7f", "é\u2028", "$HOME"])
def test_toml_reads_a_text_as_it_was(text: str) -> None:
    assert tomllib.loads(f"a = {toml_string(text)}") == {"a": text}


def test_toml_escapes_what_its_reader_would_expand() -> None:
    assert toml_string("${HOME}") == '"$${HOME}"'
