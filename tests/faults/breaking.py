"""Break an image in one way, and see which of its checks says so.

What a test changes lies in an overlay over the image's own files, so that checks which walk the
image see it as the image's; what is bound over a path belongs to the host, and is passed over.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lumicontainer.core.catalog import open_catalog
from lumicontainer.core.model import LayerFile
from lumicontainer.core.plan.records import record_files
from lumicontainer.core.resolve.resolve import resolve

from ..integration.conftest import ENGINE
from ..programs import run

HOME = "opt/lumicontainer"
NO_OPTIONS = 'while [ "${1#-}" != "$1" ]; do shift 2; done\n'
"""Lines of a shell's that drop mpiexec's options, each of which has a value."""
SITE = "/opt/venv/lib/python3.11/site-packages"


@dataclass
class Broken:
    """Collect what is changed in an image, and the engine's options that change it."""

    folder: Path
    options: list[str] = field(default_factory=list)

    def place(self, path: str) -> Path:
        """Return the place of a file that replaces one of the image's own."""
        place = self.folder / "upper" / path.lstrip("/")
        place.parent.mkdir(parents=True, exist_ok=True)
        return place

    def write(self, path: str, content: str | bytes, mode: int = 0o644) -> Broken:
        place = self.place(path)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        place.chmod(mode)
        return self

    def first(self, code: str) -> Broken:
        """Let each Python of the image begin with this code."""
        return self.write(f"{SITE}/fault.py", code).write(f"{SITE}/fault.pth", "import fault\n")

    def package(self, name: str, version: str, *lines: str) -> Broken:
        """Put what pip knows of a package into the image."""
        known = ("Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, "")
        path = f"{SITE}/{name.replace('-', '_')}-{version}.dist-info/METADATA"
        return self.write(path, "\n".join(known))

    def link(self, path: str, target: str) -> Broken:
        self.place(path).symlink_to(target)
        return self

    def folder_with(self, path: str, mode: int) -> Broken:
        self.place(path).mkdir(exist_ok=True)
        self.place(path).chmod(mode)
        return self

    def empty(self, path: str) -> Broken:
        """Put an empty folder of the host over one of the image."""
        nothing = self.folder / "nothing"
        nothing.mkdir(parents=True, exist_ok=True)
        return self.option("--bind", f"{nothing}:{path}")

    def option(self, *words: str) -> Broken:
        self.options += words
        return self

    def env(self, name: str, value: str) -> Broken:
        return self.option("--env", f"{name}={value}")

    def command(self, image: Path, *words: str) -> list[str]:
        """Return the command that starts ``words`` in the broken image."""
        # An engine that is setuid root lays no folder over an image for anybody but root.
        options = ["--userns"]
        if (self.folder / "upper").is_dir():
            options += ["--overlay", f"{self.folder}:ro"]
        return [ENGINE, "--silent", "exec", *options, *self.options, str(image), *words]

    def verify(self, image: Path, check: str, program: str = "lumi-verify") -> dict[str, Any]:
        """Run one check in the broken image; return its row."""
        done = run(self.command(image, program, "-k", check, "--json", "-"))
        assert done.returncode in (0, 1), done.stderr
        (row,) = json.loads(done.stdout)["checks"]
        return dict(row)

    def records(self, files: Iterable[LayerFile]) -> Broken:
        """Put the record and the checks of another image into this one."""
        for file in files:
            self.write(f"{HOME}/{file.name}", file.content, file.mode)
        return self

    def for_lumi(self) -> Broken:
        """Give an image the record and the checks of one for LUMI-G, which is not built here."""
        image = resolve(open_catalog().materials("pytorch-deepspeed", "lumi-g"))
        return self.records(record_files(image))

    @contextmanager
    def record(self, image: Path) -> Iterator[dict[str, Any]]:
        """Let a test change what the image records of its decided values."""
        record = json.loads(read(image, f"/{HOME}/resolved.json"))
        yield record
        self.write(f"{HOME}/resolved.json", json.dumps(record))


def read(image: Path, path: str) -> bytes:
    done = run(Broken(Path(os.devnull)).command(image, "base64", path))
    assert done.returncode == 0, done.stderr
    return base64.b64decode(done.stdout)


def caught(row: dict[str, Any], *words: str) -> None:
    """See that a check failed, for a reason that holds words."""
    assert row["state"] == "failed", row
    for word in words:
        assert word in row["reason"], (word, row["reason"])


def holds(row: dict[str, Any]) -> None:
    assert row["state"] == "passed", row


Change = Callable[[Broken], Broken]


def cases(table: Mapping[str, Sequence[tuple[Change, str]]]) -> list[tuple[str, Change, str]]:
    """Return the parameters of a test: the check, how an image is broken, and what is said."""
    return [(check, *row) for check, rows in table.items() for row in rows]


def reports(row: dict[str, Any], words: str) -> None:
    """See that a check failed or could not be made, for a reason that holds words."""
    assert row["state"] in ("failed", "error"), row
    assert words in row["reason"], row["reason"]
