"""A wheel is installed as it says, within its folder, or refused in words: no code of it runs."""

import base64
import hashlib
import os
import stat
import struct
import subprocess
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lumicontainer.errors import INTERNAL, LumicontainerError, StepError
from lumicontainer.extending.container import Mounts
from lumicontainer.extending.facts import Facts
from lumicontainer.extending.install.installation import Installation
from lumicontainer.extending.modules import require_modules
from lumicontainer.host.uv import find_uv

from ..unit.cpu import within

SECONDS = 20.0
"""More than 20 times what any of them takes."""
NOTES = "evil-1.0.dist-info"
METADATA = "Metadata-Version: 2.1\nName: evil\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
NAME = "evil-1.0-py3-none-any.whl"
Entries = Iterable[tuple[str | zipfile.ZipInfo, str | bytes]]


class HostContainer:
    """Run uv on this host: it installs wheels without running any code of theirs."""

    site = SimpleNamespace(pip={})

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def part(self, name: str) -> Path:
        part = self.folder / name
        part.mkdir(parents=True, exist_ok=True)
        return part

    def uv(self, mounts: Mounts, *words: str) -> subprocess.CompletedProcess[str]:
        settings = {"UV_CACHE_DIR": str(mounts.writes / "cache"), "UV_LINK_MODE": "hardlink"}
        environment = {**os.environ, **settings, "HOME": str(mounts.writes)}
        command = [str(find_uv()), *words, "--quiet", "--color", "never"]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=300
        )


def install(wheel: Path, folder: Path) -> Path:
    """Install a wheel as an extension does; return the folder of its packages."""
    made: Any = HostContainer(folder)
    installation = Installation(made, Facts("3.11", {}))
    installation._wheels = [wheel]
    installation._packages.parent.mkdir(parents=True)
    installation._unpack(installation._wheels, installation._packages, "--compile-bytecode")
    installation.require_no_hiding(frozenset())
    installation.require_fitting_libraries(frozenset(), "")
    require_modules(installation.tree, (), installation.distributions())
    return installation._packages


def record(files: Mapping[str, str | bytes]) -> str:
    """Return the list of the files of a wheel."""
    rows = (f"{name},sha256={digest(content)},{len(content)}\n" for name, content in files.items())
    return "".join([*rows, f"{NOTES}/RECORD,,\n"])


def digest(content: str | bytes) -> str:
    raw = content.encode() if isinstance(content, str) else content
    return base64.urlsafe_b64encode(hashlib.sha256(raw).digest()).decode().rstrip("=")


def files(more: Mapping[str, str | bytes] = {}, **notes: str) -> dict[str, str | bytes]:
    """Return the files of a wheel; a note may be another text."""
    content: dict[str, str | bytes] = {"evil.py": "", **more}
    content |= {f"{NOTES}/METADATA": METADATA, f"{NOTES}/WHEEL": WHEEL}
    listed = {f"{NOTES}/RECORD": record(content)}
    return {**content, **listed, **{f"{NOTES}/{name}": text for name, text in notes.items()}}


def write(path: Path, entries: Entries) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in entries:
            wheel.writestr(name, content)


def entry(name: str, mode: int, **fields: Any) -> zipfile.ZipInfo:
    """Return an entry of a type of files, or with other odd fields."""
    info = zipfile.ZipInfo(name)
    info.create_system, info.external_attr = 3, mode << 16
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def patched(old: bytes, new: bytes, content: Mapping[str, str | bytes] = {}) -> Any:
    """Return what writes a wheel, some bytes of which are others."""

    def change(path: Path) -> None:
        write(path, files(content).items())
        raw = path.read_bytes()
        assert old in raw
        path.write_bytes(raw.replace(old, new))

    return change


def field(signature: bytes, offset: int, value: bytes) -> Any:
    """Return what writes a wheel, a field of whose headers lies."""

    def change(path: Path) -> None:
        write(path, files({"data.bin": bytes(5000)}).items())
        raw, at = bytearray(path.read_bytes()), -1
        while (at := raw.find(signature, at + 1)) >= 0:
            raw[at + offset : at + offset + len(value)] = value
        path.write_bytes(raw)

    return change


def cut(path: Path) -> None:
    write(path, files({"data.bin": os.urandom(5000)}).items())
    path.write_bytes(path.read_bytes()[:-40])


def prefixed(path: Path) -> None:
    write(path, files().items())
    path.write_bytes(b"#!/bin/sh\ntouch canary\n" + path.read_bytes())


def two_archives(path: Path) -> None:
    """Write two archives behind each other, with another module in each."""
    write(path, files({"evil.py": "FIRST = 1"}).items())
    first = path.read_bytes()
    write(path, files({"evil.py": "SECOND = 1"}).items())
    path.write_bytes(first + path.read_bytes())


