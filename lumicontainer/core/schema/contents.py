"""Read what a layer puts into an image: its own part, and what variants and versions add."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lumicontainer.core.model import Bind, Content, PipInstall, Provider, Variant
from lumicontainer.core.schema import readers, validators
from lumicontainer.core.schema.requirements import requirement
from lumicontainer.core.schema.sources import read_sources

image = readers.matching(
    r"[A-Za-z0-9][A-Za-z0-9._/:-]*(@sha256:[0-9a-f]{64})?",
    "an image such as debian:bookworm, with or without @sha256: and 64 hexadecimal digits,",
)
_APT_NAME = r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.](?::[a-z0-9-]*[a-z0-9])?"
_APT_VERSION = r"(?:[0-9]+:)?[0-9](?:[A-Za-z0-9.+~-]*[A-Za-z0-9.+~])?"
"""As Debian's policy has them (5.6.1, 5.6.12), but for a last '-', by which apt removes."""
APT_PIN = f"{_APT_NAME}={_APT_VERSION}"
apt_name = readers.matching(_APT_NAME, "the name of a Debian package, such as libfabric-dev,")
apt_package = readers.matching(
    f"{_APT_NAME}(?:={_APT_VERSION})?",
    "the name of a Debian package, such as make or make=4.3-4.1,",
)
_version = readers.matching(r"[A-Za-z0-9][A-Za-z0-9.+_-]*", 'a version such as "2.1.0"')
_script = readers.matching(
    r"([A-Za-z0-9][A-Za-z0-9._-]*/)*[A-Za-z0-9][A-Za-z0-9._-]*\.sh",
    "a file of the layer's folder such as install-rocm.sh",
)

_pip_install = readers.record(
    "a package of pip_installs",
    {"package": validators.name, "index_parameter": validators.variable},
    required=("package",),
)
_CONTENT: dict[str, readers.Reader[Any]] = {
    "packages": readers.record(
        "packages",
        {
            "apt": readers.sequence(readers.with_place(apt_package)),
            "python": readers.sequence(readers.with_place(requirement)),
        },
    ),
    "apt_repositories": readers.with_place(_script),
    "sources": read_sources,
    "environment": readers.mapping(readers.text, key=validators.constant),
    "path": readers.sequence(validators.absolute),
    "binds": readers.sequence(validators.BIND),
    "host_libraries": readers.sequence(validators.BIND),
    "provides": readers.mapping(readers.line, key=validators.name),
    "apt_versions": readers.mapping(readers.line, key=validators.name),
    "pip_installs": readers.sequence(_pip_install),
}
_VERSION = {**_CONTENT, "docker_image": readers.with_place(image)}
_VERSIONED = {
    **_CONTENT,
    "versions": readers.mapping(readers.record("a version", _VERSION), key=_version),
}
_PROVIDER = {**_VERSIONED, "omit": readers.line}
KEYS = {
    **_VERSIONED,
    "providers": readers.mapping(readers.record("a provider", _PROVIDER), key=validators.name),
}
"""The keys by which a layer, and its variant, says what it puts into an image."""
VARIANT = readers.record(
    "a variant",
    {
        **KEYS,
        "parameters": validators.values,
        "requires": readers.sequence(readers.with_place(validators.name)),
        "omit": readers.line,
        "install": readers.with_place(_script),
        "compile": readers.with_place(_script),
    },
)


def content(values: Mapping[str, Any]) -> Content:
    """Return the content that a record of these keys says."""
    packages = values.get("packages", {})
    return Content(
        apt=tuple(word for word, _ in packages.get("apt", ())),
        apt_repositories=values.get("apt_repositories", ("",))[0],
        python=tuple(word for word, _ in packages.get("python", ())),
        places={word: place for each in packages.values() for word, place in each or ()},
        sources=values.get("sources", ()),
        environment=values.get("environment", {}),
        path=values.get("path", ()),
        image=values.get("docker_image", ("",))[0],
        binds=binds(values.get("binds", ())),
        host_libraries=binds(values.get("host_libraries", ())),
        provides=values.get("provides", {}),
        apt_versions=values.get("apt_versions", {}),
        pip_installs=tuple(PipInstall(**row) for row in values.get("pip_installs", ()) if row),
    )


def names_of(values: Mapping[str, Any], key: str) -> tuple[str, ...]:
    """Return the names that stand under a key, without their places."""
    return tuple(name for name, _ in values.get(key, ()))


def binds(rows: tuple[dict[str, str], ...]) -> tuple[Bind, ...]:
    """Return the binds that rows of them say."""
    return tuple(Bind(**row) for row in rows)


def versions(values: Mapping[str, Any]) -> dict[str, Content]:
    """Return what each version adds."""
    return {key: content(each) for key, each in values.get("versions", {}).items()}


def providers(values: Mapping[str, Any]) -> dict[str, Provider]:
    """Return what each provider adds, in the order in which they are written."""
    named = values.get("providers", {})
    return {
        key: Provider(content(each), versions(each), each.get("omit", ""))
        for key, each in named.items()
    }


def variant(values: Mapping[str, Any]) -> Variant:
    """Return the variant that a record says."""
    return Variant(
        content(values),
        versions=versions(values),
        providers=providers(values),
        parameters=values.get("parameters", {}),
        requires=names_of(values, "requires"),
        omit=values.get("omit", ""),
        install=values.get("install", ("",))[0],
        compile=values.get("compile", ("",))[0],
    )
