"""Measure builds beside plain Apptainer and Docker: whole processes, one run, one machine.

Usage: python tests/bench/builds.py [RECIPE] [--recipes DIR] [--work DIR] [--only PART,…]

The recipe gets one more layer on top, whose script works for two seconds and can be changed. What
was measured is kept in figures.json of the work folder: a run that broke off goes on from there,
and --only measures parts again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from report import report
from rivals import Docker, Rendered, build_plain, folders_served
from sharing import serving
from table import LUMICONTAINER, seconds

from lumicontainer.engines import find_engine
from lumicontainer.host.machine import clean_environment
from lumicontainer.sandbox.workspace import remove_tree

Figures = dict[str, Any]

WORK = Path("/var/tmp/lumicontainer-bench")
KEPT = "figures.json"
CHANGES = 3
STARTS = 5
SCRIPT = """\
# change {change}
set -euo pipefail
milliseconds() {{ echo "$(($(date +%s%N) / 1000000))"; }}
begun=$(milliseconds)
mkdir -p /opt/bench
head -c 20000000 /dev/urandom >/opt/bench/data
until (($(milliseconds) - begun >= 2000)); do
    sha256sum /opt/bench/data >/opt/bench/sum
done
echo "{mark}$(($(milliseconds) - begun))"
"""
MARK = "milliseconds of the script: "


class Bench:
    """Know the recipe, and where everything of the run lies."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.work: Path = arguments.work.absolute()
        self.ours = self.work / "ours"
        self.image = self.ours / "image.sif"
        self.logs = self.work / "logs"
        self.logs.mkdir(parents=True, exist_ok=True)
        self.rendered = Rendered(arguments.recipe, self.work / "recipes")
        self.rendered.write(arguments.recipes)
        self.change_top()

    def emptied(self, name: str) -> Path:
        """Return a folder of the run, with nothing in it."""
        remove_tree(self.work / name)
        (self.work / name).mkdir()
        return self.work / name

    def change_top(self) -> None:
        """Change the script of the top layer to one that no build has met."""
        self.rendered.top.write_text(SCRIPT.format(change=time.time_ns(), mark=MARK))

    def build(
        self, output: Path, *options: str, cache: Path | None = None, trusted: str = ""
    ) -> Figures:
        """Build with lumicontainer; return the wall time of the process, and what it reported.

        That is the steps that were not taken from the cache, the seconds of each step, and the
        seconds of the script of the top layer, as measured by itself.
        """
        (self.ours / "tmp").mkdir(parents=True, exist_ok=True)
        words = [*LUMICONTAINER, "build", self.arguments.recipe, "--progress", "json"]
        words += ["--recipes", self.rendered.recipes, "--output", output, *options]
        places = {"CACHE": cache or self.ours / "cache", "TMPDIR": self.ours / "tmp"}
        environment = {f"LUMICONTAINER_{name}": str(path) for name, path in places.items()}
        environment["LUMICONTAINER_SHARED_CACHE_OWNERS"] = trusted
        log = self.logs / "ours.log"
        with log.open("w") as file:
            whole = seconds(words, env={**os.environ, **environment}, stderr=file)
        lines = log.read_text().splitlines()
        events = [json.loads(line) for line in lines if line.startswith("{")]
        texts = [each["text"] for each in events if each["event"] == "line"]
        script = [text.removeprefix(MARK) for text in texts if text.startswith(MARK)]
        return {
            "whole": whole,
            "begun": [each["step"] for each in events if each["event"] == "begin"],
            "took": {each["step"]: each["seconds"] for each in events if each["event"] == "end"},
            "script": sum(map(int, script)) / 1000,
        }


def disk(*paths: Path) -> int:
    """Return the bytes that folders take on the disk; what goes meanwhile is passed over."""
    done = subprocess.run(["du", "-sxcB1", *paths], capture_output=True, text=True, check=False)
    return int(done.stdout.splitlines()[-1].split()[0])


@contextmanager
def peak_of(folder: Path) -> Iterator[Figures]:
    """Watch how much a folder takes; the most is known at the end.

    Looking takes at most a twentieth of the time, for it slows down what is measured.
    """
    seen: Figures = {"peak": 0, "looks": 0}
    ended = threading.Event()

    def look() -> None:
        pause = 0.0
        while not ended.wait(pause):
            begun = time.monotonic()
            seen["peak"] = max(seen["peak"], disk(folder))
            seen["looks"] += 1
            pause = max(0.5, 20 * (time.monotonic() - begun))

    watcher = threading.Thread(target=look)
    watcher.start()
    try:
        yield seen
    finally:
        ended.set()
        watcher.join()


def ours(bench: Bench) -> Figures:
    """Build with an empty cache, and weigh what the build took and left.

    The tree is weighed as it is kept for the next build, with the note of its state.
    """
    bench.emptied(bench.ours.name)
    with peak_of(bench.ours) as seen:
        result = bench.build(bench.image)
    parts = {"tree": "tmp", "layers": "cache", "image": bench.image.name}
    sizes = {name: disk(bench.ours / part) for name, part in parts.items()}
    # With the folder that they lie in, which the peak has too.
    sizes["together"] = disk(bench.ours)
    return {**result, **seen, **sizes}


def plain(bench: Bench) -> Figures:
    """Build the rendered definition with Apptainer alone."""
    folder = bench.emptied("plain")
    whole = build_plain(bench.rendered, folder, bench.logs / "plain.log")
    return {"whole": whole, "image": disk(folder / "plain.sif")}


