"""A package that has no wheel is asked for in the image, and what is answered there is doubted."""

import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.core.lock import LockEntry, faults
from lumicontainer.core.model.source import APT, IMAGE
from lumicontainer.core.plan.plan import make_plan
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.errors import HostError, StepError
from lumicontainer.pinning import sdists
from lumicontainer.pinning.pip import Pip
from lumicontainer.pinning.wheels import Target, Wheel

from ..faults import hostile
from ..packages import write_source, write_wheel
from .test_pin import BASE, DIGEST, Locked, locked, pins, printed, progress, python
from .test_wheels import Offer, offer

__all__ = ["locked", "offer", "printed", "progress"]

Resolve = Callable[..., Resolved]
SHA = "a" * 64
LAYERS = {
    "hello.yaml": "summary: x\nbase: tiny\nlayers: [low, own]\n",
    "layers/tiny/layer.yaml": BASE.replace("IMAGE", DIGEST),
    "layers/low/layer.yaml": "summary: x\nsecrets: [token]\n",
    "layers/low/install.sh": 'cat "$secrets/token" >/dev/null\n',
    "layers/own/layer.yaml": (
        "summary: x\npackages: {apt: [sl], python: [tool==1.0]}\nenvironment: {OWN: 'yes'}\n"
    ),
    "layers/own/install.sh": "false\n",
}
PINS = {
    "tiny": [LockEntry(IMAGE, DIGEST, pin=DIGEST)],
    "own": [
        LockEntry(APT, "sl", pin="sl=5.02-1+b1"),
        LockEntry(APT, "ncurses", pin="ncurses=6.4-4"),
    ],
}


@pytest.fixture
def source(tmp_path: Path, offer: Offer) -> Path:
    """Offer a package as a source alone, which nothing here builds."""
    text = b'[build-system]\nrequires = []\nbuild-backend = "no_such_backend.api"\n'
    path = tmp_path / "wheels/tool-1.0.tar.gz"
    with tarfile.open(path, "w:gz") as file:
        info = tarfile.TarInfo("tool-1.0/pyproject.toml")
        info.size = len(text)
        file.addfile(info, io.BytesIO(text))
    return path


def report(**changes: Any) -> bytes:
    """Return a report of pip's on one source, with changes in it."""
    about = {"name": "tool", "version": "1.0"}
    entry = {"download_info": origin(), "is_direct": False, "metadata": about, **changes}
    return json.dumps({"version": "1", "install": [entry]}).encode()


def origin(sha256: str = SHA, file: str = "tool-1.0.tar.gz") -> dict[str, Any]:
    return {"url": f"file:///x/{file}", "archive_info": {"hashes": {"sha256": sha256}}}


def test_the_image_that_asks_has_what_its_layer_needs(resolved: Resolve) -> None:
    asks = sdists.asking(resolved(LAYERS), "own", ["tool==1.0"], PINS)
    low, own, _ = make_plan(asks, ()).steps
    assert (low.name, own.name) == ("low", "own")
    assert "install --no-install-recommends ncurses=6.4-4 sl=5.02-1+b1\n" in own.program
    assert "pip install --dry-run --no-input --report" in own.program
    assert "\ntool==1.0\n" in own.program
    assert "export OWN=yes" in own.program
    assert "\nfalse\n" not in own.program


def test_a_layer_below_without_its_secret_says_so(resolved: Resolve) -> None:
    asks = sdists.asking(resolved(LAYERS), "own", ["tool==1.0"], PINS)
    low, *_ = make_plan(asks, ()).steps
    without = sdists.without_secrets(low)
    assert (low.secrets, without.secrets) == (("token",), ())
    assert without.key == low.key
    assert "hint: lumicontainer build --secret id=token" in without.program


def test_nothing_is_made_of_what_is_open(resolved: Resolve) -> None:
    base = LockEntry(IMAGE, DIGEST, open="its registry did not return its digest")
    with pytest.raises(HostError, match=f"{DIGEST} of 'tiny' is open"):
        sdists.asking(resolved(LAYERS), "own", ["tool==1.0"], {**PINS, "tiny": [base]})


def test_a_report_gives_a_pin_with_the_hash_of_the_source() -> None:
    (pin,) = sdists.read(report())
    assert pin.line == f"tool==1.0 --hash=sha256:{SHA}"
    assert pin.file == "tool-1.0.tar.gz"


