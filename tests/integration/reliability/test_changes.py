"""Changes are seen: by the second build of `--check`, by the checks of the whole image."""

import shutil

import pytest

from ..conftest import digest
from .chain import LAYERS, Build, Place

ODD = "date +%s%N | tee /opt/four/odd >/opt/four/strange\n"
WHOLE = (
    "# /// check\n# summary: no layer is bad\n# hint: make it good\n# ///\n"
    "test ! -e /opt/four/bad\n"
)


@pytest.fixture(autouse=True)
def own_recipes(place: Place) -> None:
    """Give a place recipes that a test may change."""
    place.recipes = shutil.copytree(place.recipes, place.root / "recipes")


def append(place: Place, text: str) -> None:
    """Add lines to the script of the last layer."""
    with (place.recipes / "layers/four/install.sh").open("a") as script:
        script.write(text)


def test_a_second_build_reports_what_differs_unless_its_layer_says_why(unchecked: Place) -> None:
    append(unchecked, ODD)
    with (unchecked.recipes / "layers/four/layer.yaml").open("a") as layer:
        layer.write("not_reproducible: {'/opt/*/odd': it holds the time}\n")
    unchecked.build()
    checked = unchecked.build("--check", code=1)
    assert checked.made() == [*LAYERS], "the cache has all of it"
    rows = {line.split()[1]: line for line in checked.printed.splitlines()}
    assert rows.keys() == {"/opt/four/odd", "/opt/four/strange"}
    assert "it holds the time" in rows["/opt/four/odd"]
    assert "not explained" in rows["/opt/four/strange"]


def test_the_checks_of_the_whole_image_are_made_again_where_a_layer_changed(place: Place) -> None:
    (place.recipes / "checks").mkdir()
    (place.recipes / "checks/good.sh").write_text(WHOLE)
    place.build()
    good = digest(place.image)
    append(place, "touch /opt/four/bad\n")
    refused = place.build(code=1)
    assert "no layer is bad" in refused.stderr
    assert digest(place.image) == good


def test_a_check_is_made_again_where_a_layer_changed_what_it_reads(place: Place) -> None:
    (place.recipes / "checks").mkdir()
    reads = "# reads: [/opt/four/b*]\n# ///"
    (place.recipes / "checks/good.sh").write_text(WHOLE.replace("# ///\ntest", f"{reads}\ntest"))
    assert made(place.build())
    append(place, "touch /opt/four/odd\n")
    assert not made(place.build())
    good = digest(place.image)
    append(place, "touch /opt/four/bad\n")
    assert "no layer is bad" in place.build(code=1).stderr
    assert digest(place.image) == good
    append(place, "rm /opt/four/bad; ln -s data /opt/four/link\n")
    assert made(place.build())


def made(build: Build) -> bool:
    """Return whether a build ran the check of the whole image."""
    return any("passed   image/good" in each["text"] for each in build.events("line"))


def test_the_checks_of_a_layer_are_made_again_where_its_variables_changed(place: Place) -> None:
    layer = place.recipes / "layers/four"
    about = (layer / "layer.yaml").read_text()
    (layer / "layer.yaml").write_text(about.replace("{name: four}", "{name: four, MOOD: good}"))
    with (layer / "checks/value.sh").open("a") as check:
        check.write('test "$MOOD" = good\n')
    place.build()
    good = digest(place.image)
    (layer / "layer.yaml").write_text(about.replace("{name: four}", "{name: four, MOOD: bad}"))
    assert "four/value" in place.build(code=1).stderr
    assert digest(place.image) == good
