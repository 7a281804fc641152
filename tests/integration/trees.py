"""Unpack images and describe whole trees. Needs nothing but Python, and runs inside images too.

Usage: trees.py unpack FOLDER [FILE OFFSET]... · trees.py describe FOLDER [PATH-TO-LEAVE-OUT]...

Run it as root of a namespace that has the ids of the image's files.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path


def unpack(root: Path, parts: list[tuple[str, str]]) -> None:
    """Unpack the file systems ``parts`` (a file and an offset), each over those before it.

    A character device 0/0 takes away what is below, as overlayfs(5) of the kernel says.
    """
    for file, offset in parts:
        part = root.with_name(f"{root.name}.part")
        command = ["unsquashfs", "-quiet", "-no-progress", "-offset", offset, "-dest", part, file]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        if not root.exists():
            part.rename(root)
            continue
        make_way(root, part)
        subprocess.run(["cp", "-a", f"{part}/.", root], check=True)
        shutil.rmtree(part)


def make_way(root: Path, part: Path) -> None:
    """Remove from ``root`` what ``part`` replaces, and from ``part`` the marks of what is gone."""
    for entry in sorted(part.iterdir()):
        info, target = entry.lstat(), root / entry.name
        folder = target.is_dir() and not target.is_symlink()
        if folder and stat.S_ISDIR(info.st_mode):
            make_way(target, entry)
            continue
        if folder:
            shutil.rmtree(target)
        else:
            target.unlink(missing_ok=True)
        if stat.S_ISCHR(info.st_mode) and info.st_rdev == 0:
            entry.unlink()


def describe(root: Path, left_out: set[str]) -> dict[str, list[object]]:
    """Return mode, owner, group, content and the other names of every path."""
    rows: dict[str, list[object]] = {}
    names: dict[tuple[int, int], list[str]] = {}
    for folder, folders, files in os.walk(root):
        below = os.path.relpath(folder, root)
        for name in sorted((*folders, *files)):
            path, shown = Path(folder, name), str(Path(below, name))
            if shown in left_out:
                folders[:] = [each for each in folders if each != name]
                continue
            try:
                info = path.lstat()
            except FileNotFoundError:  # The kernel's overlayfs lists removals of nothing.
                continue
            except PermissionError:  # Its folder may be listed and not entered.
                rows[shown] = ["not to be seen", 0, 0, ""]
                continue
            rows[shown] = [f"{info.st_mode:o}", info.st_uid, info.st_gid, what(path, info)]
            if stat.S_ISREG(info.st_mode):
                names.setdefault((info.st_dev, info.st_ino), []).append(shown)
    for group in names.values():
        for shown in group if len(group) > 1 else ():
            rows[shown].append(sorted(group))
    return rows


def what(path: Path, info: os.stat_result) -> str:
    """Return the digest of a file, the target of a symlink, the numbers of a device."""
    if stat.S_ISLNK(info.st_mode):
        return str(path.readlink())
    if not stat.S_ISREG(info.st_mode):
        return f"{info.st_rdev:x}"
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except PermissionError:
        return "not readable"


if __name__ == "__main__":
    verb, folder, *words = sys.argv[1:]
    if verb == "unpack":
        # An image's Python may be older than the argument strict.
        unpack(Path(folder), list(zip(words[::2], words[1::2])))  # noqa: B905
    else:
        json.dump(describe(Path(folder), set(words)), sys.stdout)
