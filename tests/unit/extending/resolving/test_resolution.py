"""``extend`` chooses versions: real uv asks a folder of packages, without a container."""

import hashlib
import io
import os
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest

from lumicontainer.errors import DownloadError, InputError, Problem
from lumicontainer.extending import extension
from lumicontainer.extending.container import Container, Mounts
from lumicontainer.extending.extension import Order
from lumicontainer.extending.facts import Facts, Installed
from lumicontainer.extending.reading.additions import Additions
from lumicontainer.extending.resolving import conflicts
from lumicontainer.extending.resolving.left_out import find_left_out
from lumicontainer.extending.resolving.proven import prove_sources
from lumicontainer.extending.resolving.resolution import Question, Refusal, Resolution
from lumicontainer.extending.sources.prepare import Prepared
from lumicontainer.host.site import Site
from lumicontainer.host.uv import find_uv
from lumicontainer.image import records
from lumicontainer.system import process
from lumicontainer.system.terminal.progress import Progress

from ....packages import write_source, write_wheel
from ...host.test_registry import Answer, answering

pytestmark = pytest.mark.slow

IMAGE = Facts("3.11", {"base": Installed("2.0", (), ("base",), "")})


class Index:
    """A folder of packages, and uv beside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "index"
        self.folder.mkdir()
        self.work = folder / "work"
        self.work.mkdir()

    def wheel(self, name: str, version: str, *needs: str) -> None:
        write_wheel(self.folder, name, version, *needs)

    def source(self, name: str, version: str, *needs: str, module: str = "helper") -> None:
        write_source(self.folder, name, version, *needs, module=module)

    def resolution(self, facts: Facts = IMAGE, pip: Mapping[str, str] | None = None) -> Resolution:
        pip = pip or {"no-index": "1", "find-links": str(self.folder)}
        site = Site("", "", None, {}, (self.folder,), {}, pip)
        return Resolution(WithoutContainer(self.work / "image.sif", self.work, site), facts)

    def refused(self, *lines: str) -> list[Problem]:
        resolution, question = self.resolution(), Question(lines)
        with pytest.raises(Refusal) as refusal:
            resolution.lock(question)
        return [*conflicts.explain(resolution, question, refusal.value).problems]

    def choose(self, *lines: str, facts: Facts = IMAGE) -> dict[str, str]:
        resolution = self.resolution(facts)
        return resolution.versions(resolution.lock(Question(lines)))


class WithoutContainer(Container):
    """Run uv on this host: the tests wrote all code that it runs."""

    def uv(self, mounts: Mounts, *words: str, quiet: bool = True) -> process.Finished:
        program = find_uv()
        assert program is not None
        settings = {"UV_CACHE_DIR": str(mounts.writes / "cache"), "TMPDIR": str(mounts.writes)}
        command = [str(program), *words, "--color", "never", *(["--quiet"] if quiet else [])]
        return process.in_new_session(command, env={**os.environ, **settings})


@pytest.fixture
def index(tmp_path: Path) -> Index:
    served = Index(tmp_path)
    served.wheel("helper", "1.0")
    return served


def test_a_package_that_needs_a_source_keeps_its_newest_version(index: Index) -> None:
    index.wheel("top", "1.0")
    index.wheel("top", "2.0", "only_source")
    index.source("only_source", "1.0", "below")
    index.wheel("below", "1.0")
    assert index.choose("top") == {"top": "2.0", "only-source": "1.0", "below": "1.0"}


def test_no_pre_release_stands_in_for_a_release_that_needs_a_source(index: Index) -> None:
    index.wheel("top", "2.0", "only_source")
    index.source("only_source", "1.0")
    index.wheel("top", "3.0rc1")
    assert index.choose("top>=1") == {"top": "2.0", "only-source": "1.0"}


def test_no_pre_release_stands_in_for_releases_that_do_not_fit_the_image(index: Index) -> None:
    index.wheel("top", "2.0", "base<2")
    index.wheel("top", "0.1.dev0")
    with pytest.raises(Refusal):
        index.choose("top")
    assert index.choose("top>=0.1.dev0,<1") == {"top": "0.1.dev0"}


def test_packages_with_pre_releases_alone_are_allowed_beside_others(index: Index) -> None:
    index.wheel("top", "2.0", "early==1.0b1", "late")
    index.wheel("early", "1.0b1")
    index.wheel("late", "1.0")
    index.wheel("late", "2.0rc1")
    assert index.choose("top", "late") == {"top": "2.0", "early": "1.0b1", "late": "1.0"}


def test_an_extra_of_a_package_of_the_image_adds_what_it_needs(index: Index) -> None:
    index.wheel("more", "1.0")
    index.wheel("top", "1.0", "base[With_More]")
    needs = ('more>=1; extra == "with-more"', 'base[with-more]; extra == "all"')
    image = IMAGE._replace(packages={"base": Installed("2.0", needs, ("base",), "")})
    assert index.choose("base[all]", facts=image) == {"more": "1.0"}
    assert index.choose("top", facts=image) == {"top": "1.0", "more": "1.0"}
    assert index.choose("base", facts=image) == {}


def test_a_source_that_needs_a_package_of_the_image_is_read_with_it(index: Index) -> None:
    index.source("top", "1.0", module="packaging")
    assert index.choose("top") == {"top": "1.0"}


def test_a_source_that_names_itself_in_code_alone_is_asked(index: Index, tmp_path: Path) -> None:
    index.source("in_code", "1.0", "base<2")
    index.source("broken", "1.0", module="no_such_module")
    named, broken = tmp_path / "named.tar.gz", tmp_path / "broken.tar.gz"
    (index.folder / "in_code-1.0.tar.gz").rename(named)
    (index.folder / "broken-1.0.tar.gz").rename(broken)
    assert index.resolution().name_source(named) == "in-code"
    with pytest.raises(Refusal, match="no_such_module"):
        index.resolution().name_source(broken)


def test_each_phase_says_what_it_does(index: Index) -> None:
    index.wheel("top", "1.0")
    said: list[str] = []
    resolution = Resolution(index.resolution().container, IMAGE, said.append)
    resolution.lock(Question(["top"]))
    assert [each.split()[0] for each in said] == ["choose", "look"]


def test_the_newest_version_is_found_without_building(index: Index) -> None:
    index.wheel("top", "1.0")
    index.source("top", "2.0", module="no_such_module")
    index.source("top", "3.0b1", module="no_such_module")
    assert index.resolution().newest(["top"]) == {"top": "2.0"}


def test_a_newer_version_that_does_not_fit_the_image_is_named_with_the_reason(index: Index) -> None:
    index.wheel("top", "1.0")
    index.wheel("top", "1.5", "base<2")
    index.wheel("other", "1.0")
    resolution, question = index.resolution(), Question(["top", "other"])
    chosen = resolution.versions(resolution.lock(question))
    (warning,) = find_left_out(resolution, question, chosen)
    assert warning.what == "top 1.5 is left out, and 1.0 is added"
    assert warning.why == "top 1.5 needs base <2; the image has 2.0"
    assert "--allow-change base" in warning.hint


def test_a_newest_version_that_nobody_can_install_hides_no_reason(index: Index) -> None:
    index.wheel("top", "1.0")
    index.wheel("top", "1.5", "base<2")
    index.wheel("top", "3.0", "nosuch")
    index.wheel("base", "1.0")
    resolution, question = index.resolution(), Question(["top"])
    (warning,) = find_left_out(resolution, question, {"top": "1.0"})
    assert warning.what == "top 1.5 is left out, and 1.0 is added"
    assert warning.why == "top 1.5 needs base <2; the image has 2.0"


def test_a_package_without_a_release_hides_no_warning_about_others(index: Index) -> None:
    index.wheel("top", "1.0")
    index.wheel("top", "1.5", "base<2")
    index.wheel("early", "1.0b1")
    resolution, question = index.resolution(), Question(["top", "early", "base"])
    chosen = resolution.versions(resolution.lock(question))
    assert chosen == {"top": "1.0", "early": "1.0b1"}
    (warning,) = find_left_out(resolution, question, chosen)
    assert warning.what == "top 1.5 is left out, and 1.0 is added"


@pytest.mark.parametrize(
    ("new", "old", "level"),
    [
        ("3.17", "1.27", "error"),
        ("2026.2", "2025.9", "warning"),
        ("2026.10.9", "2024.8", "error"),
    ],
)
def test_an_older_major_version_is_refused(index: Index, new: str, old: str, level: str) -> None:
    """Users would get another program; of numbers that are years, the last one is near enough."""
    index.wheel("top", old)
    index.wheel("top", new, "base<2")
    (problem,) = find_left_out(index.resolution(), Question(["top"]), {"top": old})
    assert problem.level == level
    assert problem.why == f"top {new} needs base <2; the image has 2.0"
    assert (f"or name it: 'top=={old}'" in problem.hint) == (level == "error")
    assert not [*find_left_out(index.resolution(), Question([f"top=={old}"]), {"top": old})]


@pytest.mark.parametrize(
    ("line", "what", "says"),
    [
        ("nosuch", "package 'nosuch' not found", "correct the name"),
        ("top==9", "no release of top meets 'top==9'", "the newest is 2.0"),
        ("top>2", "no release of top meets 'top>2'", "name one to get it: top==3.0rc1"),
        ("broken", "cannot build broken 1.0 in the image", "no_such_module"),
        ("clash", "the wanted packages do not fit the image", "needs base <2; the image has 2.0"),
    ],
)
def test_the_headline_names_the_cause(index: Index, line: str, what: str, says: str) -> None:
    index.wheel("top", "2.0")
    index.wheel("top", "3.0rc1")
    index.source("broken", "1.0", module="no_such_module")
    index.wheel("clash", "1.0", "base<2")
    index.wheel("base", "1.0")
    (problem,) = index.refused("top", line)
    assert what in problem.what
    assert says in f"{problem.why} {problem.hint}"


def test_an_index_that_cannot_be_reached_is_no_conflict(index: Index) -> None:
    text = "error: Request failed after 3 retries\n  cause: Failed to fetch: http://x.invalid/a/\n"
    resolution, question = index.resolution(), Question(["top"])
    error = conflicts.explain(resolution, question, Refusal(2, text))
    assert (error.code, error.problems[0].what) == (6, "cannot reach an index of packages")


@pytest.mark.parametrize(
    ("status", "text", "why"),
    [
        (137, "", "ended by SIGKILL"),
        (137, "Resolving dependencies...", "ended by SIGKILL\nResolving dependencies..."),
        (2, "", "exit code 2"),
    ],
)
def test_a_build_that_ends_uv_is_no_bug(index: Index, status: int, text: str, why: str) -> None:
    resolution, question = index.resolution(), Question(["top"])
    error = conflicts.explain(resolution, question, Refusal(status, text))
    (problem,) = error.problems
    assert (error.code, problem.what, problem.why) == (5, "uv ended before it chose versions", why)


@pytest.mark.parametrize("name", ["a-", "aé", "-a", "a" * 100_000])
def test_a_build_names_no_package_that_could_not_be(index: Index, name: str) -> None:
    resolution, question = index.resolution(), Question(["top"])
    text = f"error: it failed\n{name} was not found in the package registry\n"
    error = conflicts.explain(resolution, question, Refusal(1, text))
    assert error.code == 2


def test_a_long_message_of_a_build_is_cut(index: Index) -> None:
    resolution, question = index.resolution(), Question(["top"])
    text = f"error: Failed to build `evil==1.0`\n{'z' * 5_000_000}"
    refusal = Refusal(1, text)
    (problem,) = conflicts.explain(resolution, question, refusal).problems
    assert problem.what == "cannot build evil 1.0 in the image"
    assert len(problem.why) < 50_000
    assert len(refusal.text) < 2_000_000


def test_a_file_that_cannot_be_reached_is_no_index(index: Index) -> None:
    url = "https://127.0.0.1:1/top-1.0-py3-none-any.whl"
    resolution, question = index.resolution(), Question([f"top @ {url}#sha256={'0' * 64}"])
    text = f"error: Failed to download `top @ {url}`\n  cause: Failed to fetch: {url}\n"
    error = conflicts.explain(resolution, question, Refusal(2, text))
    (problem,) = error.problems
    assert (error.code, problem.what, problem.where) == (6, "cannot download a package", url)
    assert "index" not in problem.hint


@pytest.mark.parametrize("code", [401, 403])
def test_an_index_that_lets_nobody_in_has_not_lost_the_package(index: Index, code: int) -> None:
    with answering((Answer(code),), []) as host:
        resolution = index.resolution(pip={"index-url": f"http://{host}/simple"})
        question = Question(["top"])
        with pytest.raises(Refusal) as refusal:
            resolution.lock(question)
        error = conflicts.explain(resolution, question, refusal.value)
    (problem,) = error.problems
    assert (error.code, problem.what) == (6, "no access to an index of packages")
    assert f"{host}/simple" in problem.why and str(code) in problem.why
    assert problem.hint.startswith("put the password into ~/.netrc")


def resolve(
    index: Index, line: str, image: Facts = IMAGE, pip: Mapping[str, str] | None = None
) -> str:
    """Return what is said of what an image would get; empty if it fits."""
    order = Order(index.work / "image.sif", Additions((line,)), frozenset(), "")
    printed = io.StringIO()
    try:
        with Progress("plain", stream=printed) as progress:
            extension._resolve(index.resolution(image, pip), order, Prepared(), progress)
    except InputError as error:
        return str(error)
    return printed.getvalue()


def test_what_an_extra_of_a_package_of_the_image_needs_is_judged() -> None:
    needs = ('vllm>=0.2; extra == "fast"',)
    image = Facts("3.11", {"trl": Installed("1.0", needs, ("trl",), "")})
    for line, refused in (("trl", False), ("trl[fast]", True)):
        order = Order(Path("image.sif"), Additions((line,)), frozenset(), "")
        with pytest.raises(InputError) if refused else nullcontext():
            extension._check(order, image)


@pytest.fixture
def _without_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "is_recorded", lambda _: False)


@pytest.mark.usefixtures("_without_record")
def test_what_a_layer_compiles_is_not_added_for_another_package(index: Index) -> None:
    index.wheel("top", "1.0", "deepspeed")
    index.wheel("deepspeed", "0.18.2")
    assert "deepspeed has to be compiled for the image" in resolve(index, "top")
    has = IMAGE._replace(packages={"deepspeed": Installed("0.18.2", (), ("deepspeed",), "")})
    assert resolve(index, "top", has) == ""


@pytest.mark.usefixtures("_without_record")
def test_a_version_without_code_for_the_accelerator_of_the_image_is_refused(index: Index) -> None:
    index.wheel("bitsandbytes", "0.40.0")
    rocm = IMAGE._replace(libraries=frozenset({"libtorch_hip.so"}))
    assert "ask for 'bitsandbytes>=0.50.2'" in resolve(index, "bitsandbytes<0.41", rocm)
    assert resolve(index, "bitsandbytes<0.41") == ""
    index.wheel("bitsandbytes", "0.51.0")
    assert resolve(index, "bitsandbytes", rocm) == ""


@pytest.mark.usefixtures("_without_record")
def test_an_extra_that_a_package_does_not_have_is_named(index: Index) -> None:
    index.wheel("top", "1.0", "base[old]")
    needs = ('more; extra == "all"', 'more; extra == "with-more"')
    image = IMAGE._replace(packages={"base": Installed("2.0", needs, ("base",), "")})
    said = resolve(index, "base[nosuch]", image)
    assert "warning: base 2.0 has no extra 'nosuch'" in said
    assert "hint: it has all, with-more" in said
    assert "warning: top 1.0 has no extra 'mine'" in resolve(index, "top[mine]", image)
    # Only the author of top can do something about it.
    assert resolve(index, "top", image) == ""


@pytest.mark.usefixtures("_without_record")
@pytest.mark.parametrize("code", [401, 403])
def test_one_of_several_indexes_that_refuses_access_is_named(index: Index, code: int) -> None:
    index.wheel("top", "1.0")
    with answering((Answer(code),), []) as host:
        pip = {"index-url": f"http://{host}/simple", "find-links": str(index.folder)}
        said = resolve(index, "top", pip=pip)
    assert "warning: no access to an index of packages" in said
    assert f"{host}/simple" in said and str(code) in said


def test_the_record_names_the_accelerator_of_an_image(
    index: Index, monkeypatch: pytest.MonkeyPatch
) -> None:
    index.wheel("bitsandbytes", "0.40.0")
    monkeypatch.setattr(records, "is_recorded", lambda _: True)
    monkeypatch.setattr(records, "resolved", lambda _: {"platform": {"accelerator": "rocm"}})
    assert "bitsandbytes 0.40.0 is too old for the image" in resolve(index, "bitsandbytes")


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


def test_the_code_of_an_archive_runs_only_if_its_hash_is_that_of_its_address(
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
