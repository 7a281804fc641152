"""Libraries of the host that must be bound are found, and missing ones are reported."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from lumicontainer.core.model import Bind
from lumicontainer.host.host_libraries import FOLDER, GLIBC, Closure, close
from lumicontainer.inside.elf.loader import Library, Tree

from ..compiled import Root, weaken

pytestmark = pytest.mark.slow

TOP = "/opt/cray/lib64/libfabric.so.1"
BOUND_TOP = f"{FOLDER}/libfabric.so.1"
Z, CURL, CXI = (f"/usr/lib64/{name}" for name in ("libz.so.1", "libcurl.so.4", "libcxi.so.1"))
OLD, NEW = {"GLIBC_2.2.5": ["free"]}, {"GLIBC_2.2.5": ["free"], "GLIBC_2.38": ["strtol38"]}


@dataclass
class World:
    """Hold a host and an image, as folders; both have a C library, the host's is newer."""

    host: Root
    image: Root
    host_libc: Path

    def close(self, *paths: str, seen: tuple[str, ...] = (), last: tuple[str, ...] = ()) -> Closure:
        """Return the closure; one question to the image is enough for it."""
        binds = [Bind(path, "the layer wants it") for path in paths or (TOP,)]
        host, image = Tree(str(self.host.path), last=last), Tree(str(self.image.path))
        questions: list[object] = []

        def ask(names: Sequence[str]) -> dict[str, Library]:
            questions.append(names)
            return {name: library for name in names if (library := image.find(name))}

        closure = close(binds, host, ask, seen=seen)
        assert len(questions) <= 1
        return closure


@pytest.fixture
def world(tmp_path: Path) -> World:
    host, image = Root(tmp_path / "host"), Root(tmp_path / "image")
    image.library("/lib/libc.so.6", defines=OLD)
    return World(host, image, host.library("/lib64/libc.so.6", defines=NEW))


def bound(closure: Closure) -> dict[str, str]:
    """Return where in the container each library lies, and what of the host it is."""
    return {mount.target: mount.source for mount in closure.mounts}


def whys(closure: Closure) -> dict[str, str]:
    return {mount.target.rpartition("/")[2]: mount.reason for mount in closure.mounts}


def test_what_a_layer_names_is_bound_though_the_image_has_it(world: World) -> None:
    world.host.library(TOP, defines=["fi_version"])
    world.image.library("/usr/lib64/libfabric.so.1", defines=["fi_version"])
    closure = world.close()
    assert bound(closure) == {BOUND_TOP: TOP}
    assert whys(closure) == {"libfabric.so.1": "the layer wants it"}
    assert closure.problems == ()


def test_a_chain_of_needs_is_followed_to_its_end_with_the_reason_of_each(world: World) -> None:
    third = world.host.library("/usr/lib64/libnl-3.so.200", defines=["nl"])
    flags = ["-Wl,-rpath,$ORIGIN/../../../usr/lib64"]
    cxi = "/opt/cray/cxi/libcxi.so.1"
    second = world.host.library(cxi, defines=["cxi"], uses=["nl"], needs=[third], flags=flags)
    flags = ["-Wl,-rpath,$ORIGIN/../cxi"]
    world.host.library(TOP, uses=["cxi"], needs=[second, world.host_libc], flags=flags)
    closure = world.close()
    assert bound(closure) == {
        BOUND_TOP: TOP,
        f"{FOLDER}/libcxi.so.1": cxi,
        f"{FOLDER}/libnl-3.so.200": "/usr/lib64/libnl-3.so.200",
    }
    assert whys(closure)["libnl-3.so.200"] == "libcxi.so.1 needs it, and the image has none"
    assert closure.problems == ()


V1, V2 = {"Z_1": ["a"]}, {"Z_1": ["a"], "Z_2": ["b"]}


