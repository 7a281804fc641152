"""Images and containers of a daemon are found, whole, and removed."""

import json
import os
import tarfile
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import docker
import pytest

from lumicontainer.errors import HostError, LumicontainerError, SpaceError
from lumicontainer.host.docker import container
from lumicontainer.host.docker.base import BaseSpec, make
from lumicontainer.host.docker.daemon import LABEL, own_label, read_imported_id, remove_leftovers
from lumicontainer.host.docker.image import ImageSpec, import_image
from lumicontainer.sandbox.runtimes.docker import Docker


class Daemon:
    """Record what a daemon is asked for."""

    def __init__(self, *components: str) -> None:
        self.requests: list[Any] = []
        self._components = [{"Name": each} for each in components]
        self.api = SimpleNamespace(import_image_from_file=self._load, tag=self._tag)

    def version(self) -> dict[str, Any]:
        return {"Components": self._components}

    def _load(self, _: str, **named: Any) -> str:
        self.requests.append((named.get("repository"), named.get("tag")))
        return '{"status": "loading"}\n{"status": "sha256:1"}'

    def _tag(self, *words: str) -> None:
        self.requests.append(words)


@pytest.mark.parametrize(
    ("engine", "name", "requests"),
    [
        ("Engine", "pytorch:2.13", [("pytorch", "2.13")]),
        ("Engine", "a/pytorch", [("a/pytorch", "latest")]),
        ("Engine", "", [(None, None)]),
        ("Podman Engine", "pytorch:2.13", [(None, None), ("sha256:1", "pytorch", "2.13")]),
    ],
)
def test_docker_names_an_image_in_the_request_that_makes_it(
    engine: str, name: str, requests: list[Any]
) -> None:
    daemon = Daemon(engine)
    assert import_image(daemon, "image.tar", ImageSpec("image.sif", "", name, {})) == "sha256:1"
    assert daemon.requests == requests


@pytest.mark.parametrize(
    ("printed", "error", "why"),
    [
        ("", HostError, "it answered ''"),
        ('{"status": "loading"}\n["status"]', HostError, "status"),
        ('{"error": "no such thing"}', HostError, "no such thing"),
        ('{"error": "write /a: no space left on device"}', SpaceError, "no space left"),
    ],
)
def test_an_image_that_the_daemon_did_not_make_is_an_error(
    printed: str, error: type[LumicontainerError], why: str
) -> None:
    with pytest.raises(error, match=why):
        read_imported_id(printed)


class Remains:
    """Hold containers and images as the daemon lists them; record which of them are removed."""

    def __init__(self, *labels: str) -> None:
        rows = [{"Id": each, "Labels": {LABEL: each}} for each in labels]
        self.removed: list[str] = []
        self.api = SimpleNamespace(
            containers=lambda **_: rows,
            images=lambda **_: [{"Id": "bare", "Labels": None}],
            remove_container=self._remove,
        )

    def _remove(self, name: str, **_: object) -> None:
        self.removed.append(name)
        raise docker.errors.NotFound("gone", response=SimpleNamespace(status_code=404))


def test_only_what_killed_processes_left_is_removed() -> None:
    """Another build may be faster; anyone may give the label to an image."""
    namespace, pid, started = own_label().split()
    dead = f"{namespace} {pid} {int(started) + 1}"
    remains = Remains(own_label(), f"{namespace} x y", "", f"{namespace} {pid}", dead)
    remove_leftovers(remains)
    assert remains.removed == [dead]


class Exporting:
    """Hold an image whose export is cut after some bytes."""

    def __init__(self, archive: bytes) -> None:
        self.left = 0
        self._archive = archive
        self.containers = SimpleNamespace(create=self._create)
        self.images = SimpleNamespace(get=lambda _: SimpleNamespace(attrs={"Config": None}))

    def _create(self, *_: object, labels: dict[str, str]) -> Any:
        assert labels == {LABEL: own_label()}
        self.left += 1
        return SimpleNamespace(export=lambda: [self._archive], remove=self._remove)

    def _remove(self, **_: object) -> None:
        self.left -= 1


def test_an_export_that_is_cut_is_refused_and_its_container_removed(tmp_path: Path) -> None:
    file = tarfile.TarInfo("a").tobuf()
    spec = BaseSpec(f"x@sha256:{'0' * 64}", "", str(tmp_path))
    whole, cut = Exporting(file + bytes(1024)), Exporting(file)
    assert make(whole, (), spec._asdict()) == 0
    with pytest.raises(HostError, match="has no end"):
        make(cut, (), spec._asdict())
    assert whole.left == cut.left == 0


def test_files_that_cannot_be_moved_out_of_a_container_fail_its_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The layer would lack them."""
    monkeypatch.setattr(container.terminal, "follow", lambda *_, **__: 0)
    made = SimpleNamespace(
        diff=lambda: [{"Path": "/new", "Kind": 1}],
        get_archive=lambda _: ([b"a"], {}),
        remove=lambda **_: None,
    )
    client = SimpleNamespace(containers=SimpleNamespace(create=lambda *_, **__: made))
    statuses = {"rm": 0, "tar": 2}
    inner = container.run

    def run(*words: Any, **named: Any) -> int:
        return statuses[words[2][0]] if words[2][0] in statuses else inner(*words, **named)

    monkeypatch.setattr(container, "run", run)
    monkeypatch.setattr(container, "image_of", lambda *_: nullcontext("image"))
    assert run(client, container.Spec(root=str(tmp_path)), ["true"]) == 2


def test_a_folder_whose_name_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    assert len(container._mounts(container.Spec(root=str(tmp_path)))) == 1
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/odd\xff")).mkdir()
    with pytest.raises(HostError, match=r"cannot mount a folder(?s:.*)odd\\udcff"):
        container._mounts(container.Spec(root=str(tmp_path)))


def test_an_image_is_unpacked_for_its_checks_in_the_folder_of_its_build(tmp_path: Path) -> None:
    """An ordinary user can remove files of root there, because the next build does it as root."""
    command = Docker().check(Path("x.sif"), tmp_path / "sandbox/tree", ["true"], {})
    (spec,) = (json.loads(word) for word in command if word.startswith("{"))
    assert spec["folder"] == str(tmp_path)


def test_the_daemon_does_not_get_the_variables_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It shows them to everyone who may ask it, and keeps them while a container is left."""
    monkeypatch.setenv("HF_TOKEN", "secret")
    got: list[Any] = []

    def create(*_: object, **options: Any) -> Any:
        got.append(options["environment"])
        return SimpleNamespace(remove=lambda **_: None)

    client = SimpleNamespace(containers=SimpleNamespace(create=create))
    with container._container(client, container.on_host(str(tmp_path)), "image", ["true"]):
        (environment,) = got
    assert environment["PATH"] == os.environ["PATH"]
    assert "HF_TOKEN" not in environment
