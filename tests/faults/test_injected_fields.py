"""Texts that are made to be more than text, in fields of documents and records."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any

import pytest

from lumicontainer.core.render import jinja
from lumicontainer.core.render.jinja import fill
from lumicontainer.core.yaml import validators
from lumicontainer.core.yaml.nodes import Scalar
from lumicontainer.core.yaml.readers import schema_of
from lumicontainer.errors import InputError, Place, Problems
from lumicontainer.image import records
from lumicontainer.importing.definition import sections

from .hostile_texts import TEXTS, cases, give, nothing_runs
from .test_damaged_records import RECORDS

__all__ = ["nothing_runs"]

SUBJECT = {
    "name": "x",
    "platform": "p",
    "profile": "",
    "bootstrap": {"agent": "docker", "image": "debian:bookworm", "file": "", "include": []},
    "environment": {},
    "path": [],
    "version": lambda: "p",
}


def definition(summary: str, mirror: str = "") -> list[tuple[str, str]]:
    """Return the names of a definition's sections, and what stands behind each."""
    image = {**SUBJECT, "summary": summary}
    values: dict[str, Any] = {"constants": {}, "defaults": {}, "lists": {}, "path": []}
    values["home"] = "/opt"
    text = fill("apptainer.def.j2", image=image, programs=["true"], mirror=mirror, **values)
    return [(each.name, each.rest) for each in sections(text)]


@give(TEXTS)
def test_a_summary_that_is_accepted_adds_no_section_and_no_stage(texts: Sequence[str]) -> None:
    plain, accepted = definition("plain"), 0
    for text in texts:
        if is_accepted(validators.summary, text):
            assert definition(text) == plain, text
            accepted += 1
    assert accepted > 100


def is_accepted(reader: Any, text: str) -> bool:
    """Return whether a reader of documents takes a text; it says why if not."""
    problems = Problems()
    value = reader(Scalar(Place("x"), text, plain=False), problems)
    assert (value is None) == bool(problems.noted), text
    assert all(each.what for each in problems.noted)
    return value is not None


def is_pattern(reader: Any) -> bool:
    return "pattern" in schema_of(reader)


READERS = [
    *(n for n, r in vars(validators).items() if isinstance(r, FunctionType) and is_pattern(r)),
    "summary",
]
"""The readers of the fields of documents that are more than any text."""
FREE = {"summary", "pattern", "host_library"}


@give([f"{begin}{text}" for begin in ("", "a", "/") for text in TEXTS])
@pytest.mark.parametrize("name", READERS)
def test_a_field_of_a_document_takes_only_what_its_places_can_hold(
    name: str, texts: Sequence[str]
) -> None:
    for text in texts:
        if is_accepted(getattr(validators, name), text):
            assert jinja.plain_line(text) == text
            assert name in FREE or jinja.plain_word(text) == text


def text_fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the paths of the texts and of the names in a record."""
    rows = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    for name, each in rows:
        if isinstance(each, str):
            yield (*path, name)
        yield from text_fields(each, (*path, name))


def with_text(value: Any, path: tuple[Any, ...], text: str) -> Any:
    """Return a record in which a text stands in the place at a path."""
    if not path:
        return text
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = with_text(value[path[0]], path[1:], text)
    return copy


def record_texts(value: Any, kind: type) -> Iterator[str]:
    """Yield the names, or the texts, in a record."""
    if isinstance(value, Mapping):
        yield from value
        for each in value.values():
            yield from record_texts(each, kind)
    elif isinstance(value, list):
        for each in value:
            yield from record_texts(each, kind)


FIELDS = [
    pytest.param(name, path, id=f"{name}-{'.'.join(map(str, path))}")
    for name in ("resolved.json", "checks.json", "packages.json")
    for path in text_fields(RECORDS[name][0])
]


@give(TEXTS[::3])
@pytest.mark.parametrize(("name", "path"), FIELDS)
def test_a_record_has_each_text_as_it_was_or_is_refused(
    name: str, path: tuple[Any, ...], texts: Sequence[str]
) -> None:
    whole, schema = RECORDS[name]
    for text in texts:
        record = with_text(whole, path, text)
        try:
            value = records.parse(json.dumps(record).encode(), schema)
        except records.RecordError as error:
            assert "\n" not in str(error), path
        else:
            assert value == record


@give(TEXTS)
def test_a_name_in_a_record_is_a_plain_word(texts: Sequence[str]) -> None:
    whole, schema = RECORDS["resolved.json"]
    (layer,) = whole["layers"].values()
    for text in texts:
        for changed in (
            {**whole, "layers": {text: layer}},
            {**whole, "layers": {"torch": {**layer, "environment": {text: "x"}}}},
            {**whole, "omitted": {text: "x"}},
        ):
            try:
                value = records.parse(json.dumps(changed).encode(), schema)
            except records.RecordError:
                continue
            assert all(jinja.plain_word(each) for each in record_texts(value, str))


@give(TEXTS)
@pytest.mark.parametrize("quoting", [jinja.plain_word, jinja.plain_line, jinja.variable_name])
def test_what_cannot_stand_in_its_place_is_refused_by_each_filter(
    quoting: Callable[[str], str], texts: Sequence[str]
) -> None:
    for text in texts:
        try:
            quoted = quoting(text)
        except InputError as error:
            assert str(error).isprintable()
        else:
            assert quoted == text
            assert "\n" not in text


def test_there_are_ten_thousand_cases() -> None:
    tests = [test for name, test in globals().items() if name.startswith("test_")]
    tests.remove(test_there_are_ten_thousand_cases)
    assert [test.__name__ for test in tests if not cases(test)] == []
    assert sum(map(cases, tests)) >= 10_000
