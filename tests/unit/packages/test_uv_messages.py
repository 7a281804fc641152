"""Messages of uv name sources that could not be built, and extras that nothing has."""

import pytest

from lumicontainer.packages.uv_messages import (
    missing_extras,
    needs_image,
    unbuilt_sources,
    without_progress,
)


@pytest.mark.parametrize(
    ("text", "source", "name"),
    [
        ("error: Failed to build `a.b==1.0`", "a.b==1.0", "a.b"),
        (
            "Failed to download and build `a-b @ file:///x/y.tar.gz`",
            "a-b @ file:///x/y.tar.gz",
            "a-b",
        ),
        ("Failed to build `mine @ file:///code`", "mine @ file:///code", "mine"),
        ("Failed to build `mine`", "mine", "mine"),
    ],
)
def test_a_source_is_named_with_its_package(text: str, source: str, name: str) -> None:
    assert unbuilt_sources(f"x\n{text}\n  cause: y") == [(source, name)]


def test_a_build_that_lacks_a_module_needs_the_image() -> None:
    assert needs_image("ModuleNotFoundError: No module named 'torch'")
    assert not needs_image("error: command 'gcc' failed")


def test_an_extra_that_a_package_does_not_have_is_read() -> None:
    warning = "warning: The package `a-b==1.0+x` does not have an extra named `c`"
    uv = f"Resolved 2 packages in 9ms\n{warning}\n"
    pip = "WARNING: a-b 1.0+x does not provide the extra 'c'\n"
    assert missing_extras(uv) == missing_extras(pip) == [("a-b", "1.0+x", "c")]
    assert missing_extras("warning: other\n") == []


@pytest.mark.parametrize("sign", ["error: ", "  \u00d7 "])
def test_a_message_begins_where_uv_fails(sign: str) -> None:
    text = f"{sign}No solution found\n  cause: error: x"
    assert without_progress(f"warning: other\n{text}") == text
    assert without_progress("other") == "other"
