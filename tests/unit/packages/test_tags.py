"""Wheels for a Python are ordered as installers prefer them."""

from lumicontainer.packages.tags import tags_for

PLATFORMS = ("manylinux_2_35_x86_64", "manylinux_2_17_x86_64")


def order(*tags: str) -> list[str]:
    """Return the tags that are supported, the best first."""
    return [str(each) for each in tags_for("3.11", PLATFORMS) if str(each) in tags]


def test_a_wheel_for_exactly_this_python_and_the_newest_platform_is_the_best() -> None:
    best = [f"cp311-cp311-{PLATFORMS[0]}", f"cp311-cp311-{PLATFORMS[1]}"]
    others = [f"cp38-abi3-{PLATFORMS[0]}", "py3-none-any"]
    assert order(*reversed(best + others)) == best + others


def test_a_wheel_of_another_python_or_machine_is_not_supported() -> None:
    foreign = ("cp312-cp312-manylinux_2_17_x86_64", "cp311-cp311-manylinux_2_17_aarch64")
    assert order(*foreign, "py2-none-any") == []
