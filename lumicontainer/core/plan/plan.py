"""Plan a resolved recipe: the base, a step for each layer, and the last step."""

from collections.abc import Iterable
from typing import Any

from lumicontainer.constants import DEFAULTS
from lumicontainer.core.model import Bootstrap, LayerFile
from lumicontainer.core.model.layer import LOCALIMAGE
from lumicontainer.core.plan.base import after_bootstrap
from lumicontainer.core.plan.layer_step import Parent, layer_step
from lumicontainer.core.plan.seal import seal_step
from lumicontainer.core.plan.steps import BASE, Plan, key_of, with_program
from lumicontainer.core.plan.variables import fold
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.shipped import programs

ASSEMBLY = 4
"""Counts the ways in which layers were made and packed: another way makes other keys."""
_SETTLED = 1
"""Counts the same for images that become bases."""


def planned(resolved: Resolved) -> Plan:
    """Plan a resolved recipe with the programs that are baked into images."""
    return make_plan(resolved, programs())


def base_of(bootstrap: Bootstrap) -> tuple[str, dict[str, Any]]:
    """Return the key of a base, and its inputs."""
    inputs = {
        "agent": bootstrap.agent,
        "release": bootstrap.release,
        "include": bootstrap.include,
        "image": _image(bootstrap),
        "assembly": ASSEMBLY,
    }
    if not bootstrap.by_debootstrap:
        inputs["settled"] = _SETTLED
    base = with_program(inputs, after_bootstrap(bootstrap))
    return key_of({"base": base}), base


def with_new_base(plan: Plan) -> Plan:
    """Return the plan with a base under a separate key, which a lock builds each time."""
    inputs = {**plan.base_inputs, "for": "lock"}
    return plan._replace(base_key=key_of({"base": inputs}), base_inputs=inputs)


def make_plan(resolved: Resolved, inside: Iterable[LayerFile]) -> Plan:
    """Plan a resolved recipe; ``inside`` are the files of the programs that are baked in."""
    bootstrap = resolved.bootstrap
    key, base = base_of(bootstrap)
    stack = [Parent(BASE, key, {}, ())]
    steps = []
    for layer in resolved.included():
        parent = stack[-1]
        content = layer.content
        environment = fold(parent.environment, content.environment, content.prepend)
        own = Parent(layer.name, parent.key, environment, content.path + parent.path)
        # What no other layer is comes from the base, which its own layer completes.
        required = [each for each in stack if each.name in layer.requires] or stack[:2]
        step = layer_step(layer, own, required[-1])
        if step is not None:
            steps.append(step)
            own = own._replace(key=step.key)
        stack.append(own)
    top = stack[-1]
    steps.append(seal_step(resolved, top.key, inside=inside, path=top.path))
    environment = {**DEFAULTS, **top.environment}
    about = (resolved, bootstrap, stack[0].key, base, tuple(steps), environment, top.path)
    return Plan(*about, lists=_lists(resolved))


def _lists(resolved: Resolved) -> frozenset[str]:
    """Return the variables whose former folders follow the image's."""
    variables: set[str] = set()
    for layer in resolved.included():
        variables -= layer.content.environment.keys()
        variables |= layer.content.prepend.keys()
    return frozenset(variables)


def _image(bootstrap: Bootstrap) -> str:
    """Return what names the content of a base that is an image; a file's name decides nothing."""
    if bootstrap.agent == LOCALIMAGE:
        return f"sha256:{bootstrap.sha256}"
    return "" if bootstrap.by_debootstrap else bootstrap.image
