"""``extend`` chooses versions: real uv asks a folder of packages, without a container."""

import io
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import pytest

from lumicontainer.errors import InputError
from lumicontainer.extending import extension
from lumicontainer.extending.extension import Order
from lumicontainer.extending.facts import Facts, Installed
from lumicontainer.extending.reading.additions import Additions
from lumicontainer.extending.resolving.left_out import find_left_out
from lumicontainer.extending.resolving.resolution import Question, Refusal, Resolution
from lumicontainer.extending.sources.prepare import Prepared
from lumicontainer.image import records
from lumicontainer.system.terminal.progress import Progress

from ...host.test_registry import Answer, answering
from .folder_index import IMAGE, Index

pytestmark = pytest.mark.slow


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
    index.source("with_image", "1.0", module="packaging")
    index.source("broken", "1.0", module="no_such_module")
    named, built, broken = (tmp_path / f"{name}.tar.gz" for name in ("named", "built", "broken"))
    (index.folder / "in_code-1.0.tar.gz").rename(named)
    (index.folder / "with_image-1.0.tar.gz").rename(built)
    (index.folder / "broken-1.0.tar.gz").rename(broken)
    assert index.resolution().name_source(named) == "in-code"
    assert index.resolution().name_source(built) == "with-image"
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
