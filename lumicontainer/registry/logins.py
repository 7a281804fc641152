"""Find the login of a registry where Apptainer, Podman and Docker keep it.

Their files have one format (docker-config.json(5), containers-auth.json(5)). A helper program
answers in place of the file that names it, as ``docker-credential-NAME get``.
"""

import base64
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from lumicontainer.errors import HostError, Problem
from lumicontainer.host.transfers import NO_LOGIN, Login, json_object
from lumicontainer.registry.image_name import ImageName
from lumicontainer.system import budget, process
from lumicontainer.system.files.regular import open_regular
from lumicontainer.system.terminal import masking

_HUB_KEY = "https://index.docker.io/v1/"
"""The name of Docker Hub in the files of Docker."""
_LARGEST = 1 << 20
_SHORTEST = 6
"""Characters of a secret that no other word of a message has by chance."""
_VARIABLES = (
    ("APPTAINER_DOCKER_USERNAME", "APPTAINER_DOCKER_PASSWORD"),
    ("SINGULARITY_DOCKER_USERNAME", "SINGULARITY_DOCKER_PASSWORD"),
)
_TOKEN_USER = "<token>"  # noqa: S105 - helpers write this name for a token
_MISSING = "credentials not found"
"""The words of a helper that has no login for a registry."""


def find_login(reference: ImageName) -> Login:
    """Return the user's login for a registry; ``NO_LOGIN`` if nothing has one.

    Raises ``HostError`` if a helper program fails.
    """
    for user, password in _VARIABLES:
        if os.environ.get(user) and os.environ.get(password):
            login = Login(os.environ[user], os.environ[password])
            return _hide(login._replace(server=reference.server))
    for file in login_files():
        if (login := _login_of(file, reference)) != NO_LOGIN:
            return _hide(login._replace(server=reference.server))
    return NO_LOGIN


def login_files() -> Iterator[Path]:
    """Yield the files of logins, that of the first engine first."""
    home = Path(os.environ.get("HOME") or "/nonexistent")
    for name in ("APPTAINER", "SINGULARITY"):
        folder = os.environ.get(f"{name}_CONFIGDIR") or home / f".{name.lower()}"
        yield Path(folder) / "docker-config.json"
    if named := os.environ.get("REGISTRY_AUTH_FILE"):
        yield Path(named)
    yield Path(
        os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}", "containers/auth.json"
    )
    yield Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config", "containers/auth.json")
    yield Path(os.environ.get("DOCKER_CONFIG") or home / ".docker", "config.json")


def _hide(login: Login) -> Login:
    secrets = (login.password, login.token, login.basic.removeprefix("Basic "))
    masking.hide(each for each in secrets if len(each) >= _SHORTEST)
    return login


def _login_of(file: Path, reference: ImageName) -> Login:
    content = b""
    with suppress(OSError), open_regular(file) as stream:
        content = stream.read(_LARGEST)
    settings = json_object(content)
    helpers, logins = settings.get("credHelpers"), settings.get("auths")
    for name in _names(reference):
        if isinstance(helpers, dict) and isinstance(helpers.get(name), str):
            return _ask_helper(helpers[name], name, file)
        row = logins.get(name) if isinstance(logins, dict) else None
        if isinstance(row, dict) and (login := _read_login(row)) != NO_LOGIN:
            return login
    store = settings.get("credsStore")
    if isinstance(store, str) and store:
        for name in _names(reference):
            if (login := _ask_helper(store, name, file)) != NO_LOGIN:
                return login
    return NO_LOGIN


def _names(reference: ImageName) -> Iterator[str]:
    """Yield the names that a registry may have in a file, the longest first.

    Podman keeps logins of a part of a registry, such as ``quay.io/project``.
    """
    parts = [reference.host, *reference.name.split("/")]
    yield from ("/".join(parts[:number]) for number in range(len(parts), 0, -1))
    yield from (f"https://{reference.host}", f"https://{reference.host}/v2/")
    if reference.host != reference.server:
        yield _HUB_KEY


def _read_login(row: Mapping[str, Any]) -> Login:
    token, pair = row.get("identitytoken"), row.get("auth")
    if isinstance(token, str) and token:
        return Login(token=token)
    user, password = row.get("username"), row.get("password")
    if isinstance(pair, str) and pair:
        with suppress(ValueError):
            user, _, password = base64.b64decode(pair).decode().partition(":")
    if isinstance(user, str) and isinstance(password, str) and user:
        return Login(user, password.rstrip("\0"))
    return NO_LOGIN


def _ask_helper(name: str, server: str, file: Path) -> Login:
    program = f"docker-credential-{name}"
    if "/" in name or process.find(program) is None:
        hint = f"install {program}, or take it out of the file"
        raise HostError(Problem(f"cannot read a login: {program} not found", str(file), hint=hint))
    done = process.in_new_session([program, "get"], stdin=server.encode(), limits=budget.QUESTION)
    if done.returncode:
        if _MISSING in done.stdout + done.stderr:
            return NO_LOGIN
        why = (done.stderr or done.stdout).strip()
        raise HostError(
            Problem(f"{program} cannot read a login", str(file), why, f"{program} list")
        )
    with suppress(ValueError, KeyError, TypeError):
        answer = json.loads(done.stdout)
        user, secret = str(answer["Username"]), str(answer["Secret"])
        return Login(token=secret) if user == _TOKEN_USER else Login(user, secret)
    why = "its answer has no user and no secret"
    raise HostError(Problem(f"{program} cannot read a login", str(file), why, f"{program} list"))
