"""Sources of git, wheels and folders become files that containers read."""

import tarfile
from dataclasses import replace
from pathlib import Path

import pytest
from packaging.pylock import Package, PackageArchive
from packaging.utils import canonicalize_name
from packaging.version import Version

from lumicontainer.errors import DownloadError, HostError, InputError
from lumicontainer.extending.reading.additions import read_additions
from lumicontainer.extending.sources.archive import MOST, pack_folder
from lumicontainer.extending.sources.prepare import (
    Prepared,
    digest_of,
    prepare_sources,
    project_name,
)
from lumicontainer.host import git
from lumicontainer.host.site import Site
from lumicontainer.packages.pylock import pylock_text, read_pylock
from lumicontainer.packages.toml import read_toml

from ....packages import LOCK
from ...host.test_fetch import UPSTREAM, Upstream, add_submodule, upstream, with_submodules
from ..places import HASH, PROJECT, folder, reference

__all__ = ["folder", "upstream"]

TAGGED = '[project]\nname = "mine"\n[build-system]\nrequires = ["setuptools_scm"]\n'


def prepare(word: str, folder: Path, mirrors: dict[str, str] | None = None) -> tuple[Prepared, str]:
    """Return the prepared source of a word, and what was said."""
    said: list[str] = []
    store = folder / "given"
    store.mkdir(exist_ok=True)
    site = Site("", "", None, {}, (), mirrors or {})
    return prepare_sources([reference(word)], store, site, said.append), "\n".join(said)


def names(prepared: Prepared) -> dict[str, str]:
    """Return the names in the archive of a source, each with the target of a link."""
    with tarfile.open(prepared.sources[0].file) as archive:
        return {each.name.partition("/")[2]: each.linkname for each in archive}


def locked(prepared: Prepared) -> dict[str, object]:
    """Return the row of a source in a lock that uv printed."""
    (source,) = prepared.sources
    archive = PackageArchive(path="x", hashes={"sha256": HASH})
    package = Package(name=canonicalize_name(source.name), version=Version("1.0"), archive=archive)
    lock = replace(read_pylock(f"{LOCK}packages = []\n"), packages=[package])
    data = read_toml(pylock_text(prepared.named_in(lock)))
    (row,) = data["packages"]
    return dict(row)


@pytest.mark.slow
def test_a_branch_is_resolved_to_a_commit_that_is_said_and_locked(
    upstream: Upstream, tmp_path: Path
) -> None:
    tool = upstream.repository("tool", **{"pyproject.toml": PROJECT, "a": "x"})
    commit = upstream.head(tool)
    upstream.git("branch", "old", at=tool)
    upstream.git("tag", "-m", "x", "v1", at=tool)
    upstream.git("update-ref", "refs/pull/7/head", commit, at=tool)
    upstream.later(tool)
    for revision in ("old", "v1", commit[:8], "refs/pull/7/head", "refs/tags/v1"):
        prepared, said = prepare(f"git+{UPSTREAM}tool@{revision}", tmp_path, upstream.mirrors)
        assert said == f"{UPSTREAM}tool: {revision} is the commit {commit}"
        assert names(prepared) == {"a": "", "pyproject.toml": ""}
        vcs = {"type": "git", "url": f"{UPSTREAM}tool", "requested-revision": revision}
        assert locked(prepared)["vcs"] == {**vcs, "commit-id": commit}
    upstream.git("tag", "old", at=tool)
    assert git.resolve_revision(f"{UPSTREAM}tool", "old", upstream.mirrors) == commit
    _, said = prepare(f"git+{UPSTREAM}tool", tmp_path, upstream.mirrors)
    assert said.endswith(upstream.head(tool))
    with pytest.raises(DownloadError, match="has no branch or tag 'none'"):
        prepare(f"git+{UPSTREAM}tool@none", tmp_path, upstream.mirrors)
    with pytest.raises(DownloadError, match="cannot read the repository"):
        prepare(f"git+{UPSTREAM}nothing", tmp_path, upstream.mirrors)


