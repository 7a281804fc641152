"""Decide the variables of a rank whose environment and node are the test's own."""

from collections.abc import Mapping
from typing import Any

import pytest

from lumicontainer.inside.entry.decide import Decision
from lumicontainer.inside.entry.decide import decide as decide_in
from lumicontainer.inside.environment import Setting
from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.rank.context import Context


def decide(env: Mapping[str, str], **options: Any) -> Decision:
    """Return what lumi-entry decides; ``given`` are the other inputs of ``Context``."""
    return decide_in(Context(env, **options))


def settings(decision: Decision) -> dict[str, Setting]:
    return {setting.name: setting for setting in decision.settings}


def values(env: Mapping[str, str], **options: Any) -> dict[str, str | None]:
    return {setting.name: setting.value for setting in decide(env, **options).settings}


def refusal(env: Mapping[str, str], **options: Any) -> LaunchError:
    """Return the refusal, which also says where, why and what to do."""
    with pytest.raises(LaunchError) as caught:
        decide(env, **options)
    error = caught.value
    assert all((error.code == 2, error.where, error.why, error.hint))
    return error