@pytest.mark.parametrize(
    "forged",
    [
        report(metadata={"name": "tool\n--index-url=https://a.example/", "version": "1.0"}),
        report(metadata={"name": "tool", "version": "1.0\n--index-url=https://a.example/"}),
        report(metadata={"name": "tool", "version": "1.0 --hash=sha256:0"}),
        report(metadata={"name": ["tool"], "version": "1.0"}),
        report(metadata={}),
        report(metadata=None),
        report(download_info=origin("0" * 63)),
        report(download_info=origin(f"{SHA}\n")),
        report(download_info=origin(file="a%0Ab.tar.gz")),
        report(download_info={"url": 1}),
        report(download_info=[]),
        b"{}",
        b'{"install": 1}',
        b"\xff",
        b"[" * 100_000,
    ],
    ids=str,
)
def test_a_report_that_code_of_a_source_forged_is_refused(forged: bytes) -> None:
    with pytest.raises(HostError, match="an invalid report of pip"):
        sdists.read(forged)


@pytest.mark.parametrize("file", ["scm-8.0-py3-none-any.whl", "scm-8.0.tar.gz"])
def test_the_packages_that_build_a_source_are_wheels(file: str) -> None:
    about = {"name": "scm", "version": "8.0"}
    answer = json.loads(report(metadata=about, download_info=origin(file=file)))
    files = {"report.json": report(), "builds.json": json.dumps({"Tool": answer}).encode()}
    if file.endswith(".whl"):
        (tool,) = sdists.read_answer("own", files)
        assert [each.line for each in tool.built_with] == [f"scm==8.0 --hash=sha256:{SHA}"]
    else:
        with pytest.raises(HostError, match="an invalid report of pip"):
            sdists.read_answer("own", files)


@pytest.mark.parametrize("forged", [b"[]", b"{", b'{"tool": 1}', b'{"tool": {"install": 1}}'])
def test_a_list_of_packages_for_builds_that_code_forged_is_refused(forged: bytes) -> None:
    with pytest.raises(HostError, match="an invalid report of pip"):
        sdists.read_answer("own", {"report.json": report(), "builds.json": forged})


def test_a_url_that_a_source_needs_is_refused() -> None:
    with pytest.raises(HostError, match="needs 'tool' by its URL, which nothing pins"):
        sdists.read(report(is_direct=True))


def test_what_builds_a_source_and_is_not_there_is_named(source: Path) -> None:
    words = ["install", "--dry-run", "--no-build-isolation", "--ignore-installed", "tool==1.0"]
    done = subprocess.run(
        [sys.executable, "-m", "pip", *words], capture_output=True, text=True, check=False
    )
    assert done.returncode
    what = "a source is built with 'no_such_backend', and no layer below 'own' has it"
    assert sdists.refused("own", done.stderr).what == what


def ask_pip(folder: Path, line: str) -> dict[str, bytes]:
    """Run the script of the layer on this host, with sources of these tests; return its files."""
    (folder / "wheels-left").mkdir()
    for name, script in sdists.SCRIPTS.items():
        (folder / name).write_bytes(script.read_bytes())
    (folder / "lumicontainer-wanted.txt").write_text(f"{line}\n")
    search = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    # The cache of pip may have a wheel of a source that lay at the same place.
    own = {"wheels": str(folder / "wheels-left"), "PIP_CACHE_DIR": str(folder / "cache")}
    environment = {**os.environ, **own, "PATH": search}
    subprocess.run(["bash", "ask-pip.sh"], cwd=folder, env=environment, check=True)
    return {each.name: each.read_bytes() for each in (folder / "wheels-left").iterdir()}


@pytest.mark.parametrize("helper", ["a wheel", "a source", "nothing"])
def test_a_source_is_asked_in_isolation_if_wheels_can_build_it(
    tmp_path: Path, offer: Offer, helper: str
) -> None:
    write_source(tmp_path / "wheels", "tool", "1.0", module="json")
    if helper == "a wheel":
        offer("helper", "2.0")
    elif helper == "a source":
        write_source(tmp_path / "wheels", "helper", "2.0", module="json")
    (tool,) = sdists.read_answer("own", ask_pip(tmp_path, "tool"))
    assert (tool.name, tool.version) == ("tool", "1.0")
    wheels = ["helper-2.0-py3-none-any.whl"] if helper == "a wheel" else []
    assert [each.file for each in tool.built_with] == wheels


