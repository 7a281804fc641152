"""A fixture of the session has the environment of the session, whichever test asks for it first."""

import os

import pytest

NAME = "OF_ONE_TEST"


@pytest.fixture(scope="session")
def seen() -> str | None:
    return os.environ.get(NAME)


def test_a_shared_fixture_sees_nothing_of_what_a_test_sets(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setenv(NAME, "1")
    assert request.getfixturevalue("seen") is None
    assert os.environ[NAME] == "1"
