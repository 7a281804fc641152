"""A pull that is killed at any moment leaves the old image or the new one, and can be repeated."""

import hashlib
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event

import pytest

from ..unit.registry.conftest import no_pauses, small_blobs
from ..unit.registry.remote_images import left, push
from ..unit.registry.server import Registry, serving

__all__ = ["no_pauses", "small_blobs"]
pytestmark = pytest.mark.usefixtures("small_blobs")
KILLS = 40
PULLS = """\
import os, sys
from pathlib import Path
from lumicontainer.host.transfers import Client
from lumicontainer.registry.image_name import parse_image_name
from lumicontainer.registry.pull import pull_image
from lumicontainer.registry.remote_image import RemoteImage
from lumicontainer.system import budget
from lumicontainer.system.terminal.progress import Progress

def pull(name, output):
    with Progress("json") as progress:
        image = RemoteImage(parse_image_name(name), Client(None), budget.Total(budget.IMAGE))
        pull_image(image, Path(output), progress)

for line in sys.stdin:
    child = os.fork()
    if not child:
        pull(*line.split())
        os._exit(0)
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""A program that starts a pull for each line, and prints its process and its status."""


@contextmanager
def pulls() -> "Iterator[subprocess.Popen[str]]":
    command = [sys.executable, "-c", PULLS]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, text=True, bufsize=1, **pipes) as program:
        yield program
        program.stdin.close()


def run_pull(program: "subprocess.Popen[str]", name: str, output: Path) -> int:
    """Start a pull; return its process."""
    program.stdin.write(f"{name} {output}\n")
    return int(program.stdout.readline())


def kill_pull(
    program: "subprocess.Popen[str]", registry: Registry, name: str, output: Path, after: int
) -> int:
    """Kill a pull when the registry has seen as many requests; return its status."""
    pid, left_over = Event(), [after]
    process: list[int] = []

    def count(method: str, path: str) -> None:
        left_over[0] -= 1
        if not left_over[0]:
            pid.wait()
            with suppress(ProcessLookupError):
                os.kill(process[0], signal.SIGKILL)

    registry.fault = count
    process.append(run_pull(program, name, output))
    pid.set()
    return int(program.stdout.readline())


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_a_killed_pull_leaves_a_whole_image(tmp_path: Path) -> None:
    chance = random.Random(33)
    images = {tag: tmp_path / f"image-{tag}" for tag in ("1", "2")}
    output = tmp_path / "out/image.sif"
    output.parent.mkdir()
    with serving() as registry:
        for tag, image in images.items():
            image.write_bytes(random.Random(int(tag)).randbytes(100_000))
            push(image, registry, tag)
        whole = {tag: sha256(image) for tag, image in images.items()}
        output.write_bytes(images["1"].read_bytes())
        names = {tag: f"oci://{registry.host}/team/image:{tag}" for tag in images}
        killed = 0
        with pulls() as program:
            while killed < KILLS:
                tag, before = chance.choice("12"), sha256(output)
                # A pull of what is there ends before it is killed.
                after = chance.randrange(1, 25)
                status = kill_pull(program, registry, names[tag], output, after)
                killed += status == -signal.SIGKILL
                assert sha256(output) in (before, whole[tag])
            registry.fault = lambda *_: None
            for tag in ("1", "2"):
                run_pull(program, names[tag], output)
                assert program.stdout.readline() == "0\n"
                assert sha256(output) == whole[tag]
        assert left(output.parent) == []
