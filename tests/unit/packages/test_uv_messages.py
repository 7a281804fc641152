"""Messages of uv name the sources that could not be built."""

import pytest

from lumicontainer.packages.uv_messages import needs_image, unbuilt_sources


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
