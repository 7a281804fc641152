"""Packages are put on images that plain Apptainer built, which know nothing of lumicontainer."""

from pathlib import Path

import pytest

from lumicontainer.cache.objects import LAYER
from lumicontainer.image.inspect import KEY_LABEL
from lumicontainer.image.squashfs import form_of

from ..cli.conftest import succeeded
from .conftest import ENGINE, check_output, digest, inside, lumicontainer

DEFINITION = """\
Bootstrap: localimage
From: {base}
%labels
    {label} inherited
%environment
    export GREETING="it's here"
"""
FORMS = {"gzip": ("gzip", 128 << 10), "zstd": ("zstd", 256 << 10)}
ARGUMENTS = {
    name: f"-comp {name} -b {block_size} -Xcompression-level 1"
    for name, block_size in FORMS.values()
}
SITE = "lib/python3.11/site-packages"
PROGRAM = "import tabulate; print(tabulate.__file__)"


@pytest.fixture(scope="module", params=FORMS)
def folder(
    request: pytest.FixtureRequest, base_object: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return a folder with an image that plain Apptainer built in one of two compressions.

    It has the label that it would inherit from an image of lumicontainer.
    """
    folder = tmp_path_factory.mktemp(request.param)
    definition = folder / "foreign.def"
    definition.write_text(DEFINITION.format(base=base_object / LAYER, label=KEY_LABEL))
    words = ("--mksquashfs-args", ARGUMENTS[request.param], folder / "foreign.sif", definition)
    check_output(ENGINE, "build", "--fakeroot", *words)
    assert form_of(folder / "foreign.sif") == FORMS[request.param]
    return folder


def extend(folder: Path, *words: object):
    return lumicontainer("extend", *words, cwd=folder)


def test_an_image_of_another_program_gets_packages_beside_it(folder: Path) -> None:
    before = digest(folder / "foreign.sif")
    done = succeeded(extend(folder, "foreign.sif", "tabulate==0.9.0", "-o", "mine.sqsh"))
    assert "foreign.sif has no record of lumicontainer: its python3 lists" in done.stderr
    words = ("run", "--with", "mine.sqsh", "foreign.sif", "--", "python3", "-c", PROGRAM)
    imported = succeeded(lumicontainer(*words, cwd=folder))
    assert imported.stdout == f"/user-software/{SITE}/tabulate/__init__.py\n"
    assert "warning: another program built the image" in imported.stderr
    assert digest(folder / "foreign.sif") == before


def test_an_image_of_another_program_gets_packages_as_layers_one_after_the_other(
    folder: Path,
) -> None:
    succeeded(extend(folder, "foreign.sif", "tabulate==0.9.0", "--into", "first.sif"))
    succeeded(extend(folder, "first.sif", "humanize==4.9.0", "--into", "second.sif"))
    program = f"{PROGRAM}; import humanize; print(humanize.__file__)"
    assert inside(folder / "second.sif", "python3", "-c", program).splitlines() == [
        f"/opt/user-software/00/{SITE}/tabulate/__init__.py",
        f"/opt/user-software/01/{SITE}/humanize/__init__.py",
    ]
    text = inside(folder / "second.sif", "sh", "-c", 'command -v tabulate; echo "$GREETING"')
    assert text == "/opt/user-software/00/bin/tabulate\nit's here\n"
    assert form_of(folder / "second.sif") == form_of(folder / "foreign.sif")
    assert lumicontainer("inspect", "--check", "second.sif", cwd=folder).returncode == 0
    again = extend(folder, "first.sif", "humanize==4.9.0", "--into", "second.sif")
    assert "second.sif is up to date" in again.stderr
