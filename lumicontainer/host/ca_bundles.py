"""The CA bundles of the host that a container needs.

Engines pass on the variables that name a bundle, but not its file. In the container the path is
missing, or is a bundle of the image without the site's CA. So each file is bound read-only at a
separate path, which its variables name.
"""

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from lumicontainer.constants import ENGINE_PREFIXES
from lumicontainer.engines.engine import DIVIDERS
from lumicontainer.host.host_libraries import Mount
from lumicontainer.host.site import is_bundle

FOLDER = "/opt/lumicontainer/trust"
VARIABLES = (
    *("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "PIP_CERT", "GIT_SSL_CAINFO"),
    *("NODE_EXTRA_CA_CERTS", "AWS_CA_BUNDLE", "CARGO_HTTP_CAINFO"),
    *("CLOUDSDK_CORE_CUSTOM_CA_CERTS_FILE", "DENO_CERT", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
    *("HTTPLIB2_CA_CERTS", "JULIA_SSL_CA_ROOTS_PATH", "NIX_SSL_CERT_FILE"),
)
"""Variables that programs read for the path of a bundle."""


class Trust(NamedTuple):
    """Hold the files to bind, and the variables that name them in the container."""

    mounts: tuple[Mount, ...] = ()
    variables: Mapping[str, str] = {}


def trust_of(environment: Mapping[str, str]) -> Trust:
    """Return the binds and variables for the bundles that an environment names.

    A variable is left out if the user set another value for the container, or if its path is not a
    file of this host: ``REQUESTS_CA_BUNDLE`` may be a folder, too. Raises ``HostError`` for a file
    that the user may not read.
    """
    named = {"PIP_CERT": pip_cert(environment), **environment}
    files = {
        name: os.path.realpath(named[name])
        for name in VARIABLES
        if _can_be_bound(named.get(name, ""), name)
        # A value for the container is a path of the container.
        and not any(f"{prefix}ENV_{name}" in environment for prefix in ENGINE_PREFIXES)
    }
    # Programs derive the format of a file from its suffix.
    each_once = enumerate(dict.fromkeys(files.values()), 1)
    places = {file: f"{FOLDER}/ca-{number}{Path(file).suffix}" for number, file in each_once}
    why = "the CA bundle of this host"
    mounts = tuple(Mount(file, place, why, mode="ro") for file, place in places.items())
    return Trust(mounts, {name: places[file] for name, file in files.items()})


def pip_cert(environment: Mapping[str, str]) -> str:
    """Return the bundle that the user's configuration of pip names, else an empty text.

    pip in a container reads the same configuration, because the home folder is bound. Of several
    files the last one wins (pip's documentation, "Configuration files").
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


def _can_be_bound(path: str, name: str) -> bool:
    real = os.path.realpath(path) if path else ""
    return is_bundle(real, name) and not any(sign in real for sign in DIVIDERS)
