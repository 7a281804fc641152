"""Templates require each of their values, quote each, and never interpret the text of users."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from jinja2 import Environment, UndefinedError, nodes

from lumicontainer.core.render import jinja
from lumicontainer.core.render.jinja import fill, toml_string
from lumicontainer.errors import InputError

TEMPLATES = Path(jinja.__file__).parent / "templates"
QUOTING = {
    *("quote", "words", "literal", "printf", "docker", "base64", "lua", "tcl", "toml"),
    *("word", "line", "name", "integer", "sbatch"),
}
OURS = {
    "apptainer.def.j2": {"fakeroot", "program"},
    "proot.def.j2": {"etc.begin", "etc.end", "apt_get"},
    "environment.sh.j2": {"condition", "export"},
    "init/base.yaml.j2": {"bootstrap"},
}
"""By template: values that are whole documents of ours or of a layer, or made of such words."""


def test_a_template_requires_each_value() -> None:
    with pytest.raises(UndefinedError, match="'home' is undefined"):
        fill("runscript.sh.j2")


def test_template_syntax_in_a_value_is_text() -> None:
    text = "{{ home }} {% raw %} ${#array} <b>"
    assert text in fill("module/default-lua.j2", mark=text, name="a", version="b")


@pytest.mark.parametrize(
    "text", ["a b", "a'", "$(id)", "`id`", "a\nb", "#", "a;b", "{{ x }}", "é\u2028"]
)
def test_a_value_that_is_no_plain_word_is_refused_in_its_place(text: str) -> None:
    with pytest.raises(InputError, match="invalid word"):
        fill("runscript.sh.j2", home=text)


@pytest.mark.parametrize("text", ["", "1A", "A B", "A=1\n[x", "é", "A\n"])
def test_what_is_no_name_of_a_variable_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="invalid name of a variable"):
        fill("edf.toml.j2", mark="x", image="x", mounts=[], variables={text: "x"})


def printed(template: Path) -> Iterator[nodes.Expr]:
    """Yield the expressions of a template whose values stand in its document."""
    tree = Environment().parse(template.read_text())
    for output in tree.find_all(nodes.Output):
        yield from (each for each in output.nodes if not isinstance(each, nodes.TemplateData))


def is_quoted(each: nodes.Expr) -> bool:
    """Return whether the last filter quotes, also of each part that is joined."""
    if not isinstance(each, nodes.Filter):
        return False
    inner = each.node
    if each.name == "join" and isinstance(inner, nodes.Filter) and inner.name == "map":
        return isinstance(inner.args[0], nodes.Const) and inner.args[0].value in QUOTING
    return each.name in QUOTING


def name_of(each: nodes.Expr) -> str:
    if isinstance(each, nodes.Getattr):
        return f"{name_of(each.node)}.{each.attr}"
    if isinstance(each, nodes.Call):
        return name_of(each.node)
    return each.name if isinstance(each, nodes.Name) else type(each).__name__


def names_of(template: Path) -> str:
    return template.relative_to(TEMPLATES).as_posix()


@pytest.mark.parametrize("template", sorted(TEMPLATES.rglob("*.j2")), ids=names_of)
def test_each_value_in_a_template_is_quoted_for_its_language(template: Path) -> None:
    name = names_of(template)
    if name.endswith(".html.j2"):
        # Values are escaped by themselves; nothing turns that off, and attributes are in quotes.
        text = template.read_text()
        assert not re.search(r"\|\s*safe|autoescape|Markup", text)
        assert not re.search(r"=\{\{", text)
        assert not re.search(r"(?i)<script|\son\w+=|(?:href|src)=", text)
        return
    unquoted = {name_of(each) for each in printed(template) if not is_quoted(each)}
    assert unquoted == OURS.get(name, set())


@pytest.mark.parametrize("text", ["", "a b", "'\"\\", "\x01\n\x7f", "é\u2028", "$HOME"])
def test_toml_reads_a_text_as_it_was(text: str) -> None:
    assert tomllib.loads(f"a = {toml_string(text)}") == {"a": text}


def test_toml_escapes_what_its_reader_would_expand() -> None:
    assert toml_string("${HOME}") == '"$${HOME}"'
