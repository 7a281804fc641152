"""Do one thing by a runtime, as the user who runs this program.

Usage: sandboxed.py RUNTIME FOLDER [prepare TREE | step SCRIPT | capture | check IMAGE WORD... |
remove]
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lumicontainer.engines import StepMounts
from lumicontainer.host.machine import clean_environment
from lumicontainer.sandbox.runtimes import usable
from lumicontainer.sandbox.runtimes.runtime import OWNERS, Runtime, Sandbox
from lumicontainer.system import process

CAPTURE = "lumicontainer.sandbox.tree.capture"


def main(name: str, place: str, action: str, *words: str) -> int:
    runtime, folder = usable(name), Path(place)
    command = ACTIONS[action](runtime, folder, words)
    return subprocess.call(command, stdin=subprocess.DEVNULL, env=clean_environment())


def prepare(runtime: Runtime, folder: Path, words: Sequence[str]) -> list[str]:
    """Copy a tree; all its files belong to root of the runtime."""
    for each in ("tmp", "bound", "drafts"):
        (folder / each).mkdir()
    (folder / "tmp").chmod(0o1777)
    copy = ["cp", "--recursive", "--no-dereference", "--preserve=mode", words[0], folder / "tree"]
    return [*runtime.as_root(folder), *map(str, copy)]


def step(runtime: Runtime, folder: Path, words: Sequence[str]) -> list[str]:
    sandbox = Sandbox(
        root=folder,
        tree=folder / "tree",
        layers=(),
        mounts=StepMounts(folder / "tmp", {folder / "bound": "/mnt"}),
        state=folder / "state",
        apart=False,
        as_user=False,
    )
    return runtime.step(sandbox, ["sh", "-c", words[0]])


def capture(runtime: Runtime, folder: Path, words: Sequence[str]) -> list[str]:
    """Make a layer of what changed; print nothing."""
    draft = folder / "drafts" / words[0]
    draft.mkdir()
    places = (folder / "tree", folder / "state", draft, f"--owners={folder / OWNERS}")
    return [*runtime.as_root(folder), *process.module_command(CAPTURE, *map(str, places))]


def check(runtime: Runtime, folder: Path, words: Sequence[str]) -> list[str]:
    image, *command = words
    return runtime.check(Path(image), folder / "tree", command, {"SET": "by the check"})


def remove(runtime: Runtime, folder: Path, words: Sequence[str]) -> list[str]:
    return [*runtime.as_root(folder), "rm", "-rf", *map(str, folder.iterdir())]


ACTIONS = {each.__name__: each for each in (prepare, step, capture, check, remove)}

if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
