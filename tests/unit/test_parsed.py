"""A document is read once, and its nodes are the same whenever it is asked for again."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lumicontainer.core.schema import document, documents, parsed
from lumicontainer.core.schema.document import Node, Problems, Scalar

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
values = st.recursive(
    words | st.integers() | st.booleans(),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(words, below, max_size=3),
    max_leaves=12,
)


@pytest.fixture(autouse=True)
def nothing_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Give each test a process that has read nothing, and a cache that is not there yet."""
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    another_command()
    yield
    another_command()


def another_command() -> None:
    parsed.KEPT.clear()
    documents._recalled = 0


def end_and_begin() -> None:
    """Let a command end, and another one begin to read."""
    documents.keep()
    another_command()
    documents.recall()


def read(text: str, file: str = "x.yaml") -> Node | None:
    return parsed.parse(text, file, Problems())


def file_of(cache: Path) -> Path:
    return cache / "cache" / "documents.json"


@given(values)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_read_again_has_the_nodes_it_had_and_the_name_it_is_asked_by(value: object) -> None:
    text = json.dumps(value)
    first = read(text)
    kept = json.loads(json.dumps(parsed.KEPT))
    parsed.KEPT.update(kept)
    assert first == document.parse(text, "x.yaml", Problems())
    assert read(text, "y.yaml") == document.parse(text, "y.yaml", Problems())


def test_a_document_with_a_problem_is_told_of_each_time() -> None:
    for _ in range(2):
        problems = Problems()
        assert parsed.parse("a: 1\na: 2\n", "x.yaml", problems) is None
        assert [each.where for each in problems.found] == ["x.yaml:2:1"]


def test_what_one_command_read_the_next_does_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first = read("summary: [a, 'b']\n")
    end_and_begin()
    monkeypatch.setattr(document, "parse", None)
    assert read("summary: [a, 'b']\n") == first
    assert file_of(tmp_path).parent.stat().st_mode & 0o077 == 0


def test_a_text_that_changed_is_read_anew(tmp_path: Path) -> None:
    read("a: 1\n")
    end_and_begin()
    root = read("a: 2\n")
    assert isinstance(root, document.Mapping)
    assert isinstance(root.entries[0][1], Scalar)
    assert root.entries[0][1].text == "2"
    end_and_begin()
    assert len(parsed.KEPT) == 2


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: content[:-1],
        lambda content: content.replace(b"value", b"valve"),
        lambda content: content[:0],
        lambda content: content[::-1],
    ],
)
def test_a_damaged_file_counts_for_nothing_and_is_replaced(damage, tmp_path: Path) -> None:
    read("a: value\n")
    documents.keep()
    whole = file_of(tmp_path).read_bytes()
    file_of(tmp_path).write_bytes(damage(whole))
    another_command()
    documents.recall()
    assert not parsed.KEPT
    read("a: value\n")
    documents.keep()
    assert file_of(tmp_path).read_bytes() == whole


def test_what_was_read_another_way_counts_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    read("a: value\n")
    documents.keep()
    another_command()
    monkeypatch.setattr(documents, "READING", documents.READING + 1)
    documents.recall()
    assert not parsed.KEPT


def test_a_folder_that_others_can_enter_is_neither_believed_nor_written(tmp_path: Path) -> None:
    read("a: 1\n")
    documents.keep()
    before = file_of(tmp_path).read_bytes()
    (tmp_path / "cache").chmod(0o755)
    another_command()
    documents.recall()
    assert not parsed.KEPT
    read("b: 2\n")
    documents.keep()
    assert file_of(tmp_path).read_bytes() == before


def test_no_folder_is_made_in_that_of_another_user_who_could_not_use_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    owner = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    read("a: 1\n")
    documents.keep()
    assert not file_of(tmp_path).parent.exists()


def test_nothing_is_said_where_nothing_can_be_kept(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, where the folder would be")
    documents.recall()
    read("a: 1\n")
    documents.keep()
    assert (tmp_path / "cache").read_text() == "a file, where the folder would be"


def test_those_that_were_asked_for_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(documents, "LIMIT", 2)
    for text in ("a: 1\n", "b: 2\n", "c: 3\n", "a: 1\n"):
        read(text)
    asked = list(parsed.KEPT)
    end_and_begin()
    assert list(parsed.KEPT) == asked[-2:]


def test_a_command_that_read_nothing_new_writes_nothing(tmp_path: Path) -> None:
    read("a: 1\n")
    end_and_begin()
    read("a: 1\n")
    file_of(tmp_path).unlink()
    documents.keep()
    assert not file_of(tmp_path).exists()