def with_comment(path: Path) -> None:
    """Write an archive whose comment holds the end of another one."""
    write(path, files().items())
    with zipfile.ZipFile(path, "a") as wheel:
        wheel.comment = b"PK\5\6" + bytes(18) + b"x" * 60_000


def bomb(path: Path) -> None:
    write(path, files({"data.bin": bytes(30 << 20)}).items())


def overlapping(path: Path) -> None:
    """Let many entries share the bytes of one."""
    write(path, files({"data.bin": bytes(1 << 20)}).items())
    raw = path.read_bytes()
    at = raw.index(b"PK\1\2")
    end = raw.rindex(b"PK\5\6")
    first = raw[at : raw.index(b"PK\1\2", at + 4)]
    size = struct.unpack("<H", first[28:30])[0]
    more = b"".join(
        first[:46] + f"{number:0{size}}"[:size].encode() + first[46 + size :]
        for number in range(3000)
    )
    count = raw[at:end].count(b"PK\1\2") + 3000
    tail = bytearray(raw[end:])
    tail[8:12] = struct.pack("<HH", count, count)
    tail[12:16] = struct.pack("<I", len(raw[at:end]) + len(more))
    path.write_bytes(raw[:at] + raw[at:end] + more + bytes(tail))


LOCAL, CENTRAL, END = b"PK\3\4", b"PK\1\2", b"PK\5\6"
PTH = "import os; open(os.environ['CANARY'], 'w')"
PATHS = [
    "../canary",
    "../../../canary",
    "a/../../../../canary",
    "/canary",
    "//canary",
    "./../canary",
    "..\\..\\canary",
    "C:\\canary",
    "a\0b.py",
    "a\nb.py",
    "a\x1b[2J.py",
    "a" * 300 + ".py",
    "/".join(["a"] * 2000) + "/x.py",
    " ",
    ".",
    "..",
    "a//b.py",
    "a/./b.py",
    "CON",
    "\u202egnp.py",
    f"{NOTES}/../../canary",
    "evil-1.0.data/purelib/../../../canary",
    "evil-1.0.data/scripts/../../../canary",
    "evil-1.0.data/data/../../../../canary",
    "evil-1.0.data/headers/../../../../canary",
    "evil-1.0.data/data//canary",
    "evil-1.0.data/odd/x",
    "evil-1.0.data/x",
    "other-2.0.data/scripts/x",
    "evil-1.0.data/data/lib/python3.11/site-packages/x.py",
    "evil-1.0.data/scripts/python3",
    "evil-1.0.data/purelib/evil.py",
    "bin/python3",
    "sitecustomize.py",
    "usercustomize.py",
    "__editable__.py",
    "lumicontainer.json",
    ".lock",
    "uv_cache.json",
    "a.pth",
    "__pycache__/evil.cpython-311.pyc",
    "other-1.0.dist-info/METADATA",
    "evil-1.0.DIST-INFO/METADATA",
    "evil-1.0.dist-info/RECORD.jws",
    "EVIL.py",
    "evil/__init__.py",
    "evil.py/x",
    "direct_url.json",
]
SETTINGS: dict[str, dict[str, str]] = {
    "entry points of odd names": {
        "entry_points.txt": "[console_scripts]\n../../../canary = evil:main\n"
    },
    "an absolute entry point": {"entry_points.txt": "[console_scripts]\n/tmp/canary = evil:main\n"},
    "entry points with code": {
        "entry_points.txt": "[console_scripts]\nx = evil:main;import os;os.system('touch canary')\n"
    },
    "entry points of a shell": {"entry_points.txt": "[console_scripts]\nx y;z = evil:main\n"},
    "entry points without a section": {"entry_points.txt": "x = evil:main\n"},
    "entry points twice": {
        "entry_points.txt": "[console_scripts]\nx=a:b\n[console_scripts]\nx=c:d"
    },
    "entry points without end": {"entry_points.txt": "[console_scripts]\n" + "x = a:b\n" * 50_000},
    "an entry point of Python": {"entry_points.txt": "[console_scripts]\npython3 = evil:main\n"},
    "an entry point with a break": {"entry_points.txt": "[console_scripts]\nx = evil:main\n y\n"},
    "entry points that are interpolated": {"entry_points.txt": "[console_scripts]\n%(x)s = a:b\n"},
    "no metadata": {"METADATA": ""},
    "metadata of another": {"METADATA": "Metadata-Version: 2.1\nName: other\nVersion: 2.0\n"},
    "metadata of a path": {"METADATA": "Metadata-Version: 2.1\nName: ../x\nVersion: 1.0\n"},
    "metadata of two names": {"METADATA": METADATA + "Name: other\n"},
    "metadata of a terminal": {"METADATA": METADATA + "Summary: \x1b[2J\x1b]0;x\x07\n"},
    "metadata without end": {"METADATA": METADATA + "Requires-Dist: a\n" * 20_000},
    "metadata of one line": {"METADATA": METADATA + "Summary: " + "x" * 2_000_000},
    "odd requirements": {"METADATA": METADATA + "Requires-Dist: -r /etc/passwd\n"},
    "deep requirements": {"METADATA": f"{METADATA}Requires-Dist: a; {'(' * 5000}\n"},
    "another version of wheels": {"WHEEL": WHEEL.replace("1.0", "99.0")},
    "wheels without a version": {"WHEEL": ""},
    "other tags": {"WHEEL": WHEEL.replace("py3-none-any", "cp27-cp27m-win32")},
    "a list that lies": {"RECORD": f"evil.py,sha256={digest('other')},5\n"},
    "an empty list": {"RECORD": ""},
    "a list of paths": {"RECORD": "../../../canary,,\n/etc/passwd,,\nevil.py,,\n"},
    "a list of odd hashes": {
        "RECORD": "evil.py,sha256=\u00e4,0\nevil.py,md5=x,0\nevil.py,sha1=,\n"
    },
    "a list of odd sizes": {"RECORD": f"evil.py,sha256={digest('')},{'9' * 9000}\n"},
    "a list of one huge field": {"RECORD": f'"{"a" * 200_000}",,\n'},
    "an open quote": {"RECORD": 'evil.py,"sha256=\n' * 10},
    "a list of too many columns": {"RECORD": "evil.py" + "," * 100_000},
    "a list of NULs": {"RECORD": "evil.py\0,,\n"},
    "modules of odd names": {"top_level.txt": "../../etc\n/\n\x1b[2J\n" + "a" * 5000},
    "modules without end": {"top_level.txt": "a\n" * 100_000},
    "a module that is missing": {"top_level.txt": "other\n"},
    "a URL with a password": {"direct_url.json": '{"url": "https://u:p@h", "dir_info": {}}'},
    "a URL that is no JSON": {"direct_url.json": "[" * 50_000},
}
ENCODED = {
    "UTF-16": METADATA.encode("utf-16"),
    "latin-1": METADATA.encode() + b"Summary: \xe9\n",
    "a mark": b"\xef\xbb\xbf" + METADATA.encode(),
    "NUL": METADATA.encode() + b"Summary: \0\n",
}
KINDS = {
    "a link": stat.S_IFLNK | 0o777,
    "a pipe": stat.S_IFIFO | 0o666,
    "a device": stat.S_IFCHR | 0o666,
    "a socket": stat.S_IFSOCK | 0o666,
    "a folder": stat.S_IFDIR | 0o777,
    "setuid": stat.S_IFREG | 0o6755,
    "no permission": stat.S_IFREG,
}
BYTES = {
    "cut": cut,
    "a script before it": prefixed,
    "two archives": two_archives,
    "a long comment": with_comment,
    "a bomb": bomb,
    "shared bytes": overlapping,
    "a lower size": field(CENTRAL, 24, b"\1\0\0\0"),
    "a huge size": field(CENTRAL, 24, b"\xfe\xff\xff\xff"),
    "zip64 without its field": field(CENTRAL, 24, b"\xff\xff\xff\xff"),
    "zip64 of both": field(CENTRAL, 20, b"\xff" * 8),
    "a far offset": field(CENTRAL, 42, b"\xff\xff\xff\x7f"),
    "another checksum": field(CENTRAL, 16, b"\0\1\2\3"),
    "encrypted": field(CENTRAL, 8, b"\1\0"),
    "encrypted in the file": field(LOCAL, 6, b"\1\0"),
    "a data descriptor": field(LOCAL, 6, b"\x08\0"),
    "method 99": field(CENTRAL, 10, b"\x63\0"),
    "method 12": field(CENTRAL, 10, b"\x0c\0"),
    "stored": field(CENTRAL, 10, b"\0\0"),
    "another method in the file": field(LOCAL, 8, b"\0\0"),
    "a long name": field(CENTRAL, 28, b"\xff\xff"),
    "a long extra field": field(CENTRAL, 30, b"\xff\xff"),
    "many disks": field(END, 4, b"\1\0\1\0"),
    "many entries": field(END, 10, b"\xff\xff"),
    "no entries": field(END, 8, bytes(4)),
    "a large directory": field(END, 12, b"\xff\xff\xff\x7f"),
    "a far directory": field(END, 16, b"\xff\xff\xff\x7f"),
    "a time of 1980": field(CENTRAL, 12, bytes(4)),
    "an odd time": field(CENTRAL, 12, b"\xff" * 4),
    "another name in the file": patched(b"evil.py", b"evil.pz"),
    "names that differ": patched(LOCAL, LOCAL),
    "names that are one": patched(b"EVIL.py", b"evil.py", {"EVIL.py": "x"}),
}


