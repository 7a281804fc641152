"""A missing package is reported by its name, its place and what to write instead."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lumicontainer.core.lock import LockEntry, apply_lock, lock_with
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import Problem
from lumicontainer.sandbox.failures import failure
from lumicontainer.sandbox.failures.missing_packages import Absent, absent, problem_of
from lumicontainer.system.files.no_links import packages_listed

from ..programs import run
from .test_wheels import Offer, offer

__all__ = ["offer"]

Resolve = Callable[..., Resolved]
LAYER = "summary: x\nversion: '9.9'\npackages:\n  apt: [sl, less=1]\n"
LAYER += "  python: ['six==99', 'Nope[x]>=1']\nsources: [{sdist: evil}]\n"
FILES = {"layers/greet/layer.yaml": LAYER, "layers/greet/build.txt": "# why\nlost==1\n"}


def said(*command: str) -> str:
    """Return what a real program says that fails."""
    done = run(command, env={"LC_ALL": "C"})
    assert done.returncode
    return done.stdout + done.stderr


def pip(*words: str) -> str:
    return said(sys.executable, "-m", "pip", "install", "--dry-run", "--no-input", *words)


def apt(*words: str) -> str:
    return said("apt-get", "--simulate", "install", *words)


def explained(resolved: Resolve, text: str, names: tuple[str, ...] = ()) -> Problem:
    (missing,) = absent(text)
    result = problem_of(missing, resolved(FILES).layers[1], names)
    assert result
    return result


def test_a_name_that_pip_does_not_know_is_reported(resolved: Resolve, offer: Offer) -> None:
    problem = explained(resolved, pip("Nope[x]>=1"))
    assert problem.what == "Python package 'Nope' not found in the configured index"
    assert problem.where.endswith("greet/layer.yaml:5:23")
    assert "correct the name" in problem.hint


def test_a_version_that_pip_does_not_know_is_reported(resolved: Resolve, offer: Offer) -> None:
    for version in ("1.0", "1.1"):
        offer("six", version)
    problem = explained(resolved, pip("six==99"))
    assert problem.what == "Python package 'six' has no version '99' in the configured index"
    assert problem.why == "it has 1.0, 1.1"
    assert problem.where.endswith("greet/layer.yaml:5:12")


def test_a_file_and_a_version_are_places(resolved: Resolve, offer: Offer, tmp_path: Path) -> None:
    (tmp_path / "build.txt").write_text("lost==1\n")
    problem = explained(resolved, pip("--requirement", str(tmp_path / "build.txt")))
    assert problem.where.endswith("greet/build.txt:2:1")
    offer("evil", "1.0")
    problem = explained(resolved, pip("evil==9.9"))
    assert problem.where.endswith("greet/layer.yaml:2:10")


def test_what_another_package_needs_is_no_mistake(resolved: Resolve, offer: Offer) -> None:
    offer("six", "99", "deep>=7")
    (missing,) = absent(pip("six==99"))
    assert missing.word == "deep>=7"
    assert problem_of(missing, resolved(FILES).layers[1]) is None


def test_an_index_that_does_not_answer_is_no_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("NO_INDEX", ""), ("FIND_LINKS", ""), ("CONFIG_FILE", "/dev/null")):
        monkeypatch.setenv(f"PIP_{name}", value)
    text = pip("--index-url", "http://127.0.0.1:9/simple", "--retries", "1", "nope")
    assert "No matching distribution found" in text
    assert absent(text) == []


def test_a_name_and_a_version_that_apt_does_not_know_are_reported(resolved: Resolve) -> None:
    assert absent(apt("nosuchpackage-x")) == [Absent("apt", "nosuchpackage-x")]
    problem = explained(resolved, "E: Unable to locate package sl\n", ("slurm", "slx", "less"))
    assert problem.what == "Debian package 'sl' not found in apt's sources"
    assert problem.where.endswith("greet/layer.yaml:4:9")
    assert problem.hint == "did you mean 'slx'?"
    text = apt("less=1")
    assert failure._NOT_DOWNLOADED.search(text), "a step that a lock decides ends with 6"
    problem = explained(resolved, text)
    assert problem.what == "Debian package 'less' has no version '1' in apt's sources"
    assert problem.where.endswith("greet/layer.yaml:4:13")


def test_an_archive_that_does_not_answer_says_nothing_of_what_there_is() -> None:
    text = "Err:1 http://a.invalid any InRelease\nE: Unable to locate package sl\n"
    assert absent(text) == []
    assert absent("E: Failed to fetch http://a.invalid\nE: Unable to locate package sl") == []


def test_of_a_locked_layer_nothing_is_the_recipe_s_mistake(resolved: Resolve) -> None:
    greet = resolved({"layers/greet/layer.yaml": "summary: x\npackages: {apt: [sl]}\n"})
    assert problem_of(Absent("apt", "sl"), greet.layers[1])
    entries = {
        "tiny": [LockEntry("debootstrap", "bookworm", pin="0" * 64)],
        "greet": [LockEntry("apt", "sl", pin="sl=1")],
    }
    locked = apply_lock(greet, lock_with(greet, entries))
    assert problem_of(Absent("apt", "sl"), locked.layers[1]) is None


def test_the_lists_of_apt_name_the_packages_that_there_are(tmp_path: Path) -> None:
    lists = tmp_path / "tree/var/lib/apt/lists"
    lists.mkdir(parents=True)
    (lists / "a_main_binary-amd64_Packages").write_text("Package: less\nX: y\n\nPackage: sl\n")
    (tmp_path / "outside_Packages").write_text("Package: not-seen\n")
    (lists / "b_Packages").symlink_to(tmp_path / "outside_Packages")
    assert packages_listed(tmp_path / "tree") == {"less", "sl"}
    (tmp_path / "other/var/lib").mkdir(parents=True)
    (tmp_path / "other/var/lib/apt").symlink_to(tmp_path / "tree/var/lib/apt")
    assert packages_listed(tmp_path / "other") == set()


def test_lists_of_apt_that_cannot_be_read_name_no_packages(tmp_path: Path) -> None:
    lists = tmp_path / "tree/var/lib/apt/lists"
    lists.parent.mkdir(parents=True)
    lists.symlink_to("lists")
    assert packages_listed(tmp_path / "tree") == set()
    lists.unlink()
    assert packages_listed(tmp_path / "tree") == set()
    lists.mkdir()
    (lists / "a_Packages").touch()
    os.truncate(lists / "a_Packages", 1 << 40)
    (lists / "b_Packages").write_text("Package: less\n")
    os.mkfifo(lists / "c_Packages")
    (lists / "d_Packages").symlink_to("d_Packages")
    assert packages_listed(tmp_path / "tree") == {"less"}
