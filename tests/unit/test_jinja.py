"""Templates require each of their values, and never interpret the text of users."""

import pytest
from jinja2 import UndefinedError

from lumicontainer.core.render.jinja import fill


def test_a_template_requires_each_value() -> None:
    with pytest.raises(UndefinedError, match="'home' is undefined"):
        fill("runscript.sh.j2")


def test_template_syntax_in_a_value_is_text() -> None:
    text = "{{ home }} {% raw %} ${#array} <b>"
    assert text in fill("runscript.sh.j2", home=text)
