"""A plugin of pytest: ``pytest --lumi-image image.sif`` runs the checks of an image.

Each check is an item below the image's file. The user's tests get the fixture ``lumi_image``, which
runs commands in the image. Without the option it does nothing, and imports nothing.
"""

import os
from pathlib import Path
from typing import Any

import pytest

IMAGE, LEVEL, PLATFORM = "--lumi-image", "--lumi-level", "--lumi-platform"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("lumicontainer", "images of lumicontainer")
    group.addoption(IMAGE, metavar="IMAGE", type=Path, help="run the checks of this image")
    levels = ("quick", "full", "perf")
    summary = "the checks to run: quick, full or perf (default: %(default)s)"
    group.addoption(LEVEL, metavar="LEVEL", choices=levels, default="quick", help=summary)
    summary = "the platform on which it runs (default: this host's)"
    group.addoption(PLATFORM, metavar="NAME", help=summary)


def pytest_configure(config: pytest.Config) -> None:
    """Collect the image in addition to the arguments of the command line."""
    image = config.getoption(IMAGE)
    if image is not None:
        if not image.is_file():
            raise pytest.UsageError(f"{IMAGE}: file not found: {image}")
        # As pytest names files: without "..", but with links.
        config.option.lumi_image = Path(os.path.abspath(image))  # noqa: PTH100
        config.args.append(str(config.option.lumi_image))


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> Any:
    """Collect the image as a file of tests."""
    image = parent.config.getoption(IMAGE)
    if image is None or file_path != image:
        return None
    return _items().ImageFile.from_parent(parent, path=file_path)


@pytest.fixture(scope="session")
def lumi_image(request: pytest.FixtureRequest) -> Any:
    """Return the image that ``--lumi-image`` names, to run commands in it."""
    if request.config.getoption(IMAGE) is None:
        pytest.fail(f"no image: name it with pytest {IMAGE} image.sif", pytrace=False)
    return _items().LumiImage(request.config)


def _items() -> Any:
    from lumicontainer.pytest_plugin import items  # noqa: PLC0415 - for runs without the option

    return items
