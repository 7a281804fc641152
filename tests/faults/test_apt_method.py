"""What stands before apt's methods ends with apt, whatever apt sends, and however apt ends."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from lumicontainer.host.site import read_site, stage_site

MIRRORS = {"http://upstream.invalid/": "file:///srv/mirror/"}
CONFIGURATION = "601 Configuration\nConfig-Item: Acquire::http::Timeout=60\n\n"
SECONDS = 10.0


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("staged")
    stage_site(read_site("", MIRRORS), folder, str(folder))
    return folder


@pytest.fixture
def stalled() -> Iterator[str]:
    """Serve over loopback what takes a connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        kept: list[socket.socket] = []

        def take() -> None:
            with server:
                while True:
                    try:
                        kept.append(server.accept()[0])
                    except OSError:
                        return

        threading.Thread(target=take, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        server.shutdown(socket.SHUT_RDWR)
        for each in kept:
            each.close()


class Method:
    """The method as apt runs it, with a pipe to and from it."""

    def __init__(self, staged: Path) -> None:
        environment = {
            **os.environ,
            "LUMICONTAINER_MIRRORS": "http://upstream.invalid/ file:///srv/mirror/\n",
        }
        self.child = subprocess.Popen(
            [staged / "apt/http"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def say(self, text: str) -> None:
        assert self.child.stdin
        self.child.stdin.write(text)
        self.child.stdin.flush()

    def hear(self) -> str:
        """Return the next message."""
        assert self.child.stdout
        lines = []
        while line := self.child.stdout.readline().rstrip("\n"):
            lines.append(line)
        return "\n".join(lines)

    def left(self) -> list[str]:
        """Return the processes of its session that still run, once they had time to end."""
        end = time.monotonic() + SECONDS
        while (found := _session(self.child.pid)) and time.monotonic() < end:
            self.child.poll()
            time.sleep(0.05)
        return found


def _session(leader: int) -> list[str]:
    done = subprocess.run(
        ["ps", "-o", "pid=,stat=,args=", "-s", str(leader)],
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in done.stdout.splitlines() if " Z" not in line]


@pytest.fixture
def method(staged: Path) -> Iterator[Method]:
    method = Method(staged)
    yield method
    for line in _session(method.child.pid):
        os.kill(int(line.split()[0]), signal.SIGKILL)
    method.child.wait()


def test_what_a_mirror_has_is_redirected_and_all_else_is_apts_own_work(method: Method) -> None:
    assert method.hear().startswith("100 Capabilities\n")
    method.say(CONFIGURATION)
    method.say("600 URI Acquire\nURI: http://upstream.invalid/a%20b/x\nFilename: /x\n\n")
    redirected = "URI: http://upstream.invalid/a%20b/x\nNew-URI: file:///srv/mirror/a%20b/x"
    assert method.hear() == f"103 Redirect\n{redirected}"
    method.say("600 URI Acquire\nURI: http://127.0.0.1:9/x\nFilename: /x\n\n")
    while not (heard := method.hear()).startswith("400 URI Failure"):
        assert heard.startswith("102 Status"), heard
    assert "URI: http://127.0.0.1:9/x" in heard


def reach(state: str, method: Method, stalled: str) -> None:
    """Run a method until it has just begun, has nothing to do, or waits for a server."""
    if state != "at once":
        method.hear()
        method.say(CONFIGURATION)
    if state == "at work":
        method.say(f"600 URI Acquire\nURI: {stalled}x\nFilename: /x\n\n")
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
    assert method.left() == []


@pytest.mark.parametrize("after", [0.0, 0.01, 0.03, 0.1, 0.3])
def test_a_signal_in_the_midst_of_messages_ends_it(method: Method, after: float) -> None:
    method.hear()
    method.say("600 URI Acquire\nURI: http://upstream.invalid/x\nFilename: /x\n\n" * 500)
    time.sleep(after)  # Not in place of a condition: it is the moment that is tried.
    os.killpg(method.child.pid, signal.SIGINT)
    assert method.left() == []


@pytest.mark.parametrize("state", ["at once", "idle", "at work"])
def test_it_ends_when_apt_has_closed_its_pipes(method: Method, stalled: str, state: str) -> None:
    reach(state, method, stalled)
    assert method.child.stdin and method.child.stdout
    method.child.stdin.close()
    method.child.stdout.close()
    assert method.left() == []


def test_it_ends_when_nobody_reads_what_it_says(method: Method) -> None:
    method.hear()
    assert method.child.stdout
    method.child.stdout.close()
    method.say("600 URI Acquire\nURI: http://upstream.invalid/x\nFilename: /x\n\n")
    assert method.left() == []


def test_it_ends_when_apts_own_method_does(method: Method) -> None:
    method.hear()
    (own,) = [line for line in _session(method.child.pid) if "/usr/lib/apt/methods/" in line]
    os.kill(int(own.split()[0]), signal.SIGKILL)
    assert method.left() == []
    assert method.child.wait(SECONDS) == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("whom", ["apt", "all"])
def test_apt_that_is_interrupted_ends_with_its_methods(
    staged: Path, stalled: str, tmp_path: Path, number: signal.Signals, whom: str
) -> None:
    work = tmp_path / "work"
    for folder in ("lists/partial", "cache/archives/partial", "parts"):
        (work / folder).mkdir(parents=True)
    (work / "status").touch()
    (work / "list").write_text(f"deb [trusted=yes] {stalled} any main\n")
    places = {"Etc::SourceList": "list", "Etc::SourceParts": "parts", "State::Lists": "lists"}
    places |= {"State::status": "status", "Cache": "cache"}
    settings = tmp_path / "apt.conf"
    with settings.open("w") as file:
        file.write((staged / "apt.conf").read_text())
        file.write("".join(f'Dir::{key} "{work}/{place}";\n' for key, place in places.items()))
        file.write('APT::Sandbox::User "";\nDebug::NoLocking "1";\n')
    script = f". {staged}/site.sh && export APT_CONFIG={settings}\n"
    script += "exec apt-get -o Debug::pkgAcquire::Worker=1 update"
    environment = {**os.environ, "no_proxy": "127.0.0.1"}
    apt = subprocess.Popen(
        ["bash", "-c", script],
        env=environment,
        start_new_session=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert apt.stdout
    while "600%20URI" not in (line := apt.stdout.readline()) and "600 URI" not in line:
        assert line, "apt ended by itself"
    (os.killpg if whom == "all" else os.kill)(apt.pid, number)
    end = time.monotonic() + SECONDS
    while _session(apt.pid) and time.monotonic() < end:
        apt.poll()
        select.select([apt.stdout], [], [], 0.05)
        os.read(apt.stdout.fileno(), 1 << 16)
    assert _session(apt.pid) == []
