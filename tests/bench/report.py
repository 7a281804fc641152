"""Turn the figures of builds.py into one table, with ratios and limits."""

from __future__ import annotations

import os
from statistics import median
from typing import Any

from table import row

Figures = dict[str, Any]


def report(figures: Figures) -> None:
    """Print what was measured; name what was not."""
    cores = len(os.sched_getaffinity(0))
    print(f"recipe {figures['recipe']} with one more layer, {cores} cores")
    missing = set()
    for needs, rows in REPORTS:
        if absent := set(needs) - set(figures):
            missing |= absent
        else:
            rows(*(figures[name] for name in needs))
    if missing:
        print(f"not measured yet: {', '.join(sorted(missing))}")


def cold(ours: Figures, plain: Figures) -> None:
    """Report builds from nothing."""
    own, theirs = ours["whole"], plain["whole"]
    row("cold build, plain Apptainer", _against(own, theirs), "not slower", holds=own <= theirs)


def cold_registry(ours: Figures, seen: Figures) -> None:
    """Report a build with an empty cache that takes all layers of a registry."""
    own, whole = ours["whole"], seen["whole"]
    text = f"{_s(whole)}: 1/{own / whole:.1f} of it, checks {_s(seen['took']['check'])}"
    row("  --cache-from a registry", text, "<= 1/8", holds=8 * whole <= own)


def cold_docker(ours: Figures, docker: Figures) -> None:
    """Report Docker's build from nothing, and its parts."""
    whole = docker["build"] + docker["convert"]
    row("cold build, docker and conversion", _against(ours["whole"], whole))
    row("  docker build, its base there already", f"{_s(docker['build'])} ({docker['driver']})")
    row("  conversion", _s(docker["convert"]))
    row("  its base, not counted above", _s(docker["base"]))


def unchanged(seen: Figures) -> None:
    """Report a build that has nothing to do."""
    whole = median(seen["whole"])
    row("nothing changed", f"{whole:.2f} s", "<= 1 s", holds=whole <= 1)


def top(seen: Figures) -> None:
    """Report a changed script in the last layer."""
    whole, script, checks = (median(seen[name]) for name in ("whole", "script", "checks"))
    text = f"{_s(whole)}, the script {_s(script)}, the image's checks {_s(checks)}"
    row("last layer's script changed", text, "<= script + 6 s", holds=whole <= script + 6)


def top_plain(seen: Figures, plain: Figures) -> None:
    """Compare that with a whole plain build."""
    whole = median(seen["whole"])
    ratio = plain["whole"] / whole
    row("  plain Apptainer", _against(whole, plain["whole"]), ">= 20 times", holds=ratio >= 20)


def top_docker(seen: Figures, docker: Figures) -> None:
    """Compare that with a build from Docker's cache and the conversion."""
    whole, theirs = median(seen["whole"]), docker["build again"] + docker["convert again"]
    row("  docker and conversion", _against(whole, theirs), ">= 5 times", holds=theirs >= 5 * whole)
    row("    docker build", _s(docker["build again"]))
    row("    conversion", _s(docker["convert again"]))


def middle(ours: Figures, seen: Figures) -> None:
    """Report a change in the middle: it must be compiled, and the later layer must not."""
    changed, spared = seen["changed"].partition(".")[0], seen["spared"]
    compiled = [f"{name}: compile" for name in (changed, spared)]
    holds = set(compiled) <= set(ours["begun"]) and compiled[0] in seen["begun"]
    holds = holds and compiled[1] not in seen["begun"]
    again = [name.partition(":")[0] for name in seen["begun"] if name.endswith(": compile")]
    text = f"{_s(seen['whole'])}, compiled: {', '.join(again) or 'none'}"
    row(seen["changed"], text, f"{spared} not compiled", holds=holds)


def disk(ours: Figures) -> None:
    """Report how much of the disk the cold build took."""
    peak, total = ours["peak"], ours["together"]
    text = f"{_mb(peak)}, {ours['looks']} looks"
    row("most disk of the cold build", text, f"<= {_mb(total)}", holds=peak <= total)
    for name in ("tree", "layers", "image"):
        row(f"  {name}", _mb(ours[name]))


def starts(seen: Figures) -> None:
    """Report how long programs take to start in our image and in plain Apptainer's."""
    for name in seen["programs"]:
        for state in ("warm", "cold"):
            ours, theirs = (
                median(seen[f"{builder} {name}"][state])
                for builder in ("lumicontainer", "Apptainer")
            )
            text = f"{ours * 1000:.0f} ms against {theirs * 1000:.0f} ms"
            row(f"{name}, {state}", text, "<= 1.1 times", holds=ours <= 1.1 * theirs)
    row("  cold is", seen["cold by"])


def _against(ours: float, theirs: float) -> str:
    return f"{_s(ours)} against {_s(theirs)}: {theirs / ours:.1f} times"


def _s(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 100 else f"{seconds:.1f} s"


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"


REPORTS = (
    (("ours", "plain"), cold),
    (("ours", "registry"), cold_registry),
    (("ours", "docker"), cold_docker),
    (("unchanged",), unchanged),
    (("top",), top),
    (("top", "plain"), top_plain),
    (("top", "docker"), top_docker),
    (("ours", "middle"), middle),
    (("ours",), disk),
    (("starts",), starts),
)