def docker(bench: Bench) -> Figures:
    """Build the rendered Dockerfile and convert it; once more with the top layer changed."""
    folder = bench.emptied("docker")
    engine = Docker(bench.rendered, folder, bench.logs / "docker.log")
    figures: Figures = {"driver": engine.driver}
    try:
        with folders_served(bench.rendered) as port:
            figures["base"] = engine.import_base(port)
            figures["build"] = engine.build("cold", "--no-cache")
            figures["convert"] = engine.convert("cold")
            bench.change_top()
            figures["build again"] = engine.build("changed")
            figures["convert again"] = engine.convert("changed")
    finally:
        engine.remove()
    return figures


def registry(bench: Bench) -> Figures:
    """Build with an empty cache what a registry has."""
    folder = bench.emptied("registry")
    with serving(folder / "server") as server:
        place = f"oci://{server.host}/layers"
        sent = bench.build(bench.image, "--cache-to", place)
        words = ("--cache-from", place)
        result = bench.build(folder / "image.sif", *words, cache=folder / "cache", trusted=place)
    remove_tree(folder)
    return {**result, "sent": sent["whole"]}


def unchanged(bench: Bench) -> Figures:
    """Build again what was built."""
    bench.build(bench.image)
    return {"whole": [bench.build(bench.image)["whole"] for _ in range(STARTS)]}


def top(bench: Bench) -> Figures:
    """Build with the script of the last layer changed."""
    bench.build(bench.image)
    figures: Figures = {"whole": [], "script": [], "checks": []}
    for _ in range(CHANGES):
        bench.change_top()
        result = bench.build(bench.image)
        figures["whole"].append(result["whole"])
        figures["script"].append(result["script"])
        figures["checks"].append(result["took"]["check"])
    return {**figures, "took": result["took"]}


def middle(bench: Bench) -> Figures:
    """Build with a layer in the middle changed, from a copy of the cache: it can be repeated."""
    folder = bench.emptied("middle")
    seconds(["cp", "-a", bench.ours / "cache", folder / "cache"])
    changed = ("--set", bench.arguments.middle)
    result = bench.build(folder / "image.sif", *changed, cache=folder / "cache")
    remove_tree(folder)
    return {**result, "changed": bench.arguments.middle, "spared": bench.arguments.spared}


def starts(bench: Bench) -> Figures:
    """Start programs in our image and in plain Apptainer's, from the memory and from the disk."""
    module = bench.arguments.module
    programs = {"true": ["true"], f"import {module}": ["python3", "-c", f"import {module}"]}
    figures: Figures = {"cold by": "", "programs": list(programs)}
    for name, program in programs.items():
        for builder, image in _images(bench).items():
            command = find_engine().execute(image, program, binds=())
            times: dict[str, list[float]] = {"warm": [], "cold": []}
            seconds(command, env=clean_environment())
            for _ in range(STARTS):
                times["warm"].append(seconds(command, env=clean_environment()))
            for _ in range(STARTS):
                figures["cold by"] = _forget(image)
                times["cold"].append(seconds(command, env=clean_environment()))
            figures[f"{builder} {name}"] = times
    return figures


def _images(bench: Bench) -> dict[str, Path]:
    return {"lumicontainer": bench.image, "Apptainer": bench.work / "plain/plain.sif"}


def _forget(image: Path) -> str:
    """Drop an image from the memory; return how."""
    with image.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3")
    except OSError as error:
        return f"the image's pages dropped (not all caches: {error.strerror})"
    return "all caches of the machine dropped"


PARTS: dict[str, Callable[[Bench], Figures]] = {
    part.__name__: part for part in (ours, registry, plain, docker, unchanged, top, middle, starts)
}


def main(words: Sequence[str]) -> None:
    """Measure what is not measured yet, or what is asked for, and print the table."""
    arguments = read_arguments(words)
    bench = Bench(arguments)
    kept = bench.work / KEPT
    figures: Figures = json.loads(kept.read_text()) if kept.exists() else {}
    if figures.setdefault("recipe", arguments.recipe) != arguments.recipe:
        raise SystemExit(f"error: {bench.work} has figures of another recipe: name another --work")
    due = arguments.only or [name for name in PARTS if name not in figures]
    for name in due:
        print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
        try:
            figures[name] = PARTS[name](bench)
        except subprocess.CalledProcessError as error:
            raise SystemExit(f"error: {name}: {error}\n   hint: read {bench.logs}") from error
        kept.write_text(json.dumps(figures, indent=2) + "\n")
    report(figures)
    print(f"kept: {bench.work}; the Docker engine runs on: make docker-stop", file=sys.stderr)


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="builds.py")
    parser.add_argument("recipe", nargs="?", default="pytorch-deepspeed")
    parser.add_argument("--recipes", metavar="DIR", type=Path)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--only", type=_parts, help=f"some of {','.join(PARTS)}")
    parser.add_argument("--middle", default="deepspeed.DS_BUILD_AIO=true", help="what to change")
    parser.add_argument("--spared", default="horovod", help="a later layer with a compile.sh")
    parser.add_argument("--module", default="torch", help="what to import in both images")
    return parser.parse_args(words)


def _parts(text: str) -> list[str]:
    names = text.split(",")
    if unknown := set(names) - set(PARTS):
        raise argparse.ArgumentTypeError(f"no such part: {', '.join(sorted(unknown))}")
    return [name for name in PARTS if name in names]


if __name__ == "__main__":
    main(sys.argv[1:])
