"""The log of debootstrap is printed while it works."""

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lumicontainer.sandbox.failures.debootstrap_log import follow_log, package_line


def follow(find: Callable[[], Iterator[Path]], *acts: Callable[[], object]) -> list[str]:
    """Follow a log while acts are done, each once the lines of those before it were taken."""
    lines: list[str] = []

    async def run() -> None:
        async with asyncio.timeout(30), follow_log(find, lines.append):
            for act in acts:
                awaited = act()
                while isinstance(awaited, int) and len(lines) < awaited:
                    await asyncio.sleep(0.01)

    asyncio.run(run())
    return lines


def test_lines_are_reported_whole_and_the_last_after_the_file_has_gone(tmp_path: Path) -> None:
    path = tmp_path / "debootstrap.log"

    def write(text: str, lines: int = 0) -> int:
        with path.open("a") as file:
            file.write(text)
        return lines

    def last() -> None:
        write("Setting up libc6\n")
        path.unlink()

    lines = follow(
        lambda: (each for each in [path] if each.exists()),
        lambda: None,
        lambda: write("Unpacking one\nUnpack", 1),
        lambda: write("ing \x1b[31mtwo\n", 2),
        last,
    )
    assert lines == ["Unpacking one", "Unpacking two", "Setting up libc6"]


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "missing"])
def test_what_is_no_file_is_not_read_and_holds_up_nothing(tmp_path: Path, kind: str) -> None:
    path, other = tmp_path / "log", tmp_path / "other"
    other.write_text("of the host\n")
    makers = {"fifo": os.mkfifo, "folder": os.mkdir, "link": lambda at: at.symlink_to(other)}
    makers.get(kind, lambda _: None)(path)
    assert follow(lambda: iter([path]), lambda: None) == []


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('07:29 URL:http://m/b/bash_5_amd64.deb [1/1] -> "x" [1]', "Retrieving bash_5_amd64.deb"),
        ("07:29 URL:http://m/dists/x/by-hash/SHA256/ab12 [1]", "Retrieving a list of packages"),
        ("Unpacking libc6:amd64 (2.36) ...", "Unpacking libc6:amd64 (2.36) ..."),
        ("dpkg: warning: ignoring pre-dependency problem!", ""),
    ],
)  # fmt: skip
def test_a_line_of_a_package_is_reported_in_debootstrap_s_words(line: str, words: str) -> None:
    assert package_line(line) == words
