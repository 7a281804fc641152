"""Decide the variables of a rank whose environment and node are the test's own."""

from collections.abc import Mapping
from typing import Any

from lumicontainer.inside.entry.decide import Decision
from lumicontainer.inside.entry.decide import decide as decide_in
from lumicontainer.inside.rank.context import Context


def decide(env: Mapping[str, str], **given: Any) -> Decision:
    """Return what lumi-entry decides; ``given`` are the other inputs of ``Context``."""
    return decide_in(Context(env, **given))