@pytest.mark.parametrize(
    ("image", "host", "uses", "missing"),
    [
        pytest.param(V1, V1, "a", "", id="the same"),
        pytest.param(V2, V1, "a", "", id="newer"),
        pytest.param(V1, V2, "ab", "version Z_2", id="without a version"),
        pytest.param(["a"], ["a", "b"], "ab", "the symbol b", id="without a symbol"),
        pytest.param(V1, {"Z_1": ["a", "b"]}, "ab", "the symbol b@Z_1", id="of a version"),
    ],
)
def test_a_library_of_the_image_gives_way_only_if_it_is_older(
    world: World, image: object, host: object, uses: str, missing: str
) -> None:
    world.image.library(Z, defines=image)
    world.host.library(TOP, uses=[*uses], needs=[world.host.library(Z, defines=host)])
    closure = world.close()
    why = f"libfabric.so.1 needs it, and the image's is older: it misses {missing}"
    assert whys(closure).get("libz.so.1") == (why if missing else None)
    assert closure.problems == ()


def test_the_c_library_is_never_bound(world: World) -> None:
    math = world.host.library("/lib64/libm.so.6", defines={"GLIBC_2.2.5": ["cos"]})
    world.image.library("/usr/lib64/libm.so.6", defines={"GLIBC_2.2.5": ["cos"]})
    world.host.library(TOP, uses=["cos", "free"], needs=[math, world.host_libc])
    closure = world.close()
    assert list(bound(closure)) == [BOUND_TOP]
    assert closure.problems == ()
    assert {"libc.so.6", "libm.so.6", "libpthread.so.0", "libdl.so.2", "librt.so.1"} < GLIBC
    assert "ld-linux-x86-64.so.2" in GLIBC


def test_a_too_new_version_of_the_c_library_is_reported_with_symbol_and_asker(world: World) -> None:
    libc = world.host_libc
    below = world.host.library(CXI, defines=["cxi"], uses=["strtol38"], needs=[libc])
    world.host.library(TOP, uses=["cxi"], needs=[below])
    (problem,) = world.close().problems
    assert problem.level == "error"
    what = "the image's libc.so.6 has no version GLIBC_2.38; its newest is GLIBC_2.2.5"
    assert problem.what == what
    assert problem.where == f"{CXI} (libfabric.so.1 needs it)"
    assert problem.why == "libcxi.so.1 of the host needs it for strtol38"
    assert "provider to 'source'" in problem.hint


def test_a_version_that_a_library_does_without_is_no_problem(world: World) -> None:
    path = world.host.library(TOP, weak=["strtol38"], needs=[world.host_libc], flags=["-O0"])
    assert len(world.close().problems) == 1
    weaken(path, "GLIBC_2.38")
    assert world.close().problems == ()


def test_a_symbol_that_belongs_to_the_hosts_c_library_alone_is_reported(world: World) -> None:
    libc = world.host.library("/lib64/libc.so.6", defines={"GLIBC_PRIVATE": ["one", "two"]})
    world.image.library("/lib/libc.so.6", defines={"GLIBC_PRIVATE": ["one"]})
    world.host.library(TOP, uses=["one", "two"], needs=[libc])
    (problem,) = world.close().problems
    assert problem.what == "the image's libc.so.6 has no two@GLIBC_PRIVATE"


def test_all_problems_are_reported_at_once(world: World) -> None:
    gone = world.host.library("/usr/lib64/libgone.so.1", defines=["gone"])
    world.host.library(TOP, uses=["gone", "strtol38"], needs=[gone, world.host_libc])
    gone.unlink()
    closure = world.close(TOP, CXI)
    assert [problem.what for problem in closure.problems] == [
        "the host has no libcxi.so.1",
        "neither the host nor the image has libgone.so.1",
        "the image's libc.so.6 has no version GLIBC_2.38; its newest is GLIBC_2.2.5",
    ]
    assert closure.problems[0].where == CXI
    assert "the layer wants it" in closure.problems[0].why
    assert closure.problems[1].where.startswith(TOP)


def test_an_older_one_of_the_host_that_hides_a_newer_one_is_reported(world: World) -> None:
    world.host.library(TOP, defines={"FABRIC_1.7": ["fi"]})
    newer = {"FABRIC_1.7": ["fi"], "FABRIC_1.8": ["fi_new"]}
    world.image.library("/usr/lib64/libfabric.so.1", defines=newer)
    (problem,) = world.close().problems
    assert "libfabric.so.1 of the host would hide the image's" in problem.what
    assert "may need FABRIC_1.8 of /usr/lib64/libfabric.so.1" in problem.why


