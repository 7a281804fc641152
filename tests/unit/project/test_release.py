"""The release script refuses a version that is not ready, before it tests and packs anything."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lumicontainer import __version__

from ...conftest import ROOT

pytestmark = pytest.mark.slow

FILES = (".ci/release", "lumicontainer/__init__.py", "CITATION.cff", "docs/changes.md")
GIT = ("git", "-c", "user.name=x", "-c", "user.email=x@example.org")
HEADING, LINE = f"## {__version__}", f"version: {__version__}"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Make a repository of the files that the script reads, with tests that fail."""
    for name in FILES:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    tests = tmp_path / ".ci/run"
    tests.write_text("#!/bin/sh\necho the tests run >&2\nexit 1\n")
    tests.chmod(0o755)
    subprocess.run([*GIT, "init", "-q"], cwd=tmp_path, check=True)
    commit(tmp_path)
    return tmp_path


def commit(folder: Path) -> None:
    subprocess.run([*GIT, "add", "-A"], cwd=folder, check=True)
    subprocess.run([*GIT, "commit", "-qm", "x"], cwd=folder, check=True)


def release(folder: Path) -> str:
    """Run the script, which fails; return what it prints."""
    done = subprocess.run([".ci/release"], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    return done.stderr


def test_a_version_that_is_ready_is_tested_first(checkout: Path) -> None:
    assert release(checkout) == "the tests run\n"
    assert not (checkout / "dist").exists()


def test_a_checkout_with_changes_is_refused(checkout: Path) -> None:
    (checkout / "new").touch()
    assert "the checkout has changes" in release(checkout)


def test_a_version_with_a_tag_is_refused(checkout: Path) -> None:
    subprocess.run([*GIT, "tag", f"v{__version__}"], cwd=checkout, check=True)
    assert f"v{__version__} exists" in release(checkout)


@pytest.mark.parametrize(("name", "line"), [("docs/changes.md", HEADING), ("CITATION.cff", LINE)])
def test_a_version_that_a_page_does_not_name_is_refused(
    checkout: Path, name: str, line: str
) -> None:
    file = checkout / name
    file.write_text(file.read_text().replace(line, ""))
    commit(checkout)
    assert name in release(checkout)
