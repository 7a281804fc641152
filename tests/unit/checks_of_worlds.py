"""Changes of a layer's checks; see ``worlds``."""

from __future__ import annotations

from typing import Any

from lumicontainer.core.model import Check, CheckNeeds, Checks, LayerFile, Threshold

from .worlds import Change, World

LIMIT = Threshold("GB/s", "somebody measured it")
FILE = LayerFile("checks/a.sh", 0o644, b"true\n")
CHECK = Check(
    "layer/a",
    FILE,
    summary="x",
    hint="y",
    level="quick",
    runs="once",
    timeout_seconds=60,
    thresholds={"speed": LIMIT},
)


def checks_field(name: str, value: Any) -> Change:
    return _changed(_checks(CHECK)._replace(**{name: value}))


def check_field(name: str, value: Any) -> Change:
    return _changed(_checks(CHECK._replace(**{name: value})))


def needs_field(name: str, value: Any) -> Change:
    needs = CheckNeeds()._replace(**{name: value})
    return _changed(_checks(CHECK._replace(needs=needs)))


def threshold_field(name: str, value: Any) -> Change:
    limits = {"speed": LIMIT._replace(**{name: value})}
    return _changed(_checks(CHECK._replace(thresholds=limits)))


def _checks(check: Check) -> Checks:
    return Checks((FILE,), (check,))


def _changed(changed: Checks) -> Change:
    def change(world: World, number: int, word: str) -> tuple[World, World]:
        del word
        one, other = (
            world.with_layer(number, checks=checks) for checks in (_checks(CHECK), changed)
        )
        return one, other

    return change