def test_a_library_without_versions_will_do_for_every_version(world: World) -> None:
    """The loader says so on stderr, and loads it."""
    below = world.host.library(Z, defines=V1)
    world.host.library(TOP, uses=["a"], needs=[below])
    below.unlink()
    world.image.library(Z, defines=["a"])
    assert world.close().problems == ()
    world.host.library(TOP, defines=["fi"])
    world.image.library("/usr/lib64/libfabric.so.1", defines={"FABRIC_1.7": ["fi"]})
    assert world.close().problems == ()


def test_two_libraries_that_need_different_versions_of_a_third_are_reported(world: World) -> None:
    old = world.host.library("/opt/old/libz.so.1", defines={"Z_1": ["a"]})
    new = world.host.library("/opt/new/libz.so.1", defines={"Z_1": ["a"], "Z_2": ["b"]})
    for name, needs, symbol in (("libold.so.1", old, "a"), ("libnew.so.1", new, "b")):
        flags = [f"-Wl,-rpath,{Path('/') / needs.parent.relative_to(world.host.path)}"]
        world.host.library(f"/usr/lib64/{name}", uses=[symbol], needs=[needs], flags=flags)
    (problem,) = world.close("/usr/lib64/libold.so.1", "/usr/lib64/libnew.so.1").problems
    assert problem.what == "two libraries of the host need different versions of libz.so.1"
    assert "libnew.so.1 of the host needs it for b" in problem.why
    assert "/opt/old/libz.so.1, which comes first, has no version Z_2" in problem.why
    assert world.close("/usr/lib64/libnew.so.1", "/usr/lib64/libold.so.1").problems == ()


def test_a_name_that_two_layers_take_from_different_places_is_reported(world: World) -> None:
    other = "/usr/lib64/libfabric.so.1"
    for path in (TOP, other):
        world.host.library(path)
    (problem,) = world.close(TOP, other).problems
    assert problem.what == "two libraries of the host have the name libfabric.so.1"
    assert problem.why.startswith(f"only one of {TOP} and {other} ")


def test_one_library_by_two_paths_is_one(world: World) -> None:
    world.host.library("/usr/lib64/libfabric.so.1")
    world.host.link(TOP, "/usr/lib64/libfabric.so.1")
    assert world.close(TOP, "/usr/lib64/libfabric.so.1").problems == ()


def test_a_library_is_bound_under_the_name_that_it_gives_itself_too(world: World) -> None:
    path = "/opt/cray/lib64/libmpi.so.12"
    world.host.library(path, soname="libmpi_cray.so.12")
    names = ("libmpi.so.12", "libmpi_cray.so.12")
    assert bound(world.close(path)) == {f"{FOLDER}/{name}": path for name in names}


def test_a_library_that_is_opened_by_its_path_is_seen_at_that_path(world: World) -> None:
    ssl = world.host.library("/usr/lib64/libssl.so.1.1", defines=["ssl"])
    world.host.library(CURL, uses=["ssl"], needs=[ssl])
    world.host.library(TOP, opens=CURL)
    closure = world.close()
    assert bound(closure) == {
        BOUND_TOP: TOP,
        f"{FOLDER}/libssl.so.1.1": "/usr/lib64/libssl.so.1.1",
        CURL: CURL,
    }
    assert str(closure.mounts[-1]) == CURL
    why = "libfabric.so.1 opens it by this path, and the image has no such file"
    assert whys(closure)["libcurl.so.4"] == why


def test_a_library_that_the_image_has_at_the_path_is_the_images(world: World) -> None:
    world.host.library(CURL)
    world.host.library(TOP, opens=CURL)
    world.image.library("/usr/lib/libcurl.so.4.8.0")
    world.image.link(CURL, "/usr/lib/libcurl.so.4.8.0")
    assert list(bound(world.close())) == [BOUND_TOP]


