"""Code of a source runs only once its hash is the one that the user wrote."""

import hashlib
from pathlib import Path

import pytest

from lumicontainer.errors import DownloadError, InputError
from lumicontainer.extending.resolving.proven import prove_sources
from lumicontainer.extending.resolving.resolution import Question

from ...host.test_registry import Answer, answering
from .folder_index import Index

pytestmark = pytest.mark.slow


def test_code_of_a_source_runs_only_if_its_hash_is_the_users(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    ran = tmp_path / "ran"
    index.source("odd", "1.0", module=f"pathlib; pathlib.Path({str(ran)!r}).touch()")
    (file,) = index.folder.glob("odd-*")
    sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    resolution = index.resolution()
    question = Question(["odd==1.0 ; python_version > '3'", "helper"])
    with pytest.raises(InputError, match=r"no file of odd 1\.0 has the given hash"):
        prove_sources(resolution, question, {"odd": frozenset({"0" * 64})})
    proven = prove_sources(resolution, question, {"odd": frozenset({sha256})})
    assert not ran.exists()
    assert [line.partition("file:")[0] for line in proven.lines] == ["odd @ ", "helper"]
    lock = resolution.lock(proven)
    assert ran.exists()
    assert resolution.versions(lock) == {"odd": "1.0", "helper": "1.0"}
    (source,) = (each.sdist for each in lock.packages if each.sdist)
    assert source.url == file.as_uri()


def test_the_code_of_an_archive_runs_only_if_its_hash_matches_its_url(
    index: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LUMICONTAINER_CACHE", str(tmp_path / "cache"))
    with answering((Answer(body=b"changed"),), []) as host:
        question = Question([f"odd @ http://{host}/odd-1.0.tar.gz#sha256={'0' * 64}"])
        with pytest.raises(DownloadError, match="does not match its sha256"):
            prove_sources(index.resolution(), question, {})


def test_a_source_by_its_address_has_one_hash(index: Index) -> None:
    question = Question(["odd @ http://x.example/odd-1.0.tar.gz"])
    hashes = {"odd": frozenset({"0" * 64, "1" * 64})}
    with pytest.raises(InputError, match="odd has 2 hashes"):
        prove_sources(index.resolution(), question, hashes)
