"""Apt takes what a mirror has from there, whoever added the source, and all else as ever."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.host.site import read_site, stage_site

from ..programs import run
from ..stand_in_archive import Package, StandInArchive, stand_in_archive
from ..unit.host.test_fetch import serving

UPSTREAM = "https://archive.invalid/"


@pytest.fixture
def archive(tmp_path: Path) -> Iterator[StandInArchive]:
    with stand_in_archive(tmp_path / "served") as archive:
        archive.make_key()
        (tmp_path / "key.asc").write_text(archive.key())
        for name in ("near", "far"):
            archive.publish(name, [Package(f"from-{name}")], suite="any", origin="test")
        yield archive


@pytest.fixture
def served(archive: StandInArchive) -> Iterator[str]:
    with serving(archive.root) as url:
        yield url


def settings_of_apt(work: Path, sources: list[str]) -> str:
    """Make the folders of an apt that knows nothing but these sources; return its settings."""
    for folder in ("lists/partial", "cache/archives/partial", "parts"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    lines = [f"deb [signed-by={work}/key.asc] {each} any main\n" for each in sources]
    (work / "list").write_text("".join(lines))
    places = {"Etc::SourceList": "list", "Etc::SourceParts": "parts", "State::Lists": "lists"}
    places |= {"State::status": "status", "Cache": "cache"}
    settings = [f'Dir::{key} "{work}/{place}";\n' for key, place in places.items()]
    return "".join([*settings, 'Debug::NoLocking "1";\n'])


def apt(work: Path, sources: list[str], mirrors: dict[str, str], *words: str) -> str:
    """Run apt-get as a step does, with these sources and its own folders."""
    staged = work / "staged"
    staged.mkdir()
    stage_site(read_site("", mirrors), staged, str(staged))
    with (staged / "apt.conf").open("a") as file:
        file.write(f'{settings_of_apt(work, sources)}APT::Sandbox::User "";\n')
    script = f". {staged}/site.sh && apt-get -q update && apt-get -q download {' '.join(words)}"
    environment = {"no_proxy": "127.0.0.1", "LC_ALL": "C"}
    done = run(["bash", "-c", script], cwd=work / "cache", env=environment)
    return done.stdout + done.stderr


@pytest.mark.parametrize("by", ["file", "http"])
def test_what_a_mirror_has_comes_from_there_and_is_known_by_its_own_name(
    archive: StandInArchive, served: str, tmp_path: Path, by: str
) -> None:
    mirror = {"file": f"{archive.root.as_uri()}/", "http": served}[by]
    said = apt(tmp_path, [f"{UPSTREAM}near"], {UPSTREAM: mirror}, "from-near")
    assert (tmp_path / "cache/from-near_1_amd64.deb").exists(), said
    lists = [path.name for path in (tmp_path / "lists").glob("*Release")]
    assert lists == ["archive.invalid_near_dists_any_InRelease"]


def test_what_has_no_mirror_is_apts_own_work(
    archive: StandInArchive, served: str, tmp_path: Path
) -> None:
    sources = [f"{UPSTREAM}near", f"{served}far"]
    mirrors = {UPSTREAM: f"{archive.root.as_uri()}/"}
    said = apt(tmp_path, sources, mirrors, "from-near", "from-far")
    for name in ("near", "far"):
        assert (tmp_path / f"cache/from-{name}_1_amd64.deb").exists(), said


def test_apt_reports_a_mirror_without_the_archive(archive: StandInArchive, tmp_path: Path) -> None:
    mirrors = {UPSTREAM: f"{archive.root.as_uri()}/elsewhere/"}
    said = apt(tmp_path, [f"{UPSTREAM}near"], mirrors, "from-near")
    assert f"'{UPSTREAM}near any Release' does not have a Release file" in said