@pytest.mark.parametrize("has", [True, False])
def test_a_source_is_built_with_the_pytorch_of_the_image(
    tmp_path: Path, offer: Offer, monkeypatch: pytest.MonkeyPatch, has: bool
) -> None:
    write_source(tmp_path / "wheels", "tool", "1.0", module="json", built_with="torch")
    offer("torch", "2.0")
    if has:
        (tmp_path / "below").mkdir()
        (tmp_path / "below/torch.py").touch()
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "below"))
    (tool,) = sdists.read_answer("own", ask_pip(tmp_path, "tool"))
    assert bool(tool.built_with) == (not has)


def test_an_older_version_does_not_stand_in_for_a_source_that_pip_cannot_read(
    tmp_path: Path, offer: Offer
) -> None:
    """Without its own tools, such as setuptools-scm, a source may state another version."""
    hostile.write_source(tmp_path / "wheels", "").rename(tmp_path / "wheels/evil-2.0.tar.gz")
    write_wheel(tmp_path / "wheels", "evil", "0.9")
    words = ["install", "--dry-run", "--no-build-isolation", "--ignore-installed", "evil"]
    path = tmp_path / "report.json"
    command = [sys.executable, "-m", "pip", *words, "--report", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    files = {"report.json": path.read_bytes(), "why": (done.stdout + done.stderr).encode()}
    with pytest.raises(HostError, match="pip cannot read the requirements of a source"):
        sdists.read_answer("own", files)
    assert sdists.read_answer("own", {"report.json": report(), "why": b"WARNING: x"})


def test_pip_says_without_code_whether_there_is_a_source(
    offer: Offer, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offer("lib", "1.0")
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    pip = Pip(Target("3.11"))
    requirements = ["tool==1.0", "tool>=0.9,<2", "tool==2.0", "lib", "lost"]
    assert [each for each in requirements if pip.has_source(each)] == requirements[:2]
    assert not [*(tmp_path / "temporary").iterdir()]


def test_what_the_image_answers_is_pinned(
    locked: Locked, offer: Offer, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layers = []

    def answer(plan: Any, *_: object) -> list[Wheel]:
        layers.append(plan.resolved.layers[-1].name)
        urls = {name: f"file:///x/{name}-1.0.tar.gz" for name in ("tool", "deep")}
        return [Wheel(name, "1.0", SHA, url) for name, url in urls.items()]

    monkeypatch.setattr(sdists, "ask", answer)
    offer("lib", "1.5", "deep")
    requirements = {"one": "tool==1.0", "two": "lib==1.5"}
    lock, resolution = locked(
        {f"{name}/layer.yaml": python(text) for name, text in requirements.items()}
    )
    assert layers == ["one"]
    assert pins(lock, "one") == {"tool==1.0": "tool==1.0", "(deep)": "deep==1.0"}
    assert pins(lock, "two") == {"lib==1.5": "lib==1.5"}
    assert lock.of("one")[0].pin == f"tool==1.0 --hash=sha256:{SHA}"
    assert faults(lock, resolution) == []


def test_a_source_that_a_wheel_needs_is_asked_for_in_the_image(
    locked: Locked, offer: Offer, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sdists, "ask", lambda *_: [Wheel("outer", "1.0", SHA, "file:///x/o")])
    offer("outer", "1.0", "tool>=1")
    lock, _ = locked({"one/layer.yaml": python("outer==1.0")})
    assert pins(lock, "one") == {"outer==1.0": "outer==1.0"}


@pytest.mark.parametrize("error", [HostError, StepError])
def test_what_the_image_does_not_answer_is_open_with_the_reason(
    locked: Locked, source: Path, monkeypatch: pytest.MonkeyPatch, error: type[HostError]
) -> None:
    def fail(*_: object) -> list[Wheel]:
        raise error(sdists.Problem("it went wrong", hint="do this"))

    monkeypatch.setattr(sdists, "ask", fail)
    lock, _ = locked({"one/layer.yaml": python("tool==1.0")})
    hint = "do this" if error is HostError else "lock it once more to see why"
    assert lock.of("one")[0].open == f"tool==1.0 has no wheel; it went wrong; {hint}"


def test_what_a_script_installs_is_open_with_what_to_do(locked: Locked, source: Path) -> None:
    layers = {"one/layer.yaml": "summary: x\n", "one/tools.txt": "tool==1.0\n"}
    lock, _ = locked({**layers, "one/install.sh": "pip install --requirement tools.txt\n"})
    (entry,) = lock.of("one")
    assert entry.open.startswith("tool==1.0 has no wheel; a script of the layer reads 'tools.txt'")
    assert entry.open.endswith("name it in 'packages: python' of layer.yaml")