@pytest.mark.slow
def test_the_same_commit_gives_the_same_bytes(upstream: Upstream, tmp_path: Path) -> None:
    tool = upstream.repository("tool", **{"pyproject.toml": PROJECT})
    prepared = [
        prepare(f"git+{UPSTREAM}tool@{upstream.head(tool)}", tmp_path, upstream.mirrors)[0]
        for _ in range(2)
    ]
    assert len({each.sources[0].file.read_bytes() for each in prepared}) == 1


@pytest.mark.slow
def test_submodules_are_a_part_of_a_repository(upstream: Upstream, tmp_path: Path) -> None:
    outer = with_submodules(upstream)
    commit = upstream.head(outer)
    prepared, _ = prepare(f"mine @ git+{UPSTREAM}outer@{commit}", tmp_path, upstream.mirrors)
    assert {"a", "lib/inner/b", "lib/inner/deep/c"} <= {*names(prepared)}


@pytest.mark.slow
def test_files_of_git_lfs_are_said_to_be_pointers(upstream: Upstream, tmp_path: Path) -> None:
    pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    attributes = "*.bin filter=lfs diff=lfs merge=lfs -text\n"
    tool = upstream.repository("tool", **{"a\t.bin": pointer, ".gitattributes": attributes})
    word = f"mine @ git+{UPSTREAM}tool@{upstream.head(tool)}"
    _, said = prepare(word, tmp_path, upstream.mirrors)
    assert said.startswith("warning: the repository of 'tool' has pointers to git-lfs in place")
    assert said.endswith("files (1), such as $'a\\t.bin'")


@pytest.mark.slow
def test_no_submodule_leads_to_this_host(upstream: Upstream, tmp_path: Path) -> None:
    tool, other = upstream.repository("tool", a="x"), upstream.repository("other", a="x")
    add_submodule(upstream, tool, other, "lib", f"file://{other}")
    with pytest.raises(DownloadError, match="cannot fetch a submodule"):
        prepare(f"mine @ git+{UPSTREAM}tool", tmp_path, upstream.mirrors)


@pytest.mark.slow
def test_a_version_that_is_a_tag_reaches_the_build(upstream: Upstream, tmp_path: Path) -> None:
    tool = upstream.repository("tool", **{"pyproject.toml": TAGGED})
    upstream.git("tag", "v1.2", at=tool)
    upstream.later(tool)
    commit = upstream.head(tool)
    assert git.describe_commit(f"{UPSTREAM}tool", commit, upstream.mirrors).startswith("v1.2-1-g")
    prepared, _ = prepare(f"git+{UPSTREAM}tool@{commit}", tmp_path, upstream.mirrors)
    assert ".git_archival.txt" in names(prepared)


@pytest.mark.slow
def test_a_folder_in_place_of_the_version_is_reported(upstream: Upstream, tmp_path: Path) -> None:
    tool = upstream.repository("tool", **{"pyproject.toml": 'requires = ["setuptools_scm"]\n'})
    (tool / ".git_archival.txt").mkdir()
    (tool / ".git_archival.txt" / "x").touch()
    upstream.git("add", "--force", ".", at=tool)
    upstream.commit(tool)
    with pytest.raises(HostError, match="cannot write the version"):
        prepare(f"m @ git+{UPSTREAM}tool", tmp_path, upstream.mirrors)


