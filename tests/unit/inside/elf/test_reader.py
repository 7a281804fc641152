"""Our reader of libraries says what the loader and binutils say."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumicontainer.inside.elf import reader
from lumicontainer.inside.elf.loader import DEFAULTS

from ...compiled import Root, gcc, weaken


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def test_the_name_the_needs_and_the_search_paths_of_a_library_are_read(root: Root) -> None:
    below = root.library("libbelow.so.2", defines=["below"])
    flags = ["-Wl,-rpath,$ORIGIN/../lib:/opt/x", "-Wl,--enable-new-dtags"]
    found = reader.read(
        str(root.library("libtop.so.1", uses=["below"], needs=[below], flags=flags))
    )
    assert found.soname == "libtop.so.1"
    assert found.needed == ("libbelow.so.2",)
    assert found.runpath == ("$ORIGIN/../lib", "/opt/x")
    assert found.rpath == ()
    assert found.undefined == (reader.Symbol("below"),)
    assert "use_libtop" in found.defined


def test_the_older_kind_of_search_path_is_told_from_the_newer(root: Root) -> None:
    flags = ["-Wl,-rpath,/opt/x", "-Wl,--disable-new-dtags"]
    found = reader.read(str(root.library("libtop.so", soname="", flags=flags)))
    assert (found.soname, found.rpath, found.runpath) == ("", ("/opt/x",), ())


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
def test_versions_of_symbols_are_read_where_they_are_defined_and_where_they_are_needed(
    root: Root, style: str
) -> None:
    flags = [f"-Wl,--hash-style={style}"]
    defines = {"BELOW_1.0": ["old"], "BELOW_1.2": ["new", "newer"]}
    below = root.library("libbelow.so.2", defines=defines, flags=flags)
    found = reader.read(str(below))
    assert found.provides == ("BELOW_1.0", "BELOW_1.2")
    assert {"old", "old@BELOW_1.0", "newer@BELOW_1.2"} <= found.defined
    assert "old@BELOW_1.2" not in found.defined
    top = reader.read(str(root.library("libtop.so.1", uses=["new"], needs=[below], flags=flags)))
    assert top.requires == (reader.Version("libbelow.so.2", "BELOW_1.2"),)
    assert top.undefined == (reader.Symbol("new", "BELOW_1.2", "libbelow.so.2"),)
    assert str(top.undefined[0]) == "new@BELOW_1.2"


def test_what_a_library_does_without_is_told_from_what_it_must_have(root: Root) -> None:
    below = root.library("libbelow.so.2", defines={"BELOW_1": ["some", "maybe"]})
    flags = ["-O0"]
    top = root.library("libtop.so", uses=["some"], weak=["maybe"], needs=[below], flags=flags)
    assert {each.name: each.weak for each in reader.read(str(top)).undefined} == {
        "some": False,
        "maybe": True,
    }
    assert [each.weak for each in reader.read(str(top)).requires] == [False]
    weaken(top, "BELOW_1")
    assert [each.weak for each in reader.read(str(top)).requires] == [True]
    assert as_we_say(top) == as_readelf_says(readelf(top))


def test_a_program_is_read_like_a_library(root: Root) -> None:
    root.write("main.c", "int main(void) { return 0; }\n")
    gcc("-o", root.path / "main", root.path / "main.c")
    assert "libc.so.6" in reader.read(str(root.path / "main")).needed


def test_a_static_program_needs_nothing(root: Root) -> None:
    root.write("main.c", "void _start(void) { for (;;) {} }\n")
    gcc("-static", "-nostdlib", "-no-pie", "-o", root.path / "main", root.path / "main.c")
    assert reader.read(str(root.path / "main")) == reader.Elf()


def test_the_paths_that_a_library_opens_are_found_in_its_constants(root: Root) -> None:
    path = root.library("libcx.so", opens="/usr/lib64/libcurl.so.4")
    assert reader.opened(str(path)) == ["/usr/lib64/libcurl.so.4"]
    assert reader.opened(str(root.library("liby.so", opens="libcurl.so.4"))) == []


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda _: b"#!/bin/sh\n", "it is not an ELF file"),
        (lambda _: b"", "it is not an ELF file"),
        (lambda data: data[:40], "it is cut short"),
        (lambda data: data[:4] + b"\1" + data[5:], "another processor (32-bit, machine 62)"),
        (lambda data: data[:18] + b"\xb7\0" + data[20:], "another processor (64-bit, machine 183)"),
        (lambda data: data[:600], "it is damaged"),
    ],
)
def test_what_is_no_library_for_this_processor_is_refused_with_the_reason(
    root: Root, change, why: str
) -> None:
    path = root.library("libtop.so.1", defines=["x"])
    path.write_bytes(change(path.read_bytes()))
    with pytest.raises(reader.UnreadableError, match=re.escape(why)):
        reader.read(str(path))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = Root(tmp_path_factory.mktemp("whole"))
    below = root.library("libbelow.so.2", defines={"BELOW_1": ["below"]})
    flags = ["-Wl,--hash-style=both"]
    return root.library(
        "libtop.so.1", defines={"TOP_1": ["x"]}, uses=["below"], needs=[below], flags=flags
    )


@given(data=st.data())
@settings(deadline=None)
def test_a_damaged_library_is_read_or_refused_and_nothing_else(
    whole: Path, data: st.DataObject
) -> None:
    content = bytearray(whole.read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(content) - 1), max_size=8)):
        content[place] = data.draw(st.integers(0, 255))
    broken = whole.with_name("broken")
    broken.write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        reader.read(str(broken))
    except reader.UnreadableError as error:
        assert str(error)


def test_what_is_read_goes_through_json_unchanged(root: Root) -> None:
    below = root.library("libbelow.so.2", defines={"BELOW_1": ["below"]})
    for path in (below, root.library("libtop.so.1", uses=["below"], needs=[below])):
        found = reader.read(str(path))
        assert reader.from_plain(json.loads(json.dumps(reader.to_plain(found)))) == found


def machines_libraries() -> list[Path]:
    """Return libraries of this machine, with different makers: the system's and Python's."""
    folders = [*map(Path, DEFAULTS), Path(sys.prefix)]
    found = {path.resolve() for folder in folders for path in folder.glob("*.so*")}
    found |= {path.resolve() for path in Path(sys.prefix).rglob("*.so")}
    every = sorted(path for path in found if begins_like_elf(path))
    return every[:: len(every) // 150 + 1]


def begins_like_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def readelf(path: Path) -> str:
    words = ["readelf", "--wide", "--dynamic", "--version-info", "--dyn-syms", path]
    text = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    # So readelf calls them where a file does not say that it is for GNU.
    return text.replace("<OS specific>: 10", "UNIQUE")


def dynamic(text: str, tag: str) -> list[str]:
    return re.findall(rf"\({tag}\)\s+[^\[]*\[(.*)\]", text)


def as_readelf_says(text: str) -> dict[str, object]:
    rest = text.partition("Version needs section")[2]
    wanted, file = [], ""
    for line in rest.splitlines():
        if found := re.search(r"Version: \d+  File: (\S+)", line):
            file = found[1]
        elif found := re.search(r"Name: (\S+)  Flags: (\S+)", line):
            wanted.append((file, found[1], "WEAK" in found[2]))
    given = re.findall(r"Rev: \d+  Flags: (.*?)\s+Index: \d+  Cnt: \d+  Name: (\S+)", text)
    symbols = re.findall(r"(?m)^ *\d+: \S+ +\S+ (\S+) +(\S+) +(\S+) +(\S+) ?(\S*)", text)
    defined = {
        name
        for _, bind, visibility, section, name in symbols
        if section != "UND"
        and bind in ("GLOBAL", "WEAK", "UNIQUE")
        and visibility in ("DEFAULT", "PROTECTED")
    }
    undefined = sorted(
        name.replace("@@", "@")
        for _, bind, _, section, name in symbols
        if section == "UND" and bind in ("GLOBAL", "WEAK") and name
    )
    return {
        "soname": (dynamic(text, "SONAME") or [""])[0],
        "needed": dynamic(text, "NEEDED"),
        "rpath": ":".join(dynamic(text, "RPATH")),
        "runpath": ":".join(dynamic(text, "RUNPATH")),
        "requires": sorted(wanted),
        "provides": [name for flags, name in given if "BASE" not in flags],
        "defined": {name.partition("@")[0] for name in defined if name},
        "undefined": undefined,
    }


def as_we_say(path: Path) -> dict[str, object]:
    found = reader.read(str(path))
    return {
        "soname": found.soname,
        "needed": list(found.needed),
        "rpath": ":".join(found.rpath),
        "runpath": ":".join(found.runpath),
        "requires": sorted((each.file, each.name, each.weak) for each in found.requires),
        "provides": list(found.provides),
        "defined": {name for name in found.defined if "@" not in name},
        "undefined": sorted(str(each) for each in found.undefined),
    }


def test_every_library_of_this_machine_is_read_as_readelf_reads_it() -> None:
    paths = machines_libraries()
    assert len(paths) > 70
    different = {}
    for path in paths:
        ours, theirs = as_we_say(path), as_readelf_says(readelf(path))
        if ours != theirs:
            different[path.name] = [key for key in ours if ours[key] != theirs[key]]
    assert different == {}
