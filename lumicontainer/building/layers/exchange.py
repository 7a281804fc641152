"""Exchange layers with others: which caches a build takes of, and what it sends at its end."""

from collections import Counter
from collections.abc import Iterator, Sequence

from lumicontainer.cache.shared import trusted
from lumicontainer.cache.shared.publish import objects_of
from lumicontainer.cache.shared.shared import SharedCache
from lumicontainer.cache.shared.source import LayerSource
from lumicontainer.cache.store import Cache
from lumicontainer.core.plan.steps import Plan
from lumicontainer.errors import InputError, Problem
from lumicontainer.registry.image_name import parse_repository
from lumicontainer.registry.registry_cache import RegistryCache
from lumicontainer.registry.send_objects import SentObjects, send_objects
from lumicontainer.system.connections import Connections
from lumicontainer.system.terminal.progress import Progress

_FROM, _TO = "--cache-from", "--cache-to"


def find_caches(
    registries: Sequence[str], connections: Connections | None = None
) -> Iterator[LayerSource]:
    """Yield the shared cache that the environment names, if it does, and those in registries.

    Registries are asked by ``connections`` that wait between requests, if they are given.
    Raises ``InputError`` for a text that names no cache, ``HostError`` for trust that others could
    change.
    """
    if shared := SharedCache.named():
        yield shared
    for text in registries:
        yield RegistryCache.named(parse_repository(text, _FROM), connections)


def require_target(registry: str, key: str) -> None:
    """Raise an error for a name that is not a registry's, or a key that cannot sign."""
    if registry:
        parse_repository(registry, _TO)
    elif key:
        what, hint = "--cache-sign needs --cache-to", f"add {_TO} oci://HOST/NAME, or leave it out"
        raise InputError(Problem(what, hint=hint))
    if key:
        trusted.sign(b"", key)


def send_layers(
    plan: Plan, store: Cache, registry: str, key: str, progress: Progress
) -> SentObjects:
    """Send the layers and wheels of an image to a registry; what fails is a warning alone."""
    target = parse_repository(registry, _TO)
    try:
        entries = objects_of(plan, store, hint="repeat the command with --rebuild")
    except InputError as error:
        _, _, why, hint, _ = error.problems[0]
        what = "the layers of the image are not sent"
        return SentObjects(problem=Problem(what, target.repository, why, hint, "warning"))
    sent = send_objects(entries, store, target, key, progress)
    numbers = Counter(each.state for each in sent.objects)
    words = ", ".join(f"{number} {state}" for state, number in numbers.items())
    progress.say(f"layers to {target.repository}: {words}")
    return sent
