"""What a container needs to trust what this host trusts: the CA bundles that variables name.

Engines hand such variables on, and their files stay behind: in the container the path is missing,
or is a bundle of the image's that lacks the site's own CA. So each file is seen read-only at a
place of its own, and its variables name that place.
"""

from __future__ import annotations

import configparser
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from lumicontainer.host.host_libraries import Mount

FOLDER = "/opt/lumicontainer/trust"
VARIABLES = (
    "SSL_CERT_FILE",
    "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE",
    "PIP_CERT",
    "GIT_SSL_CAINFO",
    "NODE_EXTRA_CA_CERTS",
    "AWS_CA_BUNDLE",
    "CARGO_HTTP_CAINFO",
    "CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE",
    "DENO_CERT",
    "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH",
    "HTTPLIB2_CA_CERTS",
    "JULIA_SSL_CA_ROOTS_PATH",
    "NIX_SSL_CERT_FILE",
)
"""Variables by which programs are told of a bundle, as a path of a file."""
_PREFIXES = ("APPTAINERENV_", "SINGULARITYENV_")
"""What begins the names of variables that are meant for the container, by a path in it."""
_DIVIDERS = ",:"
"""What no option of an engine can hold in a path."""


class Trust(NamedTuple):
    """Hold the files to bind, and the variables that name them in the container."""

    mounts: tuple[Mount, ...] = ()
    variables: Mapping[str, str] = {}


def trust_of(environment: Mapping[str, str]) -> Trust:
    """Return what carries the bundles that an environment names into a container.

    A variable is left alone where the user gave the container a value of its own, or its path is
    no file of this host: ``REQUESTS_CA_BUNDLE`` may be a folder, too.
    """
    named = {"PIP_CERT": pip_cert(environment), **environment}
    files = {
        name: os.path.realpath(named[name])
        for name in VARIABLES
        if _is_bundle(named.get(name, ""))
        and not any(f"{prefix}{name}" in environment for prefix in _PREFIXES)
    }
    places = _places(dict.fromkeys(files.values()))
    mounts = tuple(
        Mount(file, place, "the CA bundle of this host", mode="ro")
        for file, place in places.items()
    )
    return Trust(mounts, {name: places[file] for name, file in files.items()})


def pip_cert(environment: Mapping[str, str]) -> str:
    """Return the bundle that the user's configuration of pip names; empty where it names none.

    pip in a container reads it too, for the home folder is seen there. Of several files the last
    one wins (pip's documentation, "Configuration files").
    """
    home = environment.get("HOME", "")
    folder = environment.get("XDG_CONFIG_HOME") or f"{home}/.config"
    own = [f"{home}/.pip/pip.conf", f"{folder}/pip/pip.conf"] if home else []
    parser = configparser.RawConfigParser()
    try:
        parser.read([*own, environment.get("PIP_CONFIG_FILE", "")], encoding="utf-8")
        return parser.get("global", "cert", fallback="")
    except (configparser.Error, OSError, UnicodeDecodeError):
        return ""


def _is_bundle(path: str) -> bool:
    real = os.path.realpath(path) if path else ""
    return bool(real) and Path(real).is_file() and not any(sign in real for sign in _DIVIDERS)


def _places(files: Iterable[str]) -> dict[str, str]:
    """Return where each file is seen; programs tell by the ending what a file holds."""
    return {
        file: f"{FOLDER}/ca-{number}{Path(file).suffix}" for number, file in enumerate(files, 1)
    }