def test_what_is_only_opened_warns_if_it_cannot_work(world: World) -> None:
    world.host.library(CURL, uses=["strtol38"], needs=[world.host_libc])
    world.host.library(TOP, opens=CURL)
    (problem,) = world.close().problems
    assert (problem.level, problem.where) == ("warning", f"{CURL} (libfabric.so.1 opens it)")


def test_what_is_opened_in_a_folder_that_is_bound_is_not_bound_again(world: World) -> None:
    gtl = "/opt/cray/lib64/libgtl.so"
    below = world.host.library("/usr/lib64/libhsa.so.1", defines=["hsa"])
    world.host.library(gtl, uses=["hsa"], needs=[below])
    world.host.library(TOP, opens=gtl)
    closure = world.close(seen=("/opt/cray",))
    assert list(bound(closure)) == [BOUND_TOP, f"{FOLDER}/libhsa.so.1"]


def test_a_library_that_would_find_the_hosts_first_gets_it_with_its_needs(world: World) -> None:
    """Its path stands in the library that asks, and leads into a folder that is bound."""
    deeper = world.host.library("/usr/lib64/libdeep.so.1", defines=["deep"])
    pmi = "/opt/cray/pmi/libpmi.so.0"
    below = world.host.library(pmi, defines=["pmi"], uses=["deep"], needs=[deeper])
    world.image.library("/usr/lib64/libpmi.so.0", defines=["pmi"])
    world.host.library(TOP, uses=["pmi"], needs=[below], flags=["-Wl,-rpath,/opt/cray/pmi"])
    assert list(bound(world.close())) == [BOUND_TOP]
    closure = world.close(seen=("/opt/cray",))
    assert {"libpmi.so.0", "libdeep.so.1"} < whys(closure).keys()
    assert "looks for it in /opt/cray/pmi first, which is bound" in whys(closure)["libpmi.so.0"]


def test_what_only_a_module_of_the_host_finds_is_found_last(world: World) -> None:
    below = world.host.library("/opt/modules/libpals.so.0", defines=["pals"])
    world.host.library(TOP, uses=["pals"], needs=[below])
    assert world.close().problems[0].what.endswith(" has libpals.so.0")
    closure = world.close(last=("/opt/modules",))
    assert f"{FOLDER}/libpals.so.0" in bound(closure)
    assert closure.problems == ()


def test_libraries_that_need_each_other_end(world: World) -> None:
    first = world.host.library("/usr/lib64/liba.so.1", defines=["a"])
    second = world.host.library("/usr/lib64/libb.so.1", defines=["b"], uses=["a"], needs=[first])
    world.host.library("/usr/lib64/liba.so.1", defines=["a"], uses=["b"], needs=[second])
    assert len(world.close("/usr/lib64/liba.so.1").mounts) == 2


@pytest.mark.parametrize(("kind", "warned"), [("disable", True), ("enable", False)])
def test_a_path_that_comes_before_ours_is_warned_of(world: World, kind: str, warned: bool) -> None:
    world.host.library(TOP, defines=["fi"])
    other = world.host.library("/opt/cray/old/libfabric.so.1", defines=["fi"])
    flags = ["-Wl,-rpath,/opt/cray/old", f"-Wl,--{kind}-new-dtags"]
    mpi = "/opt/cray/mpi/libmpi.so.12"
    world.host.library(mpi, uses=["fi"], needs=[other], flags=flags)
    closure = world.close(TOP, mpi, seen=("/opt/cray",))
    assert bound(closure)[BOUND_TOP] == TOP
    what = "libmpi.so.12 of the host may load another libfabric.so.1 than the bound one"
    whats = [("warning", what)] if warned else []
    assert [(each.level, each.what) for each in closure.problems] == whats
    for problem in closure.problems:
        assert "leads to /opt/cray/old/libfabric.so.1 before" in problem.why


def test_what_is_opened_may_open_more(world: World) -> None:
    more = "/usr/lib64/libmore.so.2"
    world.host.library(more)
    world.host.library(CURL, opens=more)
    world.host.library(TOP, opens=CURL)
    assert list(bound(world.close())) == [BOUND_TOP, CURL, more]
