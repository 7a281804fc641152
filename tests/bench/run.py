"""Measure what the README quotes: whole processes, medians, side by side in one run.

Usage: python tests/bench/run.py [IMAGE]      default: pytorch-deepspeed.sif in this folder
"""

from __future__ import annotations

import compileall
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import timeit
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import builds
from assembly import assembly, large, starts
from extensions import extension
from rivals import Docker, change_plain, plain_words
from sharing import sharing
from slow_names import slow_names
from table import LUMICONTAINER, row, seconds, times

from lumicontainer.inside.launch.hostlist import expand
from lumicontainer.system.files.user_cache import cache_root

HERE = Path(__file__).parent
ENGINE = shutil.which("apptainer") or "singularity"
sys.path.append(str(HERE.parents[1]))
from tests.lumi_container import EVERY_FEATURE, binds, task  # noqa: E402

RUNS = 15
RANKS = 64
CLIENTS, FEW_CLIENTS = 6144, 512
SLOW_NAME = 0.1
"""Seconds that a slow name service takes for a name; `lumi-entry --preflight` prints its time."""
GZIP = "summary: an engine that reads gzip alone\naccelerator: cpu\ncompression: gzip\n"
FORMS = ("nid[005001-008000]", "r[1-50]n[1-60]", f"nid[{','.join(map(str, range(1, 6000, 2)))}]")
"""Three lists of 3,000 hosts as Slurm writes them."""


def median_ms(command: Sequence[object]) -> float:
    """Return the median wall time of a command in milliseconds, after one run not counted."""
    seconds(command)
    return statistics.median(seconds(command) for _ in range(RUNS)) * 1000


def command_line() -> None:
    """Measure the start of the command line, and the rendering of the first recipe."""
    # As it is once installed; a checkout's bytecode may be older than its text.
    compileall.compile_dir(HERE.parents[1] / "lumicontainer", quiet=1)
    seen = median_ms([*LUMICONTAINER, "--version"])
    row("lumicontainer --version", f"{seen:.0f} ms", "<= 100 ms", holds=seen <= 100)
    seen = median_ms([*LUMICONTAINER, "render", "pytorch-deepspeed"])
    row("lumicontainer render pytorch-deepspeed", f"{seen:.0f} ms", "<= 300 ms", holds=seen <= 300)


def host_lists() -> None:
    """Measure the expansion of 3,000 hosts in Slurm's forms; show the longest median of 25."""

    def median(text: str) -> float:
        return statistics.median(timeit.repeat(lambda: expand(text), number=1, repeat=25)) * 1000

    seen = max(map(median, FORMS))
    forms = f"the longest of {len(FORMS)} forms"
    row("3,000 hosts expanded", f"{seen:.1f} ms, {forms}", "<= 20 ms", holds=seen <= 20)


def entry(image: Path) -> None:
    """Measure what lumi-entry adds to the start of python, both inside one container."""
    enter = [*LUMICONTAINER, "run", str(image), "--"]
    words = ["python3", "-c", (HERE / "ranks.py").read_text(), "alone"]
    output = subprocess.run([*enter, *words], check=True, capture_output=True, text=True).stdout
    plain, entered = json.loads(output)
    added = entered - plain
    seen = f"{entered:.0f} ms against {plain:.0f} ms: {added:.0f} ms"
    row("python started by lumi-entry, CPU", seen, "<= 50 ms more", holds=added <= 50)


def ranks(image: Path) -> None:
    """Measure that for ranks of a LUMI-G node, with every feature, all in one container.

    Its files of /sys and its platform's record are written for this; the last of its ranks is
    the one that is profiled, and not measured.
    """
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        profile = ["--profile", "7", "--profiler", "torch"]
        start = partial(started_ranks, image, Path(folder))
        first, *others = start("turn", [task(rank, 8, 1) for rank in range(8)], *profile)
        together = start("once", [task(rank, RANKS, 1) for rank in range(RANKS)])
    for what, taken, limit in (
        ("  a rank, every feature on, CPU", others, 50),
        ("  the first rank, which checks the node", [first], 100),
    ):
        plain, entered = (
            min(each for rank in taken for each in rank[name]) for name in ("plain", "entered")
        )
        added = entered - plain
        seen = f"{entered:.0f} ms against {plain:.0f} ms: {added:.0f} ms"
        row(what, seen, f"<= {limit} ms more", holds=added <= limit)
    wrong = together["errors"]
    seen = f"{together['entered']:.0f} ms against {together['plain']:.0f} ms, {len(wrong)} errors"
    row(f"  {RANKS} ranks at once, every feature on", seen, "no error", holds=not wrong)


def started_ranks(
    image: Path, folder: Path, how: str, tasks: list[dict[str, str]], *options: str
) -> Any:
    """Start ranks in a container on a LUMI-G node, and return what ranks.py reports of them."""
    work = folder / how
    for name in ("node", "caches"):
        (work / name).mkdir(mode=0o700, parents=True)
    (work / "nothing.py").touch()
    enter = [ENGINE, "-s", "exec", "--userns", *binds(work / "node"), "--bind", work, image]
    words = [how, work / "nothing.py", work / "logs", json.dumps(tasks), *EVERY_FEATURE, *options]
    command = [*enter, "python3", "-c", (HERE / "ranks.py").read_text(), *words]
    environment = {**os.environ, "TMPDIR": str(work / "caches")}
    return json.loads(subprocess.check_output(list(map(str, command)), env=environment, text=True))