def cases() -> dict[str, Any]:
    """Return what writes each wheel, by its name."""
    wheels: dict[str, Any] = dict(BYTES)
    for path in PATHS:
        wheels[f"path {path!a:.40}"] = lambda to, each=path: write(
            to, _listed({each: PTH if each.endswith(".pth") else "x"})
        )
    for name, notes in SETTINGS.items():
        wheels[name] = lambda to, each=notes: write(to, files(**each).items())
    for name, content in ENCODED.items():
        wheels[f"metadata in {name}"] = lambda to, each=content: write(
            to, {**files(), f"{NOTES}/METADATA": each}.items()
        )
    for name, mode in KINDS.items():
        for path in ("linked", "evil.py", f"{NOTES}/METADATA", "bin/x"):
            wheels[f"{name} {path}"] = lambda to, each=mode, at=path: write(
                to, [*_without(at), (entry(at, each), "/etc/passwd")]
            )
    for path in ("evil.py", f"{NOTES}/METADATA", f"{NOTES}/RECORD"):
        wheels[f"twice {path}"] = lambda to, at=path: write(to, [*files().items(), (at, "other")])
    return wheels


def _listed(more: Mapping[str, str]) -> Entries:
    return [(name.encode("utf-8", "replace").decode(), text) for name, text in files(more).items()]