def test_a_key_without_an_end_names_no_project(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(f'{".".join("a" * 300)} = 1\nproject.name = "mine"\n')
    assert project_name(folder) == ""


@pytest.mark.slow
@pytest.mark.parametrize("place", ["sub", "sub/code", "loop", "loop/x", "a%00b", "a" * 300])
def test_a_folder_of_a_repository_is_in_it(upstream: Upstream, tmp_path: Path, place: str) -> None:
    tool = upstream.repository("tool", a="x")
    (tool / "sub").symlink_to(tmp_path)
    (tool / "loop").symlink_to("loop")
    (tmp_path / "code").mkdir()
    upstream.git("add", ".", at=tool)
    upstream.commit(tool)
    with pytest.raises(InputError, match="there is no folder"):
        prepare(f"m @ git+{UPSTREAM}tool#subdirectory={place}", tmp_path, upstream.mirrors)


@pytest.mark.slow
def test_links_of_a_repository_stay_in_it(upstream: Upstream, tmp_path: Path) -> None:
    tool = upstream.repository("tool", a="x")
    (tool / "b").symlink_to("a")
    upstream.git("add", ".", at=tool)
    upstream.commit(tool)
    prepared, _ = prepare(f"m @ git+{UPSTREAM}tool", tmp_path, upstream.mirrors)
    assert names(prepared) == {"a": "", "b": "a"}
    (tool / "c").symlink_to("../../etc/passwd")
    upstream.git("add", ".", at=tool)
    upstream.commit(tool)
    with pytest.raises(InputError, match="leads out of it"):
        prepare(f"m @ git+{UPSTREAM}tool", tmp_path, upstream.mirrors)


@pytest.mark.slow
def test_code_that_knows_the_name_of_a_source_does_not_run_on_the_host(
    upstream: Upstream, tmp_path: Path
) -> None:
    tool = upstream.repository("tool", **{"setup.py": "raise SystemExit('code ran')\n"})
    prepared, _ = prepare(f"git+{UPSTREAM}tool", tmp_path, upstream.mirrors)
    (source,) = prepared.sources
    assert (source.name, source.line) == ("", source.file.as_uri())
    (named,) = prepared.with_names(lambda _: "mine").sources
    assert named.line == f"mine @ {source.file.as_uri()}"
    assert locked(prepared.with_names(lambda _: "mine"))["vcs"]["commit-id"] == upstream.head(tool)


def test_a_wheel_is_copied_and_locked_by_its_hash(folder: Path) -> None:
    path = folder / "wheel-1.0-py3-none-any.whl"
    prepared, _ = prepare(str(path), folder)
    digest = digest_of(reference(str(path)))
    assert locked(prepared)["archive"] == {"path": str(path), "hashes": {"sha256": digest}}
    assert prepared.sources[0].file.read_bytes() == path.read_bytes()
    (folder / "r.txt").write_text(f"{path} --hash=sha256:{HASH}\n")
    (wrong,) = read_additions([], [folder / "r.txt"], []).references
    with pytest.raises(InputError, match="does not have the given hash"):
        prepare_sources([wrong], folder, Site("", "", None, {}, ()), print)


def test_a_folder_is_copied_without_what_tools_leave_there(folder: Path) -> None:
    code = folder / "code"
    before = digest_of(reference("./code"))
    assert [each.digest for each in prepare("./code", folder)[0].sources] == [before]
    for name in (".git/config", ".venv/x", "__pycache__/x.pyc"):
        (code / name).parent.mkdir()
        (code / name).touch()
    assert digest_of(reference("./code")) == before
    (code / "more.py").write_text("x = 1\n")
    assert digest_of(reference("./code")) != before
    prepared, _ = prepare("./code", folder)
    assert names(prepared) == {"more.py": "", "pyproject.toml": ""}
    assert locked(prepared)["directory"] == {"path": str(code)}


def test_data_beside_code_is_no_source(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lumicontainer.extending.sources.archive.MOST", 100)
    (folder / "code/data").write_bytes(b"0" * 200)
    with pytest.raises(InputError, match="name a folder that has only the code"):
        digest_of(reference("./code"))


def test_a_large_file_of_a_folder_is_refused_before_it_is_copied(tmp_path: Path) -> None:
    folder, target = tmp_path / "mine", tmp_path / "mine.tar.gz"
    folder.mkdir()
    with (folder / "data").open("wb") as file:
        file.truncate(MOST + 1)
    with pytest.raises(InputError, match="more than 1"):
        pack_folder(folder, target, "mine")
    assert target.stat().st_size < 1 << 20


def test_folders_in_each_other_without_end_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    deepest = folder
    for _ in range(210):
        deepest.mkdir()
        deepest /= "d"
    (deepest.parent / "code.py").touch()
    with pytest.raises(InputError, match="more than 200 folders in each other"):
        pack_folder(folder, tmp_path / "archive", "mine")


def test_links_of_a_file_count_from_its_folder_as_for_pip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "lists/requirements.txt"
    (tmp_path / "lists/wheels").mkdir(parents=True)
    file.write_text("-f wheels\nmine\n")
    (index,) = read_additions([], [file], []).indexes
    assert index.value == f"{tmp_path}/lists/wheels"
