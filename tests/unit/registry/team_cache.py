"""Send layers to a cache in a registry, and look at it as a build does."""

from pathlib import Path

from lumicontainer.cache.objects import LAYER, Entry, object_name
from lumicontainer.cache.shared.trusted import Vouchers
from lumicontainer.cache.store import Cache
from lumicontainer.image.squashfs import pack_as_root
from lumicontainer.registry.image_name import ImageName, parse_repository
from lumicontainer.registry.registry_cache import RegistryCache
from lumicontainer.registry.send_objects import SentObjects, send_objects
from lumicontainer.system.connections import Connections
from lumicontainer.system.terminal.progress import Progress

from .server import Registry


def put_layer(store: Cache, folder: Path, key: str = "base", text: str = "hello") -> Entry:
    """Store a real layer as a build does."""
    tree = folder / f"tree-{key}"
    tree.mkdir()
    (tree / "greeting").write_text(text)
    draft = store.draft(object_name(key, ""))
    pack_as_root(tree, draft / LAYER, "zstd")
    (draft / "files.json").write_text("{}\n")
    about = {"key": key, "parent": "", "step": key, "kind": "layer", "inputs": {}}
    return store.store(draft, about)


def reference(registry: Registry) -> ImageName:
    return parse_repository(f"oci://{registry.host}/team/cache", "--cache-to")


def send(entries: list[Entry], store: Cache, registry: Registry, key: str = "") -> SentObjects:
    with Progress("json") as progress:
        return send_objects(entries, store, reference(registry), key, progress)


def states(sent: SentObjects) -> list[str]:
    return [each.state for each in sent.objects]


def trusting(
    registry: Registry, vouchers: Vouchers | None = None, connections: Connections | None = None
) -> RegistryCache:
    """Return the cache as somebody sees it who trusts all its writers, or these alone."""
    words = (reference(registry), vouchers or Vouchers(), connections)
    return RegistryCache(*words, trusts_writers=vouchers is None)