def _without(path: str) -> list[tuple[str, str | bytes]]:
    return [each for each in files().items() if each[0] != path]


@pytest.mark.parametrize(
    "path", ["torch-9.0.DIST-INFO/METADATA", "torch-9.0.egg-info/PKG-INFO", "torch.Egg-Info"]
)
@pytest.mark.parametrize("folder", ["", "evil-1.0.data/purelib/"])
def test_a_wheel_does_not_pretend_to_be_another_package(
    tmp_path: Path, path: str, folder: str
) -> None:
    wheel = tmp_path / NAME
    write(wheel, files({f"{folder}{path}": "Name: torch\nVersion: 9.0\n"}).items())
    with pytest.raises(StepError, match="it has the metadata of another package: 'torch"):
        install(wheel, tmp_path / "a")


@pytest.mark.parametrize("program", ["python3", "python3.11", "pip", "sh", "env", "lumi-entry"])
@pytest.mark.parametrize("folder", ["bin", "evil-1.0.data/scripts", "evil-1.0.data/data/bin", ""])
def test_a_wheel_replaces_no_program_by_which_an_image_starts(
    tmp_path: Path, folder: str, program: str
) -> None:
    wheel, text = tmp_path / NAME, f"[console_scripts]\n{program} = evil:main\n"
    write(wheel, (files({f"{folder}/{program}": "x"}) if folder else _entries(text)).items())
    # Uv refuses python3 itself.
    with pytest.raises(StepError, match=f"{program}.* would replace|reserved.*{program}"):
        install(wheel, tmp_path / "a")


def test_other_programs_of_a_wheel_are_installed(tmp_path: Path) -> None:
    names = ["python-zig", "pipx", "bashate", "ninja"]
    text = "".join(f"{name} = evil:main\n" for name in names)
    wheel = tmp_path / NAME
    write(wheel, _entries(f"[console_scripts]\n{text}").items())
    folder = install(wheel, tmp_path / "a")
    assert sorted(each.name for each in (folder / "bin").iterdir()) == sorted(names)


def _entries(text: str) -> dict[str, str | bytes]:
    return files(**{"entry_points.txt": text})


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("name", cases())
def test_a_wheel_is_installed_in_its_folder_or_refused(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    canary = tmp_path / "canary"
    monkeypatch.setenv("CANARY", str(canary))
    wheel, deep = tmp_path / "in" / NAME, tmp_path / "a/b/c"
    wheel.parent.mkdir()
    deep.mkdir(parents=True)
    cases()[name](wheel)
    try:
        with within(SECONDS):
            folder = install(wheel, deep)
    except LumicontainerError as error:
        assert error.code != INTERNAL
        assert all(each.what and each.why for each in error.problems)
    else:
        modes = [path.lstat().st_mode for path in folder.rglob("*")]
        assert all(stat.S_ISREG(mode) or stat.S_ISDIR(mode) for mode in modes)
        assert not [mode for mode in modes if mode & 0o6000]
    outside = {path.name for path in tmp_path.iterdir()}
    assert outside == {"in", "a"}
    assert {path.name for path in (tmp_path / "a/b").iterdir()} == {"c"}
    assert not canary.exists()
