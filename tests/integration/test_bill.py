"""An image has its bill of materials and its provenance, as the engine and others read them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

from lumicontainer.image import inspect, sif
from lumicontainer.inside.image.names import plain_name

from ..in_toto import require_valid
from .conftest import ENGINE, check_output, digest, inside, lumicontainer

DPKG = ("dpkg-query", "--show", "--showformat", "${Package} ${Version} ${Architecture}\n")
PYTHON = """
from importlib.metadata import distributions
print(*{(each.name, each.version) for each in distributions()}, sep="\\n")
"""


def bill(image: Path, *words: str) -> Any:
    return json.loads(lumicontainer("sbom", image, *words, code=0).stdout)


def purls(image: Path, kind: str) -> set[tuple[str, str, str]]:
    """Return name, version and architecture of each package of a kind."""
    rows = (PackageURL.from_string(each["purl"]) for each in bill(image)["components"])
    named = (row for row in rows if row.type == kind)
    return {(row.name, row.version or "", row.qualifiers.get("arch", "")) for row in named}


def provenance(image: Path) -> Any:
    return json.loads(lumicontainer("inspect", "--provenance", image, code=0).stdout)


def test_the_bill_lists_what_dpkg_and_python_list_in_the_image(image: Path) -> None:
    system = {tuple(line.split()) for line in inside(image, *DPKG).splitlines()}
    assert purls(image, "deb") == system
    rows = map(eval, inside(image, "python3", "-c", PYTHON).splitlines())
    assert purls(image, "pypi") == {(plain_name(name), version, "") for name, version in rows}
    assert len(system) > 100


def test_the_bill_of_an_image_is_an_object_of_its_file_that_the_engine_knows(small: Path) -> None:
    listed = check_output(ENGINE, "sif", "list", small)
    (row,) = (line for line in listed.splitlines() if "SBOM" in line)
    assert "cyclonedx-json" in row
    number = row.split("|")[0].strip()
    text = check_output(ENGINE, "sif", "dump", number, small)
    assert json.loads(text) == bill(small)
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None
    components = {each["name"] for each in bill(small)["components"]}
    assert {"bash", "python3-minimal"} & components


def test_spdx_has_the_same_packages(small: Path) -> None:
    rows = bill(small, "--format", "spdx")["packages"]
    refs = (ref for each in rows for ref in each.get("externalRefs", ()))
    assert {ref["referenceLocator"] for ref in refs} == {
        each["purl"] for each in bill(small)["components"]
    }


def test_the_provenance_is_valid_and_its_subjects_are_the_bytes_of_the_file_system(
    small: Path, tmp_path: Path
) -> None:
    statement = provenance(small)
    require_valid(statement)
    assert statement == json.loads(inspect.object_bytes(small, sif.PROVENANCE) or b"")
    content, end = small.read_bytes(), sif.root(small).offset
    for subject in statement["subject"]:
        _, offset, size = subject["name"].split(":")
        assert int(offset) == end
        end += int(size)
        (tmp_path / "part").write_bytes(content[int(offset) : end])
        assert digest(tmp_path / "part") == subject["digest"]["sha256"]
    assert end == sif.root(small).end
    definition = statement["predicate"]["buildDefinition"]
    assert definition["externalParameters"]["recipe"] == "small"


def test_an_image_of_another_program_gets_a_bill_and_has_no_provenance(
    small: Path, tmp_path: Path
) -> None:
    """Without the objects it is as one of an older lumicontainer."""
    root, other = sif.root(small), tmp_path / "other.sif"
    layout = sif.layout("", {"data": {}})
    other.write_bytes(bytes(layout.offset) + small.read_bytes()[root.offset : root.end])
    sif.complete(other, layout, sif.hash_root(other, layout).finish(root.size))
    done = lumicontainer("sbom", other, code=0)
    assert "has no bill of materials" in done.stderr
    assert json.loads(done.stdout)["components"] == bill(small)["components"]
    refused = lumicontainer("inspect", "--provenance", other, code=2)
    assert "the image has no provenance" in refused.stderr


@pytest.mark.parametrize(
    "words", [("sbom",), ("sbom", "--format=spdx"), ("inspect", "--provenance")]
)
def test_damaged_objects_are_refused(words: tuple[str, ...], small: Path, tmp_path: Path) -> None:
    copy = tmp_path / "x.sif"
    copy.write_bytes(small.read_bytes())
    for each in sif.read_objects(copy):
        if each.name in (sif.BILL, sif.PROVENANCE):
            with copy.open("r+b") as file:
                file.seek(each.offset)
                file.write(b"[" * each.size)
    assert "is damaged" in lumicontainer(*words, copy, code=2).stderr


def test_images_of_two_values_differ_in_the_parameter_and_its_layer(
    small: Path, recipes: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other.sif"
    words = ("build", "small", "--recipes", recipes, "--set", "greet.greeting=goodbye")
    lumicontainer(*words, "--no-verify", "-o", other, code=0)
    data = json.loads(lumicontainer("diff", small, other, "--json", code=0).stdout)
    assert data["not_compared"] == []
    sections = data["sections"]
    assert [row["after"] for row in sections["parameters"]] == ["goodbye"]
    changed = {row["name"]: row for row in sections["layers"]}
    assert "greet" in changed
    assert "base" not in changed
    assert changed["greet"]["before"]["bytes"] > 0
    assert not {"system packages", "Python packages", "rules", "binds"} & set(sections)


def test_an_image_is_made_again_and_layers_of_other_inputs_are_named(
    small: Path, recipes: Path, tmp_path: Path
) -> None:
    """Steps that run again belong to the test of reproducible builds."""
    words = ("rebuild", small, "--recipes", recipes, "--cached", "--json")
    done = lumicontainer(*words, cwd=tmp_path, code=0)
    data = json.loads(done.stdout)
    assert {row["state"] for row in data["layers"]} == {"same"}
    assert digest(Path(data["image"])) == digest(small)
    assert "the image was built without a lock" in done.stderr

    own = Path(shutil.copytree(recipes, tmp_path / "own"))
    with (own / "layers/greet/install.sh").open("a") as script:
        script.write("touch /opt/other\n")
    done = lumicontainer(*words[:3], own, *words[4:], "-o", "x.sif", cwd=tmp_path, code=1)
    states = {row["name"]: row["state"] for row in json.loads(done.stdout)["layers"]}
    assert (states["base"], states["greet"]) == ("same", "other inputs")