def image_checks(image: Path) -> None:
    """Measure quick checks inside the image."""
    inside = [*LUMICONTAINER, "run", image, "--", "lumi-verify"]
    for named, words, limit in (
        ("lumi-verify --level quick", ["--level", "quick"], 10),
        ("  the check image/linkage", ["-k", "image/linkage"], 3),
    ):
        took = seconds([*inside, *words], stderr=subprocess.DEVNULL)
        row(named, f"{took:.1f} s", f"<= {limit} s", holds=took <= limit)


def beside_others(image: Path, folder: Path) -> None:
    """Measure the quick checks and a changed last layer beside plain Apptainer and Docker.

    The others begin with the finished image, as their users would.
    """
    bench = builds.Bench(builds.read_arguments(["--work", str(folder)]))
    docker = Docker(bench.rendered, folder, bench.logs / "docker.log")
    imports = ["python3", "-c", "import torch"]
    try:
        docker.import_image(image)
        ours = seconds(
            [*LUMICONTAINER, "verify", image, "--level", "quick"], stderr=subprocess.DEVNULL
        )
        row("verify --level quick", f"{ours:.1f} s", "<= 10 s", holds=ours <= 10)
        theirs = seconds(plain_words(image, imports))
        row("  plain Apptainer: import torch", times(theirs, ours))
        row("  Docker: import torch", times(docker.run(imports), ours))
        script = f"mkdir -p /opt/bench && echo {time.time_ns()} >/opt/bench/data"
        platform = bench.rendered.recipes / "envs/gzip.yaml"
        platform.parent.mkdir(exist_ok=True)
        platform.write_text(GZIP)
        gzip = last_layer(bench, "--platform", "gzip")
        ours = last_layer(bench)
        what = "build, a trivial last layer changed"
        row(what, f"{ours:.1f} s", "<= 4.5 s", holds=ours <= 4.5)
        row("  with gzip, for SingularityCE", f"{gzip:.1f} s", "<= 6 s", holds=gzip <= 6)
        theirs = change_plain(bench.image, folder, script)
        row("  plain Apptainer, from the image", times(theirs, ours))
        theirs = docker.change("trivial", script) + docker.convert("trivial")
        row("  Docker, from the image, and converted", times(theirs, ours))
    finally:
        docker.remove()


def last_layer(bench: builds.Bench, *options: str) -> float:
    """Return the seconds of a build after a change of the last layer's trivial script."""
    taken = []
    # The first build unpacks the tree, and packs layers in another compression, for the next.
    for _ in range(builds.CHANGES + 1):
        text = f"mkdir -p /opt/bench\necho {time.time_ns()} >/opt/bench/data\n"
        bench.rendered.top.write_text(text)
        taken.append(bench.build(bench.image, *options, cache=cache_root())["whole"])
    return statistics.median(taken[1:])


def store(image: Path) -> None:
    """Start the store of rank 0 with many clients, with the usual limit of open files and without.

    Names come from files alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        names = Path(folder, "nsswitch.conf")
        names.write_text("hosts: files\n")
        bind = ["--bind", f"{names}:/etc/nsswitch.conf"]
        seen = start_store(image, CLIENTS, 10, bind)
        met = f"{seen['raised']:.1f} s" if seen["raised"] else "did not meet in 10 s"
        row(f"{CLIENTS} clients of PyTorch's store", met, "<= 10 s", holds=bool(seen["raised"]))
        row("  with 1,024 open files", "met" if seen["usual"] else "did not meet in 10 s")
        fast = start_store(image, FEW_CLIENTS, 300, bind)["raised"]
    if os.geteuid():
        return
    with tempfile.TemporaryDirectory() as folder, slow_names(Path(folder), SLOW_NAME) as options:
        slow = start_store(image, FEW_CLIENTS, 300, options)["raised"]
    what = f"{FEW_CLIENTS} clients, if a name takes {SLOW_NAME} s"
    row(what, f"{slow / fast:.0f} times" if slow and fast else "did not meet in 300 s")


def start_store(
    image: Path, clients: int, limit: int, options: Sequence[str]
) -> dict[str, float | None]:
    """Return the seconds until all clients have met, by the limit of open files."""
    words = ["python3", "-c", (HERE / "store.py").read_text(), str(clients), str(limit)]
    command = [ENGINE, "--silent", "exec", "--userns", *options, str(image), *words]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seen: dict[str, float | None] = json.loads(done.stdout)
    return seen


def main(words: Sequence[str]) -> None:
    """Run every measurement."""
    image = Path(words[0] if words else "pytorch-deepspeed.sif").absolute()
    command_line()
    host_lists()
    entry(image)
    ranks(image)
    store(image)
    image_checks(image)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        assembly(image, Path(folder))
        starts(image, Path(folder))
        large(image, Path(folder))
        extension(image, Path(folder))
        sharing(image, Path(folder))
        beside_others(image, Path(folder))


if __name__ == "__main__":
    main(sys.argv[1:])
