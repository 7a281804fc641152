"""A secret is found in what a step hands on, whatever that is."""

from __future__ import annotations

import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from lumicontainer.engines.apptainer import Apptainer
from lumicontainer.errors import HostError, InputError
from lumicontainer.secrets import leaks, read_secrets

SECRETS = (b"canary-5e3f9b1c77d2",)


def test_a_wheel_names_its_files_that_hold_a_secret(tmp_path: Path) -> None:
    wheel = tmp_path / "x-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/clean.py", "pass\n")
        archive.writestr("x/token.py", f"token = '{SECRETS[0].decode()}'\n")
    assert leaks(wheel, SECRETS) == ["x/token.py"]
    assert leaks(wheel, ()) == []


def test_what_is_no_wheel_is_looked_through_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_bytes(b"built with " + SECRETS[0])
    (tmp_path / "clean.txt").write_text("nothing\n")
    assert leaks(tmp_path / "notes.txt", SECRETS) == ["notes.txt"]
    assert leaks(tmp_path / "clean.txt", SECRETS) == []


@pytest.mark.parametrize("name", ["a,b", "a:b"])
def test_a_file_whose_name_the_engine_would_divide_is_refused(tmp_path: Path, name: str) -> None:
    file = tmp_path / name
    file.write_text("canary-5e3f9b1c77d2")
    plan = SimpleNamespace(steps=[SimpleNamespace(name="greet", secrets=("token",))])
    with pytest.raises(InputError, match="divide the options of the engine"):
        read_secrets([f"id=token,src={file}"], plan)


def test_a_user_that_is_not_there_has_no_files() -> None:
    plan = SimpleNamespace(steps=[SimpleNamespace(name="greet", secrets=("token",))])
    with pytest.raises(InputError, match="the file of a secret cannot be used"):
        read_secrets(["id=token,src=~nosuchuser/token"], plan)


def test_the_engine_is_given_no_path_that_it_would_divide(tmp_path: Path) -> None:
    engine = Apptainer(Path("/usr/bin/apptainer"))
    for folder, bound in (("a:b", "c"), ("a", "c,d")):
        with pytest.raises(HostError, match="cannot be given this path"):
            engine.step_in(
                tmp_path, ["true"], temporary=Path("/tmp") / folder, binds={Path("/", bound): "/x"}
            )
