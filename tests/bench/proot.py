"""Measure a changed last layer by PRoot beside SingularityCE's own build with PRoot, in one run.

Usage: python tests/bench/proot.py RECIPE BASE [--recipes DIR] [--work DIR]

An ordinary user runs it, with PRoot and SingularityCE. BASE is an image of the recipe's Debian in
a registry, from which SingularityCE builds what ``lumicontainer render`` prints; a registry of
this host is asked by HTTP. Both build the same recipe, with one more layer on top.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from rivals import Rendered
from table import LUMICONTAINER, row, taken

from lumicontainer.host.machine import clean_environment
from lumicontainer.host.site import read_site, stage_site

WORK = Path("/var/tmp/lumicontainer-bench-proot")
CHANGES = 3
LIMIT = 0.1
PLATFORM = "bench-proot"
INSIDE = "/mnt"
"""It is in every Debian, and a bind needs a place that is there."""


class Took(NamedTuple):
    """Hold the seconds of one whole process with its children."""

    wall: float
    processor: float


class Bench:
    """Write what both build, and measure each."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.base, self.work = arguments.base, arguments.work
        self.rendered = Rendered(arguments.recipe, self.work / "recipes")
        self.rendered.write(arguments.recipes)
        self.temporary = self.work / "tmp"
        for name in ("recipes/envs", "site", "tmp"):
            (self.work / name).mkdir(parents=True, exist_ok=True)
        platform = self.rendered.recipes / f"envs/{PLATFORM}.yaml"
        platform.write_text(
            "summary: a host with PRoot\naccelerator: cpu\n"
            "proot: singularity build RECIPE.sif RECIPE.def\n"
        )
        self.change_top()

    def change_top(self) -> None:
        """Change the script of the top layer to one that no build has met."""
        self.rendered.top.write_text(f"echo {time.time_ns()} >/opt/changed\n")

    def words(self, verb: str) -> list[str]:
        """Return the command line of a verb about the recipe."""
        rendered = self.rendered
        return [*LUMICONTAINER, verb, rendered.recipe, "--recipes", str(rendered.recipes)]

    def ours(self) -> Took:
        """Build with lumicontainer."""
        words = [*self.words("build"), "--runtime", "proot", "--output", self.work / "ours.sif"]
        environment = {**os.environ, "LUMICONTAINER_TMPDIR": str(self.temporary)}
        return self._took(words, environment, "ours.log")

    def plain(self) -> Took:
        """Build the rendered definition with SingularityCE alone."""
        site, folder = read_site("bookworm"), self.work / "site"
        stage_site(site, folder, INSIDE)
        names = ("PIP_CERT", "SSL_CERT_FILE") if site.trust else ()
        variables = {**site.environment, **dict.fromkeys(names, f"{INSIDE}/ca.crt")}
        handed = {f"SINGULARITYENV_{name}": value for name, value in variables.items()}
        handed |= {f"SINGULARITY_{name}": str(self.temporary) for name in ("TMPDIR", "CACHEDIR")}
        definition = self.work / "plain.def"
        render = [*self.words("render"), "--platform", PLATFORM]
        text = subprocess.check_output(render, text=True)
        definition.write_text(re.sub(r"(?m)^From: .*", f"From: {self.base}", text, count=1))
        words: list[object] = ["singularity", "build", "--force"]
        words += ["--no-https"] if self.base.startswith("127.0.0.1:") else []
        for bind in (f"{folder}:{INSIDE}", *(f"{each}:{each}" for each in site.folders)):
            words += ["--bind", bind]
        words += [self.work / "plain.sif", definition]
        return self._took(words, clean_environment() | handed, "plain.log")

    def _took(self, words: Sequence[object], environment: Mapping[str, str], log: str) -> Took:
        with (self.work / log).open("w") as file:
            try:
                return Took(*taken(words, env=environment, stdout=file, stderr=file))
            except subprocess.CalledProcessError as error:
                raise SystemExit(f"error: {error}\n   hint: read {file.name}") from error


def main(words: Sequence[str]) -> None:
    """Measure both, and print a table; end with 1 if the limit is not met."""
    bench = Bench(read_arguments(words))
    row("lumicontainer build, with what is cached", _text(bench.ours()))
    changed = []
    for _ in range(CHANGES):
        bench.change_top()
        changed.append(bench.ours())
    median = Took(*(statistics.median(column) for column in zip(*changed, strict=True)))
    row("last layer changed, median", _text(median))
    plain = bench.plain()
    row("singularity build", _text(plain))
    ratios = Took(*(ours / theirs for ours, theirs in zip(median, plain, strict=True)))
    shown = f"{ratios.wall:.3f} wall, {ratios.processor:.3f} processor"
    row("of singularity build", shown, f"{LIMIT}", holds=max(ratios) <= LIMIT)
    sys.exit(max(ratios) > LIMIT)


def _text(took: Took) -> str:
    return f"{took.wall:.0f} s wall, {took.processor:.0f} s processor"


def read_arguments(words: Sequence[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(prog="proot.py")
    parser.add_argument("recipe")
    parser.add_argument("base")
    parser.add_argument("--recipes", metavar="DIR", type=Path)
    parser.add_argument("--work", type=Path, default=WORK)
    return parser.parse_args(words)


if __name__ == "__main__":
    main(sys.argv[1:])
