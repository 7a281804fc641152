"""A secret is found in what a step hands on, whatever that is."""

from __future__ import annotations

import zipfile
from pathlib import Path

from lumicontainer.secrets import leaks

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
