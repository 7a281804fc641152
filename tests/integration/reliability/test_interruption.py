"""Builds are killed and interrupted at random instants: no image is lost, and nothing stays."""

import random
import signal
import sys
import threading
import time
from collections import Counter
from dataclasses import replace

from ..conftest import digest
from ..processes import PATIENCE, until
from .chain import KILLS, LAYERS, Place

REBUILDS = 2


def test_a_reader_sees_the_old_or_the_new_image_and_never_less(unchecked: Place) -> None:
    """A reader polls during rebuilds (the property was shown with 50)."""
    whole = set()
    for value in ("x", "y"):
        unchecked.build("--set", f"four.value={value}")
        whole.add(digest(unchecked.image))
    seen: Counter[str] = Counter()
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            try:
                seen[digest(unchecked.image)] += 1
            except OSError as error:
                seen[str(error)] += 1

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(REBUILDS):
            unchecked.build("--set", f"four.value={'xy'[number % 2]}")
    finally:
        ended.set()
        reader.join()
    assert seen.keys() == whole
    assert min(seen[each] for each in whole) > REBUILDS / 2


def test_a_killed_build_leaves_the_old_or_the_new_image_and_the_next_goes_on(
    place: Place,
) -> None:
    """Kill at random instants of the whole build (the property was shown with 200)."""
    began = time.monotonic()
    place.build("--set", "one.value=first")
    lasts = time.monotonic() - began
    for number in range(KILLS):
        before = digest(place.image)
        words = ("--set", f"one.value={number}")
        build = place.start(*words)
        time.sleep(random.uniform(0, lasts))
        build.kill()
        build.wait()
        assert place.ends(), place.living()
        left = digest(place.image)
        done = build.steps("end")
        objects = place.objects()

        again = place.build(*words)
        assert left in (before, digest(place.image))
        assert set(again.steps("begin")).isdisjoint(done)
        assert len(place.objects()) - len(objects) == len(again.made()) + (
            "lumicontainer" in again.steps("begin")
        )
        assert place.left() == []


def test_what_a_killed_build_started_ends_with_it(unchecked: Place) -> None:
    """A program that never ends stands for one that packs for minutes."""
    endless = unchecked.root / "bin/mksquashfs"
    endless.parent.mkdir()
    endless.write_text(f"#!{sys.executable}\nimport time\ntime.sleep(1000)\n")
    endless.chmod(0o755)
    build = unchecked.start("--set", "one.value=endless")
    packs = until(lambda: any(f"{endless} " in each for each in unchecked.living()), PATIENCE)
    assert packs, build.stderr
    build.kill()
    build.wait()
    assert unchecked.ends(), unchecked.living()
    endless.unlink()
    unchecked.build("--set", "one.value=endless")
    assert unchecked.left() == []


def test_an_interrupted_build_ends_at_once_and_leaves_nothing(place: Place) -> None:
    place.build()
    before = digest(place.image)
    for value, number in enumerate((signal.SIGINT, signal.SIGTERM, signal.SIGHUP)):
        build = place.start("--set", f"one.value={value}")
        layer = random.choice(LAYERS)
        assert until(lambda build=build, layer=layer: layer in build.steps("begin"), PATIENCE)
        build.kill(number)
        assert build.wait() == 130, build.stderr[-3000:]
        assert "interrupted" in build.stderr
        assert "Traceback" not in build.stderr
        assert place.left() == place.trees() == []
        assert place.ends(), place.living()
        assert digest(place.image) == before


def test_a_build_under_nohup_outlives_its_terminal(unchecked: Place) -> None:
    build = replace(unchecked, enter=("nohup",)).start("--set", "one.value=nohup")
    assert until(lambda: build.steps("begin"), PATIENCE), build.stderr
    build.kill(signal.SIGHUP)
    assert build.wait() == 0, build.stderr[-3000:]
