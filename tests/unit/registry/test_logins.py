"""A login comes from where Apptainer, Podman and Docker keep it."""

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.errors import HostError
from lumicontainer.host.transfers import NO_LOGIN, Login
from lumicontainer.registry.image_name import parse_image_name
from lumicontainer.registry.logins import find_login

NAME = parse_image_name("oci://h.org/team/image:1")
MINE = Login("me", "pass:word", server="h.org")
AUTH = base64.b64encode(b"me:pass:word").decode()


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give the user a home folder without logins."""
    for name in (
        *("APPTAINER_CONFIGDIR", "SINGULARITY_CONFIGDIR", "REGISTRY_AUTH_FILE", "DOCKER_CONFIG"),
        *("XDG_CONFIG_HOME", "APPTAINER_DOCKER_USERNAME", "SINGULARITY_DOCKER_USERNAME"),
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))
    return tmp_path


def write(path: Path, **content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def logins(name: str, **row: str) -> dict[str, Any]:
    return {"auths": {name: row or {"auth": AUTH}}}


@pytest.mark.parametrize(
    "file",
    [
        *(".apptainer/docker-config.json", ".singularity/docker-config.json"),
        *("run/containers/auth.json", ".config/containers/auth.json", ".docker/config.json"),
    ],
)
def test_each_program_keeps_logins_in_a_file(home: Path, file: str) -> None:
    write(home / file, **logins("h.org"))
    assert find_login(NAME) == MINE


@pytest.mark.parametrize("name", ["h.org", "https://h.org", "h.org/team", "h.org/team/image"])
def test_a_login_is_of_a_registry_or_of_a_part_of_it(home: Path, name: str) -> None:
    write(home / ".docker/config.json", **logins(name))
    assert find_login(NAME) == MINE


@pytest.mark.parametrize("name", ["h.org:5000", "other.org", "h.org/tea", "org"])
def test_the_login_of_another_registry_is_not_sent(home: Path, name: str) -> None:
    write(home / ".docker/config.json", **logins(name))
    assert find_login(NAME) == NO_LOGIN


def test_docker_hub_has_a_special_name(home: Path) -> None:
    write(home / ".docker/config.json", **logins("https://index.docker.io/v1/"))
    login = find_login(parse_image_name("oci://docker.io/me/image:1"))
    assert login == MINE._replace(server="registry-1.docker.io")


def test_a_token_stands_for_user_and_password(home: Path) -> None:
    write(home / ".docker/config.json", **logins("h.org", identitytoken="t", auth=AUTH))
    assert find_login(NAME) == Login(token="t", server="h.org")


def test_the_variables_of_the_engine_come_first(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(home / ".docker/config.json", **logins("h.org"))
    monkeypatch.setenv("APPTAINER_DOCKER_USERNAME", "other")
    monkeypatch.setenv("APPTAINER_DOCKER_PASSWORD", "secret")
    assert find_login(NAME) == Login("other", "secret", server="h.org")


@pytest.mark.parametrize(
    "content", [b"", b"[]", b"\xff", b'{"auths": []}', b'{"auths": {"h.org": 1}}']
)
def test_a_file_in_another_form_has_no_login(home: Path, content: bytes) -> None:
    write(home / ".docker/config.json")
    (home / ".docker/config.json").write_bytes(content)
    assert find_login(NAME) == NO_LOGIN


def helper(home: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Install the helper program ``test`` of logins."""
    program = home / "bin/docker-credential-test"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\nread -r server\n{script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")


@pytest.mark.slow
@pytest.mark.parametrize("key", ["credsStore", "credHelpers"])
def test_a_helper_program_has_the_login(
    home: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    settings = {"credsStore": "test", "credHelpers": {"h.org": "test"}}
    write(home / ".docker/config.json", **{key: settings[key]})
    answer = """[ "$1 $server" = "get h.org" ] || { echo credentials not found; exit 1; }"""
    helper(home, monkeypatch, f"""{answer}\necho '{{"Username": "me", "Secret": "pass:word"}}'""")
    assert find_login(NAME) == MINE


@pytest.mark.slow
def test_a_helper_program_that_fails_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(home / ".docker/config.json", credHelpers={"h.org": "test"})
    helper(home, monkeypatch, "echo 'the keyring is locked' >&2; exit 1")
    with pytest.raises(HostError, match=r"(?s)docker-credential-test.*the keyring is locked"):
        find_login(NAME)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["missing", "../../bin/sh"])
def test_a_helper_program_that_is_missing_is_named(home: Path, name: str) -> None:
    write(home / ".docker/config.json", credHelpers={"h.org": name})
    with pytest.raises(HostError, match="cannot read a login: docker-credential-"):
        find_login(NAME)
