"""Our reader of libraries reads what pyelftools reads."""

import re
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile
from hypothesis import given, settings
from hypothesis import strategies as st

from lumicontainer.inside.elf import reader

from ...compiled import Root, gcc, weaken

pytestmark = pytest.mark.slow


@pytest.fixture
def root(tmp_path: Path) -> Root:
    return Root(tmp_path)


def as_pyelftools_reads(path: Path) -> reader.Elf:
    with path.open("rb") as file:
        sections = {each.name: each for each in ELFFile(file).iter_sections()}
        texts: dict[str, list[str]] = {"soname": [], "needed": [], "rpath": [], "runpath": []}
        tags = list(sections[".dynamic"].iter_tags()) if ".dynamic" in sections else []
        for tag in tags:
            for name in texts.keys() & vars(tag).keys():
                texts[name].append(getattr(tag, name))
        if not tags:
            return reader.Elf()
        requires, provides = versions(sections)
        undefined, defined = symbols(sections, requires, provides)
        return reader.Elf(
            soname="".join(texts["soname"]),
            needed=tuple(texts["needed"]),
            rpath=tuple(filter(None, ":".join(texts["rpath"]).split(":"))),
            runpath=tuple(filter(None, ":".join(texts["runpath"]).split(":"))),
            requires=tuple(requires.values()),
            provides=tuple(provides.values()),
            undefined=tuple(undefined),
            defined=frozenset(defined),
        )


def versions(sections: dict[str, Any]) -> tuple[dict[int, reader.Version], dict[int, str]]:
    """Return the needed and the defined versions by their numbers."""
    needed, defined = sections.get(".gnu.version_r"), sections.get(".gnu.version_d")
    requires = {
        row["vna_other"]: reader.Version(file.name, row.name, weak=bool(row["vna_flags"] & 2))
        for file, rows in (needed.iter_versions() if needed else ())
        for row in rows
    }
    provides = {
        row["vd_ndx"]: next(names).name
        for row, names in (defined.iter_versions() if defined else ())
        if not row["vd_flags"] & 1
    }
    return requires, provides


def symbols(
    sections: dict[str, Any], requires: dict[int, reader.Version], provides: dict[int, str]
) -> tuple[list[reader.Symbol], set[str]]:
    undefined, defined = [], set()
    numbers = sections.get(".gnu.version")
    for index, symbol in enumerate(sections[".dynsym"].iter_symbols()):
        number = numbers.get_symbol(index)["ndx"] if numbers else 1
        number = number & 0x7FFF if isinstance(number, int) else number
        bind, visibility = symbol["st_info"]["bind"], symbol["st_other"]["visibility"]
        if not symbol.name or bind == "STB_LOCAL":
            continue
        if symbol["st_shndx"] == "SHN_UNDEF":
            of = requires.get(number, reader.Version("", provides.get(number, "")))
            weak = bind == "STB_WEAK"
            undefined.append(reader.Symbol(symbol.name, of.name, of.file, weak=weak))
        elif visibility in ("STV_DEFAULT", "STV_PROTECTED"):
            names = {**provides, **{key: each.name for key, each in requires.items()}}
            version = {f"{symbol.name}@{names[number]}"} if number in names else set()
            defined |= {symbol.name, *version}
    return undefined, defined


def differing(path: Path) -> list[str]:
    """Return the fields that the two readers read differently."""
    ours, theirs = reader.read(str(path)), as_pyelftools_reads(path)
    return [name for name in ours._fields if getattr(ours, name) != getattr(theirs, name)]


@pytest.mark.parametrize("style", ["gnu", "sysv", "both"])
@pytest.mark.parametrize("tags", ["enable", "disable"])
def test_a_library_is_read_as_pyelftools_reads_it(root: Root, style: str, tags: str) -> None:
    flags = [f"-Wl,--hash-style={style}", f"-Wl,--{tags}-new-dtags"]
    defines = {"BELOW_1.0": ["old"], "BELOW_1.2": ["new", "newer"]}
    below = root.library("libbelow.so.2", defines=defines, flags=flags)
    paths = "-Wl,-rpath,$ORIGIN/../lib:/opt/x"
    top = root.library("libtop.so.1", uses=["new"], needs=[below], flags=[*flags, paths])
    assert [differing(below), differing(top)] == [[], []]
    assert str(reader.read(str(top)).undefined[0]) == "new@BELOW_1.2"


def test_an_open_library_is_read_without_its_path(root: Root) -> None:
    path = root.library("liba.so.1", defines={"A_1": ["a"]})
    expected = reader.linked(str(path))
    with path.open("rb") as file:
        assert file.read(len(reader.MAGIC)) == reader.MAGIC
        path.unlink()
        assert reader.linked_file(file) == expected


def test_what_a_library_does_without_differs_from_what_it_must_have(root: Root) -> None:
    below = root.library("libbelow.so.2", defines={"BELOW_1": ["some", "maybe"]})
    flags = ["-O0"]
    top = root.library("libtop.so", uses=["some"], weak=["maybe"], needs=[below], flags=flags)
    library = reader.read(str(top))
    assert {each.name: each.weak for each in library.undefined} == {"some": False, "maybe": True}
    assert [each.weak for each in library.requires] == [False]
    weaken(top, "BELOW_1")
    assert [each.weak for each in reader.read(str(top)).requires] == [True]
    assert differing(top) == []


def test_a_static_program_needs_nothing(root: Root) -> None:
    root.write("main.c", "void _start(void) { for (;;) {} }\n")
    gcc("-static", "-nostdlib", "-no-pie", "-o", root.path / "main", root.path / "main.c")
    assert reader.read(str(root.path / "main")) == reader.Elf()


def test_the_paths_that_a_library_opens_are_found_in_its_constants(root: Root) -> None:
    path = root.library("libcx.so", opens="/usr/lib64/libcurl.so.4")
    assert reader.find_opened(str(path)) == ["/usr/lib64/libcurl.so.4"]
    assert reader.find_opened(str(root.library("liby.so", opens="libcurl.so.4"))) == []


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


def test_the_files_of_this_machine_are_read_as_pyelftools_reads_them() -> None:
    """About 60 programs and libraries are read, without the slowest to compare."""
    every = sorted([*Path("/usr/bin").iterdir(), *Path("/usr/lib").rglob("*.so*")])
    some = [path for path in every[:: len(every) // 90 + 1] if path.is_file()]
    for_x86_64 = re.compile(rb"\x7fELF\x02.{13}\x3e\x00", re.DOTALL)
    small = [path for path in some if path.stat().st_size <= 1 << 20]
    paths = [path for path in small if for_x86_64.match(path.read_bytes())]
    assert len(paths) > 30
    assert {path.name: difference for path in paths if (difference := differing(path))} == {}
