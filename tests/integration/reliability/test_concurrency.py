"""Builds run side by side, and no layer is made twice."""

import fcntl
import re
import socket
import sys
from collections import Counter

from lumicontainer.cache.store import Cache

from ..conftest import check_output, digest
from .chain import LAYERS, STEPS, Build, Place


def test_two_recipes_at_once_make_their_common_base_once(
    base: tuple[Place, list[Build]],
) -> None:
    _, builds = base
    assert [step for build in builds for step in build.steps("end")].count("base") == 1


def test_four_builds_of_two_files_at_once_make_each_layer_once(place: Place) -> None:
    images = [place.image.with_name(f"{number % 2}.sif") for number in range(4)]
    before = set(place.objects())
    builds = [place.start("--set", "one.value=four", output=image) for image in images]
    assert [build.wait() for build in builds] == [0] * 4, [b.stderr[-2000:] for b in builds]
    assert len({digest(image) for image in images}) == 1
    assert Counter(name for build in builds for name in build.made()) == dict.fromkeys(LAYERS, 1)
    made = [Cache(place.cache).entry(name) for name in set(place.objects()) - before]
    assert sorted(entry.step for entry in made if entry) == sorted(STEPS)
    ended = Counter(step for build in builds for step in build.steps("end"))
    assert ended == dict.fromkeys(STEPS, 1)
    checked = [any(each["step"] == "check" for each in b.events("line")) for b in builds]
    assert sorted(checked) == [False] * 3 + [True]
    assert place.left() == []
    assert len(place.trees()) == 1

    reasons = {each["text"] for b in builds for each in b.events("waiting") if each["text"]}
    form = r"waiting for host (\S+), process (\d+), since \d\d:\d\d:\d\d"
    named = [match.groups() for reason in reasons if (match := re.fullmatch(form, reason))]
    assert len(named) == len(reasons) > 0
    assert {host for host, _ in named} == {socket.gethostname()}
    assert {int(number) for _, number in named} <= {build.process.pid for build in builds}


def test_a_cache_that_is_emptied_meanwhile_harms_no_build(place: Place) -> None:
    base = next(e for e in Cache(place.cache).entries() if e.step == "base")
    # Locked as a build would.
    with Cache(place.cache).use_lock(base.name).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        outputs = [place.image.with_name(f"{number}.sif") for number in range(2)]
        builds = [place.start("--set", "two.value=p", output=output) for output in outputs]
        prunes = 0
        while any(build.process.poll() is None for build in builds):
            words = ("lumicontainer", "cache", "prune", "--max-size", "0")
            check_output(sys.executable, "-m", *words, env=place.environment)
            prunes += 1
        assert [build.wait() for build in builds] == [0, 0], [b.stderr[-2000:] for b in builds]
        assert prunes > 1
        assert len({digest(output) for output in outputs}) == 1
