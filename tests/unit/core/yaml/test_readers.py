"""YAML is read with places, and what would surprise is refused."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lumicontainer.core.yaml import readers
from lumicontainer.core.yaml.nodes import Scalar
from lumicontainer.core.yaml.parse import MAX_BYTES, parse_yaml
from lumicontainer.errors import Problems


def problems_of(text: str) -> list[str]:
    problems = Problems()
    parse_yaml(text, "x.yaml", problems)
    return [f"{each.where} {each.what}" for each in problems.noted]


def read(reader: readers.Reader, text: str) -> tuple[object, list[str]]:
    problems = Problems()
    node = parse_yaml(text, "x.yaml", problems)
    assert node is not None
    value = reader(node, problems)
    return value, [f"{each.what} | {each.hint}" for each in problems.noted]


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("a: 1\na: 2\n", "x.yaml:2:1 duplicate key 'a'"),
        ("a: &x 1\nb: *x\n", "x.yaml:1:4 anchors and aliases are refused"),
        ("a: !!python/object:os.system 1\n", "x.yaml:1:4 the tag"),
        ("a: 1\n---\nb: 2\n", "x.yaml:2:1 expected one YAML document"),
        ("", "x.yaml:1:1 the document is empty"),
        ("a: [1, 2\n", "x.yaml:2:1 this is not YAML"),
        ("a: 'open\n", "this is not YAML"),
        ("[" * 30 + "]" * 30, "too large or nested too deep"),
        ("? [a]\n: b\n", "a key must be a word"),
        ("a: \x07\n", "x.yaml:1:4 this is not YAML"),
        ("a: é\nb: ü\x00\n", "x.yaml:2:5 this is not YAML"),
        ("a:\n\tb: 1\n", "x.yaml:2:1 tab found"),
        ("a:\n  b: 1\n\tc: 2\n", "x.yaml:3:1 tab found"),
        ("a:\n  - x\n\t- y: z\n", "x.yaml:3:1 tab found"),
        ("a:\n  \tb: 1\n", "x.yaml:2:3 tab found"),
        ("a: 1\n\tb: 2\n", "x.yaml:2:1 tab found"),
        ('a: "x\ty" z\n', "x.yaml:1:10 this is not YAML"),
        ("-\t-\tx: y\n", "x.yaml:1:2 tab found"),
    ],
)
def test_what_would_surprise_is_refused_at_its_place(text: str, complaint: str) -> None:
    (problem,) = problems_of(text)
    assert complaint in problem


def test_a_value_that_is_missing_is_called_so() -> None:
    _, problems = read(readers.mapping(readers.text), "a:\n")
    assert problems == ['expected text, got nothing | write "" or the text']
    for reader in (readers.sequence(readers.text), readers.mapping(readers.text)):
        (problem,) = read(readers.mapping(reader), "a:\n")[1]
        assert ", got nothing | write " in problem


def test_text_that_holds_a_colon_is_to_be_quoted() -> None:
    problems = Problems()
    parse_yaml("summary: a: b\n", "x.yaml", problems)
    assert problems.noted[0].hint == "quote text that holds ': '"


def test_a_bomb_of_aliases_is_refused_before_it_unfolds() -> None:
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    assert "anchors and aliases" in problems_of("\n".join(lines))[0]


def test_a_document_that_is_too_large_is_refused() -> None:
    assert "too large" in problems_of("a: '" + "x" * MAX_BYTES + "'")[0]


def test_a_document_with_too_many_values_is_refused() -> None:
    assert "too large" in problems_of("[" + "1," * 30_000 + "]")[0]


@pytest.mark.parametrize("word", ["no", "yes", "on", "3.10", "0755", "1e3", "~", "null", "", "12"])
def test_text_that_yaml_reads_otherwise_must_be_quoted(word: str) -> None:
    value, complaints = read(readers.sequence(readers.text), f"- {word}\n")
    assert value == ()
    assert f'write "{word}"' in complaints[0]
    assert read(readers.sequence(readers.text), f"- '{word}'\n") == ((word,), [])


@pytest.mark.parametrize("word", ["0b74b6ff", "0o89", "0xyz", "1.2.3", "nobody"])
def test_text_that_only_begins_like_something_else_needs_no_quotes(word: str) -> None:
    assert read(readers.text, word) == (word, [])


@pytest.mark.parametrize(
    ("word", "kind"), [("3", "a number"), ("y", "a boolean"), ("~", "another type")]
)
def test_the_message_names_what_yaml_reads_text_as(word: str, kind: str) -> None:
    _, (complaint,) = read(readers.text, word)
    assert complaint.startswith(f"expected text, but YAML reads {word} without quotes as {kind} |")


@pytest.mark.parametrize("word", ["yes", "no", "1", "True", "'true'"])
def test_a_boolean_is_true_or_false_and_nothing_else(word: str) -> None:
    value, complaints = read(readers.boolean, word)
    assert value is None
    assert "write true or false" in complaints[0]


@pytest.mark.parametrize("word", ["0755", "1.0", "'3'", "1_000", "0x10", "many"])
def test_an_integer_is_decimal_digits(word: str) -> None:
    value, complaints = read(readers.integer, word)
    assert value is None
    assert "whole number" in complaints[0]


def test_a_plain_scalar_knows_its_place() -> None:
    node = parse_yaml("a:\n  - b\n", "x.yaml", Problems())
    value = node.entries[0][1].items[0]
    assert isinstance(value, Scalar)
    assert str(value.place) == "x.yaml:2:5"


@pytest.mark.slow
@given(st.text(max_size=300))
def test_no_text_at_all_makes_the_parser_fail_otherwise_than_with_a_problem(text: str) -> None:
    problems = Problems()
    root = parse_yaml(text, "x.yaml", problems)
    assert (root is None) == bool(problems.noted)


PRINTED = st.text(st.characters(exclude_categories=["Cs", "Cc", "Cn"]), max_size=40)


@pytest.mark.slow
@given(st.lists(PRINTED, max_size=8))
def test_quoted_text_comes_back_as_it_was_written(values: list[str]) -> None:
    problems = Problems()
    root = parse_yaml(json.dumps(values, ensure_ascii=False), "x.yaml", problems)
    assert readers.sequence(readers.text)(root, problems) == tuple(values)
    assert not problems.noted
