"""Libraries are found where the loader would find them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from lumicontainer.inside.elf import reader
from lumicontainer.inside.elf.loader import Library, Tree, libraries_of

from ...compiled import Root

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def path_of(tree: Tree, name: str, *askers: Library) -> str | None:
    library = tree.find(name, askers)
    return library.path if library else None


def test_folders_are_searched_in_the_order_of_the_loader(root: Root) -> None:
    for folder in ("/first", "/opt/site/lib", "/usr/lib64", "/last"):
        root.library(f"{folder}/liba.so.1")
    root.library("/last/libb.so.1")
    tree = Tree(str(root.path), last=["/last"])
    assert path_of(tree, "liba.so.1") == "/usr/lib64/liba.so.1"
    assert path_of(tree, "libb.so.1") == "/last/libb.so.1"
    root.write("/etc/ld.so.conf", "# ours\ninclude ld.so.conf.d/*.conf\n")
    root.write("/etc/ld.so.conf.d/site.conf", "/opt/site/lib   # software\n")
    assert path_of(Tree(str(root.path)), "liba.so.1") == "/opt/site/lib/liba.so.1"
    assert path_of(Tree(str(root.path), first=["/first"]), "liba.so.1") == "/first/liba.so.1"


def test_a_library_with_a_path_is_looked_for_there_alone(root: Root) -> None:
    root.library("/opt/own/liba.so.1")
    root.library("/usr/lib64/libb.so.1")
    tree = Tree(str(root.path))
    library = tree.find("/opt/own/liba.so.1")
    assert library is not None
    assert (library.name, library.path) == ("liba.so.1", "/opt/own/liba.so.1")
    assert tree.find("/opt/own/libb.so.1") is None


def test_links_are_followed_below_the_root(root: Root) -> None:
    root.library("/opt/real/libzz.so.1.2")
    root.link("/etc/alternatives/libzz", "/opt/real/libzz.so.1.2")
    root.link("/usr/lib64/libzz.so.1", "../../etc/alternatives/libzz")
    root.link("/lib64", "usr/lib64")
    tree = Tree(str(root.path))
    assert path_of(tree, "libzz.so.1") == "/lib64/libzz.so.1"
    assert tree.file("/lib64/libzz.so.1") == str(root.path / "opt/real/libzz.so.1.2")


def test_each_path_is_asked_once_whether_it_is_a_link(root: Root) -> None:
    for name in ("liba.so.1", "libb.so.1"):
        root.library(f"/usr/lib64/{name}")
    root.link("/lib64", "usr/lib64")
    asked: list[str] = []

    def readlink(path: str) -> str:
        asked.append(path)
        return str(Path(path).readlink())

    tree = Tree(str(root.path), readlink=readlink)
    assert path_of(tree, "liba.so.1") == "/lib64/liba.so.1"
    assert path_of(tree, "libb.so.1") == "/lib64/libb.so.1"
    assert len(asked) == len(set(asked))


def test_a_link_out_of_the_root_leads_nowhere_and_a_circle_ends(root: Root) -> None:
    root.link("/usr/lib64/libc.so.6", "/../../../../../../../lib/x86_64-linux-gnu/libc.so.6")
    root.link("/usr/lib64/liba.so.1", "libb.so.1")
    root.link("/usr/lib64/libb.so.1", "liba.so.1")
    tree = Tree(str(root.path))
    assert path_of(tree, "libc.so.6") is None
    assert path_of(tree, "liba.so.1") is None


def test_what_is_for_another_processor_is_passed_over(root: Root) -> None:
    other = root.library("/lib64/liba.so.1")
    data = other.read_bytes()
    other.write_bytes(data[:4] + b"\1" + data[5:])
    root.library("/usr/lib/liba.so.1")
    assert path_of(Tree(str(root.path)), "liba.so.1") == "/usr/lib/liba.so.1"


def asker(path: str, **lists: str) -> Library:
    """Return a library with an ``rpath`` or a ``runpath``."""
    split = {name: tuple(text.split(":")) for name, text in lists.items()}
    return Library(path.rpartition("/")[2], path, reader.Elf(**split))


@pytest.mark.parametrize(
    "written", ["$ORIGIN/../below", "${ORIGIN}/../below", "/opt/below", "/opt/$LIB", "/opt/${LIB}"]
)
def test_the_paths_of_the_library_that_asks_are_searched(root: Root, written: str) -> None:
    place = "/opt/lib64" if "LIB" in written else "/opt/below"
    root.library(f"{place}/liba.so.1")
    (root.path / "opt/top").mkdir()
    library = Tree(str(root.path)).find("liba.so.1", [asker("/opt/top/libt.so", runpath=written)])
    assert library is not None
    assert (library.path, library.own) == (f"{place}/liba.so.1", True)


def test_the_newer_kind_of_path_comes_after_the_variable_and_the_older_before(root: Root) -> None:
    for folder in ("/first", "/own"):
        root.library(f"{folder}/liba.so.1")
    tree = Tree(str(root.path), first=["/first"])
    assert path_of(tree, "liba.so.1", asker("/t.so", runpath="/own")) == "/first/liba.so.1"
    assert path_of(tree, "liba.so.1", asker("/t.so", rpath="/own")) == "/own/liba.so.1"


def test_the_older_kind_of_path_is_handed_down_and_the_newer_is_not(root: Root) -> None:
    root.library("/own/liba.so.1")
    tree, below = Tree(str(root.path)), asker("/below.so")
    assert path_of(tree, "liba.so.1", below, asker("/top.so", rpath="/own")) == "/own/liba.so.1"
    assert path_of(tree, "liba.so.1", below, asker("/top.so", runpath="/own")) is None
    newer = asker("/below.so", runpath="/else")
    assert path_of(tree, "liba.so.1", newer, asker("/top.so", rpath="/own")) is None


def test_what_the_loader_of_this_machine_finds_is_found() -> None:
    program = os.path.realpath(sys.executable)
    text = subprocess.run(["ldd", program], check=True, capture_output=True, text=True).stdout
    tree = Tree("/", first=os.environ.get("LD_LIBRARY_PATH", "").split(":"))
    top = Library("python", program, reader.read(program))
    rows = re.findall(r"(\S+) => (/\S+)", text)
    assert rows
    chain = dict.fromkeys(top.elf.needed, (top,))
    for name, path in rows:
        library = tree.find(name, chain.get(name, ()))
        assert library is not None, name
        assert os.path.realpath(library.path) == os.path.realpath(path)


def test_a_separate_program_reports_what_it_finds(root: Root) -> None:
    below = root.library("/own/libbelow.so.2", defines={"BELOW_1": ["below"]})
    versions = {"TOLD_1": ["given"]}
    path = root.library("/own/libtold.so.1", defines=versions, uses=["below"], needs=[below])
    root.link("/probe/elf", str(Path(reader.__file__).parent))
    program = "from elf.loader import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "libtold.so.1", str(path), "libnone.so.9"],
        env={"PYTHONPATH": str(root.path / "probe"), "LD_LIBRARY_PATH": str(path.parent)},
        check=True,
        capture_output=True,
        text=True,
    )
    data = json.loads(done.stdout)
    assert data["folders"] == [str(path.parent)]
    libraries = libraries_of(data)
    assert set(libraries) == {"libtold.so.1", str(path)}
    assert libraries["libtold.so.1"].elf == reader.read(str(path))
    assert libraries["libtold.so.1"].path == str(path)
