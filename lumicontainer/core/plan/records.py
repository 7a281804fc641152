"""Record the contents of an image in files below /opt/lumicontainer."""

import json
from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

from lumicontainer.core.model import Bind, Check, CheckNeeds, LayerFile, Platform
from lumicontainer.core.model.check import FOLDER, IMAGE
from lumicontainer.core.model.source import python_packages
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer


def record_files(resolved: Resolved) -> Iterable[LayerFile]:
    """Yield the records of an image: recipe, resolved values, checks of its layers."""
    yield LayerFile("recipe.yaml", 0o644, resolved.recipe.text.encode())
    yield _json_file("resolved.json", resolved_record(resolved))
    # Each rank reads it, so it is left out if it would say nothing.
    tables = platform_tables(resolved.platform)
    if tables:
        versions = dict(pair for each in resolved.included() for pair in _versions(each))
        head = {"name": resolved.platform.name, "accelerator": resolved.platform.accelerator}
        needs = {
            "profile": resolved.profile.name if resolved.profile else "",
            "binds": [bind.path for bind in resolved.binds()],
            "host_libraries": [each.path for each in resolved.host_libraries()],
        }
        yield _json_file(
            "platform.json", {**head, **tables, **_without_empty(needs), "layers": versions}
        )
    if resolved.drivers:
        yield _json_file("drivers.json", resolved.drivers)
    yield from _check_files(resolved)


def _check_files(resolved: Resolved) -> Iterable[LayerFile]:
    owners = {IMAGE: resolved.checks, **{each.name: each.checks for each in resolved.included()}}
    for owner, checks in owners.items():
        for file in checks.files:
            yield file._replace(name=_installed(owner, file))
    rows = [_check_row(owner, each) for owner, checks in owners.items() for each in checks.each]
    yield _json_file("checks.json", rows)


def _installed(owner: str, file: LayerFile) -> str:
    return f"{FOLDER}{owner}/{file.name.removeprefix(FOLDER)}"


def _check_row(owner: str, check: Check) -> dict[str, Any]:
    """Return the keys of a check that are set, as plain data."""
    row = {name: value for name, value in check._asdict().items() if value is not False}
    row["file"] = _installed(owner, check.file)
    needs, without = check.needs._asdict(), CheckNeeds()._asdict()
    row["needs"] = {name: value for name, value in needs.items() if value != without[name]}
    row["thresholds"] = {
        name: {key: value for key, value in each._asdict().items() if value not in (None, "")}
        for name, each in check.thresholds.items()
    }
    return _without_empty(row)


def _versions(layer: ResolvedLayer) -> Iterable[tuple[str, Any]]:
    yield layer.name, layer.values().get("version", "")
    yield from layer.content.provides.items()


def _json_file(name: str, value: Any) -> LayerFile:
    return LayerFile(name, 0o644, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def platform_tables(platform: Platform) -> dict[str, Any]:
    """Return what lumi-entry needs of a platform, as plain data; what it does not say is not there.

    Shape: ``gpus`` (in the order of ROCr), ``interface_prefix``, ``variables``,
    ``discouraged``, ``advised``, ``caches``.
    """
    tables = {
        "gpus": [_without_empty(each._asdict()) for each in platform.gpus],
        "interface_prefix": platform.interface_prefix,
        "variables": [_without_empty(each._asdict()) for each in platform.variables],
        "discouraged": [_without_empty(each._asdict()) for each in platform.discouraged],
        "advised": [_without_empty(each._asdict()) for each in platform.advised],
        "caches": [each._asdict() for each in platform.caches],
    }
    return _without_empty(tables)


def _without_empty(values: Mapping[str, Any]) -> dict[str, Any]:
    filled = {key: value for key, value in values.items() if value not in ("", [], (), {})}
    return {key: list(v) if isinstance(v, tuple) else v for key, v in filled.items()}


def resolved_record(resolved: Resolved) -> dict[str, Any]:
    """Return the resolved values as plain data; no path of the build machine is in it."""
    layers = {layer.name: _layer_record(layer) for layer in resolved.included()}
    bootstrap = resolved.bootstrap
    image = {} if bootstrap.by_debootstrap else {"image": bootstrap.image}
    return {
        "recipe": resolved.recipe.name,
        "summary": resolved.recipe.summary,
        "platform": {"name": resolved.platform.name, "accelerator": resolved.platform.accelerator},
        "base": {"agent": bootstrap.agent, "release": bootstrap.release, **image},
        "layers": layers,
        "omitted": {layer.name: layer.omitted for layer in resolved.layers if layer.omitted},
        **_without_empty(_of_the_host(resolved)),
    }


def _of_the_host(resolved: Resolved) -> dict[str, Any]:
    return {
        "profile": resolved.profile.name if resolved.profile else "",
        "binds": [_bind_record(bind) for bind in resolved.binds()],
        "host_libraries": [_bind_record(each) for each in resolved.host_libraries()],
    }


def _bind_record(bind: Bind) -> dict[str, Any]:
    return _without_empty({"path": bind.path, "reason": bind.reason, "source": bind.source})


def _layer_record(layer: ResolvedLayer) -> dict[str, Any]:
    # Sorted: the order in which a document names them decides nothing.
    settings = sorted(layer.settings, key=lambda setting: setting.name)
    return {
        "parameters": {s.name: s.value for s in settings if s.name != "version"},
        "origins": {s.name: s.origin for s in settings},
        "version": layer.values().get("version"),
        "environment": dict(sorted(layer.content.environment.items())),
        **_without_empty(
            {
                "provides": dict(sorted(layer.content.provides.items())),
                "path": layer.content.path,
                "prepend": {name: [*each] for name, each in sorted(layer.content.prepend.items())},
                "packages": _without_empty(
                    {"apt": layer.content.apt, "python": list(_python(layer))}
                ),
            }
        ),
    }


def _python(layer: ResolvedLayer) -> Iterable[str]:
    """Yield each Python package of a layer, as name==version if its version is known."""
    content = layer.content
    yield from content.python
    built = (each.source[-1:] for each in content.built)
    for line in chain(content.locked, *content.indexed.values(), *built):
        yield line.partition(" --hash=")[0].strip()
    version = layer.values().get("version", "")
    yield from map("==".join, python_packages(content.sources, version))
    yield from (f"{each.package}=={version}" for each in content.pip_installs)
