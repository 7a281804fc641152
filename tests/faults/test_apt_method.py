"""The program before apt's methods ends with apt, whatever apt sends, and however apt ends."""

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

import pytest

from lumicontainer.host.site import read_site, stage_site

from ..programs import run
from ..unit.inside.verify.verifying import awaited

UPSTREAM, MIRROR = "http://upstream.invalid/", "file:///srv/mirror/"
CONFIGURATION = "601 Configuration\nConfig-Item: Acquire::http::Timeout=60\n\n"
SECONDS = 120


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("staged")
    stage_site(read_site("", {UPSTREAM: MIRROR}), folder, str(folder))
    return folder


@pytest.fixture
def stalled() -> Iterator[str]:
    """Return the URL of a server that never answers; the kernel takes its connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"


class Method:
    """The method as apt runs it, with a pipe to and from it."""

    def __init__(self, staged: Path) -> None:
        mirrors = {"LUMICONTAINER_MIRRORS": f"{UPSTREAM} {MIRROR}\n"}
        self.child = subprocess.Popen(
            [staged / "apt/http"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **mirrors},
            start_new_session=True,
        )
        assert self.child.stdin and self.child.stdout
        self.stdin, self.stdout = self.child.stdin, self.child.stdout

    def say(self, text: str) -> None:
        self.stdin.write(text)
        self.stdin.flush()

    def hear(self) -> str:
        return "".join(takewhile(str.strip, self.stdout))


def left(child: subprocess.Popen[str]) -> list[str]:
    """Return the processes of its session that still run, once they had time to end."""
    end = time.monotonic() + SECONDS
    while (processes := _session(child.pid)) and time.monotonic() < end:
        child.poll()
        time.sleep(0.05)
    return processes


def _session(leader: int) -> list[str]:
    done = run(["ps", "-o", "pid=,stat=,args=", "-s", leader])
    return [line for line in done.stdout.splitlines() if " Z" not in line]


@pytest.fixture
def method(staged: Path) -> Iterator[Method]:
    method = Method(staged)
    yield method
    for line in _session(method.child.pid):
        os.kill(int(line.split()[0]), signal.SIGKILL)
    method.child.wait()


def acquire_message(uri: str = f"{UPSTREAM}x") -> str:
    """Return what apt says that wants a file."""
    return f"600 URI Acquire\nURI: {uri}\nFilename: /x\n\n"


def reach(state: str, method: Method, stalled: str) -> None:
    """Run a method until it has just begun, has nothing to do, or waits for a server."""
    if state != "at once":
        method.hear()
        method.say(CONFIGURATION)
    if state == "at work":
        method.say(acquire_message(f"{stalled}x"))
        assert "Status" in method.hear()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGQUIT])
@pytest.mark.parametrize("whom", ["method", "all"])
@pytest.mark.parametrize("state", ["at once", "idle", "at work"])
def test_a_signal_ends_it_with_what_it_started(
    method: Method, stalled: str, number: signal.Signals, whom: str, state: str
) -> None:
    reach(state, method, stalled)
    send = os.killpg if whom == "all" else os.kill
    send(method.child.pid, number)
    assert left(method.child) == []


@pytest.mark.parametrize("after", [0.0, 0.01, 0.03, 0.1, 0.3])
def test_a_signal_in_the_midst_of_messages_ends_it(method: Method, after: float) -> None:
    method.hear()
    method.say(acquire_message() * 500)
    time.sleep(after)  # Not in place of a condition: it is the moment that is tried.
    os.killpg(method.child.pid, signal.SIGINT)
    assert left(method.child) == []


@pytest.mark.parametrize("state", ["at once", "idle", "at work"])
def test_it_ends_when_apt_has_closed_its_pipes(method: Method, stalled: str, state: str) -> None:
    reach(state, method, stalled)
    method.stdin.close()
    method.stdout.close()
    assert left(method.child) == []


def test_it_ends_when_nobody_reads_what_it_says(method: Method) -> None:
    method.hear()
    method.stdout.close()
    method.say(acquire_message())
    assert left(method.child) == []


def test_it_ends_when_apts_own_method_does(method: Method) -> None:
    method.hear()
    (own,) = [line for line in _session(method.child.pid) if "/usr/lib/apt/methods/" in line]
    os.kill(int(own.split()[0]), signal.SIGKILL)
    assert left(method.child) == []
    assert method.child.wait(SECONDS) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("whom", ["apt", "all"])
def test_apt_that_is_interrupted_ends_with_its_methods(
    staged: Path, stalled: str, tmp_path: Path, number: signal.Signals, whom: str
) -> None:
    for folder in ("lists/partial", "cache/archives/partial", "parts"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "status").touch()
    (tmp_path / "list").write_text(f"deb [trusted=yes] {stalled} any main\n")
    places = {"Etc::SourceList": "list", "Etc::SourceParts": "parts", "State::Lists": "lists"}
    places |= {"State::status": "status", "Cache": "cache"}
    settings, log = tmp_path / "apt.conf", tmp_path / "log"
    lines = [f'Dir::{key} "{tmp_path}/{place}";\n' for key, place in places.items()]
    lines += ['APT::Sandbox::User "";\nDebug::NoLocking "1";\n']
    settings.write_text((staged / "apt.conf").read_text() + "".join(lines))
    script = f". {staged}/site.sh && export APT_CONFIG={settings}\n"
    script += "exec apt-get -o Debug::pkgAcquire::Worker=1 update"
    with log.open("w") as file:
        apt = subprocess.Popen(
            ["bash", "-c", script],
            env={**os.environ, "no_proxy": "127.0.0.1"},
            start_new_session=True,
            stdout=file,
            stderr=file,
            text=True,
        )
    awaited(lambda: re.search("600(%20| )URI", log.read_text()))
    (os.killpg if whom == "all" else os.kill)(apt.pid, number)
    assert left(apt) == [], log.read_text()
