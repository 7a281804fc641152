"""Strangers on the node attack the meeting of the ranks: none is believed, and none keeps out."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.inside.launch.launchers import recognize
from lumicontainer.inside.verify.channel import client, keys, protocol, server
from lumicontainer.inside.verify.channel.client import Connection, RefusedError
from lumicontainer.inside.verify.channel.protocol import GoneError, Seal
from lumicontainer.inside.verify.channel.server import Server
from lumicontainer.inside.verify.outcome import Outcome

from ..unit.inside.verify.verifying import STEP, Image, Ran, awaited

KEY = os.urandom(32)
CHECKS = "those of this image"
ME = {"rank": 1, "node": "1", "host": "nid2", "checks": CHECKS}
HERE = "127.0.0.1"
SOON = 10
WAITS = "import time; time.sleep(2)\n"

Change = Callable[[int, bytes], list[bytes]]


@pytest.fixture
def host() -> Iterator[Server]:
    """Be rank 0 of two ranks."""
    opened = Server(server.listen(HERE, [0]), 2, key=KEY, checks=CHECKS)
    yield opened
    opened.close()


def port_of(host: Server) -> int:
    return int(host._listener.getsockname()[1])


@contextmanager
def between(port: int, change: Change) -> Iterator[int]:
    """Stand between rank 0 and a rank: what this says is handed on as ``change`` returns it."""
    with socket.create_server((HERE, 0)) as listener:

        def pump(source: socket.socket, target: socket.socket, made: Change) -> None:
            with suppress(OSError), source.makefile("rb") as lines:
                for number, line in enumerate(lines):
                    for each in made(number, line):
                        target.sendall(each)
                target.shutdown(socket.SHUT_WR)

        def serve() -> None:
            near, far = listener.accept()[0], socket.create_connection((HERE, port))
            up = threading.Thread(target=pump, args=(near, far, change), daemon=True)
            up.start()
            pump(far, near, lambda _, line: [line])
            up.join()
            near.close()
            far.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(SOON)


def answer(connection: Connection, **changes: Any) -> None:
    """Answer the next order, with changes to what came of it."""
    order = connection.next(SOON)
    assert order is not None
    connection.send({"id": order["id"], "outcome": {**Outcome("passed").plain(), **changes}})


def dropped(stream: socket.socket) -> bytes:
    """Return what rank 0 still says to one whom it drops."""
    stream.settimeout(SOON)
    said = b""
    try:
        while chunk := stream.recv(4096):
            said += chunk
    except ConnectionResetError:
        pass
    return said


FACTS = {**STEP, "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NODEID": "1"}
FACTS |= {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}


def test_a_stranger_who_knows_all_that_the_launcher_says_is_no_rank(tmp_path: Path) -> None:
    """Its forged answer would be believed in place of that of a rank that has not come."""
    image = Image(tmp_path)
    image.add("ranks", WAITS, runs="ranks")
    rank0, rank1 = image.tasks("--json", "-", "--wait", "5", ranks=2)
    rank1.kill()
    rank1.communicate()
    (file,) = awaited(lambda: list(tmp_path.glob(".lumi-verify-*.key")))
    port = int(file.read_text().split()[0])
    assert port in protocol.ports(FACTS, recognize(FACTS))
    for key in (b"", keys.of_step(FACTS).encode(), bytes.fromhex(keys.of_step(FACTS))):
        with pytest.raises(RefusedError):
            client.join(HERE, port, key=key, me=ME)
    ran = Ran(rank0)
    assert ran.states == {"ranks": "error", "lumi-verify/ranks": "error"}
    assert "rank 1 on nid2: it did not join" in ran.check("ranks")["reason"]
    assert not list(tmp_path.glob(".lumi-verify-*"))


@pytest.mark.parametrize(
    "said", [b"", b"GET / HTTP/1.1\r\n", protocol.hello("0" * 32), b"x" * 9999]
)
def test_200_connections_that_prove_nothing_keep_no_rank_out(host: Server, said: bytes) -> None:
    strangers = [socket.create_connection((HERE, port_of(host))) for _ in range(200)]
    for each in strangers:
        each.sendall(said)
    connection = client.join(HERE, port_of(host), key=KEY, me=ME)
    assert list(host.peers) == [1]
    for each in (*strangers, connection):
        each.close()


def test_of_more_strangers_than_there_is_place_for_the_oldest_goes(
    host: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "_MOST_UNAUTHENTICATED", 2)
    strangers = [socket.create_connection((HERE, port_of(host))) for _ in range(8)]
    for each in strangers[:3]:
        assert dropped(each).count(b"\n") <= 1
    client.join(HERE, port_of(host), key=KEY, me=ME).close()
    for each in strangers:
        each.close()


def test_who_proves_nothing_goes_soon(host: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_HANDSHAKE", 0.3)
    with socket.create_connection((HERE, port_of(host))) as stranger:
        assert dropped(stranger).startswith(b"lumi-verify")


CHANGES: dict[str, Change] = {
    "changed": lambda n, line: [line.replace(b'"failed"', b'"passed"') if n == 2 else line],
    "made up": lambda n, line: [b'{"id": 1, "outcome": {}}\n' if n == 2 else line],
    "without its proof": lambda n, line: [line.partition(b" ")[2] if n == 2 else line],
    "the one before": lambda n, line: [line] if n != 1 else [line, line],
}


@pytest.mark.parametrize("what", CHANGES)
def test_an_answer_that_somebody_forged_is_not_taken(host: Server, what: str) -> None:
    with between(port_of(host), CHANGES[what]) as port:
        connection = client.join(HERE, port, key=KEY, me=ME)
        came = host.order(1, "t/x")
        if what != "the one before":
            answer(connection, state="failed", reason="broken")
        with pytest.raises(GoneError, match="an invalid signature"):
            came.result(SOON)
        connection.close()


def test_an_answer_that_is_replayed_counts_once(host: Server) -> None:
    twice: Change = lambda n, line: [line, line] if n == 2 else [line]  # noqa: E731
    with between(port_of(host), twice) as port:
        connection = client.join(HERE, port, key=KEY, me=ME)
        first = host.order(1, "t/x")
        answer(connection)
        assert first.result(SOON).state == "passed"
        with pytest.raises(GoneError, match="an invalid signature"):
            host.order(1, "t/y").result(SOON)
        connection.close()


def test_an_answer_that_is_left_out_is_missed(host: Server) -> None:
    with between(port_of(host), lambda n, line: [] if n == 2 else [line]) as port:
        connection = client.join(HERE, port, key=KEY, me=ME)
        orders = [host.order(1, name) for name in ("t/x", "t/y")]
        answer(connection)
        answer(connection)
        for each in orders:
            with pytest.raises(GoneError, match="an invalid signature"):
                each.result(SOON)
        connection.close()


def test_a_connection_that_is_replayed_is_no_rank(host: Server) -> None:
    said: list[bytes] = []

    def kept(_: int, line: bytes) -> list[bytes]:
        said.append(line)
        return [line]

    with between(port_of(host), kept) as port:
        client.join(HERE, port, key=KEY, me=ME).close()
    awaited(lambda: host.gone.get(1))
    with socket.create_connection((HERE, port_of(host))) as again:
        again.sendall(b"".join(said))
        assert dropped(again).count(b"\n") <= 1
    assert host.peers == {}


def test_one_who_sends_back_what_a_rank_says_is_no_rank_0() -> None:
    with socket.create_server((HERE, 0)) as listener:

        def echo() -> None:
            stream, _ = listener.accept()
            while chunk := stream.recv(4096):
                stream.sendall(chunk)

        threading.Thread(target=echo, daemon=True).start()
        with pytest.raises(RefusedError, match="wrong key or order"):
            client.join(HERE, listener.getsockname()[1], key=KEY, me=ME)


ROW = {"name": "x", "value": 1.0, "holds": None}


@pytest.mark.parametrize(
    "changes",
    [
        {"output": ["a"]},
        {"state": []},
        {"state": "perfect"},
        {"reason": {}},
        {"seconds": "1"},
        {"seconds": float("nan")},
        {"seconds": True},
        {"seconds": 10**400},
        {"facts": []},
        {"halted": 1},
        {"rank": None},
        {"ranks": [1]},
        {"measured": [1]},
        {"measured": [{}]},
        {"measured": [{**ROW, "value": "1"}]},
        {"measured": [{**ROW, "holds": "yes"}]},
        {"measured": [{**ROW, "minimum": 1}]},
        {"measured": [{**ROW, "minimum": [], "unit": "s", "source": "x"}]},
        {"measured": [{**ROW, "unjudged": {}}]},
    ],
)
def test_a_field_of_another_type_loses_the_rank_and_no_more(
    host: Server, changes: dict[str, Any]
) -> None:
    connection = client.join(HERE, port_of(host), key=KEY, me=ME)
    came = host.order(1, "t/x")
    answer(connection, **changes)
    with pytest.raises(GoneError, match="a message is invalid"):
        came.result(SOON)
    client.join(HERE, port_of(host), key=KEY, me=ME).close()
    connection.close()


@pytest.mark.parametrize(
    "changes",
    [{"rank": "1"}, {"rank": True}, {"rank": [1]}, {"node": 1}, {"host": None}, {"checks": {}}],
)
def test_one_who_asks_with_fields_of_another_type_is_not_let_in(
    host: Server, changes: dict[str, Any]
) -> None:
    with pytest.raises(RefusedError):
        client.join(HERE, port_of(host), key=KEY, me={**ME, **changes})
    assert host.peers == {}


@pytest.mark.parametrize(
    "order",
    [{"run": ["t/x"], "id": 1}, {"run": "t/x", "id": "1"}, {"halt": 1, "why": ""}, {"what": "?"}],
)
def test_an_order_of_another_form_is_not_obeyed(order: dict[str, Any]) -> None:
    from lumicontainer.inside.verify import launched, resources  # noqa: PLC0415

    with socket.create_server((HERE, 0)) as listener:

        def rank_0() -> None:
            stream, _ = listener.accept()
            with stream.makefile("rb") as lines:
                stream.sendall(protocol.hello("0" * 32))
                number = protocol.number_of_hello(next(lines).strip())
                seal = Seal(KEY, "0" * 32, number, is_zero=True)
                stream.sendall(seal.packed({"welcome": True}) + seal.packed(order))
                list(lines)

        threading.Thread(target=rank_0, daemon=True).start()
        connection = client.join(HERE, listener.getsockname()[1], key=KEY, me=ME)
        runner = launched.LaunchedRunner(resources.Place(FACTS), FACTS, "/nowhere")
        assert launched.serve(runner, connection, [{"name": "t/x"}]).startswith("rank 0: ")


def write(path: Path, mode: int = 0o600) -> Path:
    path.write_text(f"12345 {KEY.hex()}\n")
    path.chmod(mode)
    return path


def foreign(path: Path) -> Path:
    """Return a file of another user's."""
    if os.geteuid():
        return Path("/etc/hostname")
    os.chown(write(path), 12345, 12345)
    return path


def made(path: Path, how: Callable[[Path], object]) -> Path:
    how(path)
    return path


BAD: dict[str, Callable[[Path], Path]] = {
    "belongs to the user": foreign,
    "mode 640": lambda path: write(path, 0o640),
    "mode 604": lambda path: write(path, 0o604),
    "Too many levels": lambda path: made(
        path, lambda link: link.symlink_to(write(link.with_name("own")))
    ),
    "a second name": lambda path: made(
        path, lambda link: link.hardlink_to(write(link.with_name("own")))
    ),
    "not a regular": lambda path: made(path, os.mkfifo),
    "is not a regular": lambda path: made(path, Path.mkdir),
    "has no key": lambda path: made(path, lambda file: file.touch(0o600)),
}


@pytest.mark.parametrize("why", BAD)
def test_a_key_that_others_may_have_written_or_read_is_not_taken(tmp_path: Path, why: str) -> None:
    with pytest.raises(keys.UntrustedError, match=why):
        keys.read(str(BAD[why](tmp_path / "key")))


@pytest.mark.parametrize("why", ["mode 640", "belongs to the user"])
def test_a_rank_that_finds_such_a_key_says_so(tmp_path: Path, why: str) -> None:
    image = Image(tmp_path)
    image.add("one", WAITS)
    name = f".lumi-verify-{keys.of_step(FACTS)}.key"
    if os.geteuid() and why != "mode 640":
        (tmp_path / name).symlink_to("/etc/hostname")
        why = "Too many levels"
    else:
        BAD[why](tmp_path / name)
    # Rank 0 would put its own in its place.
    rank1 = image.start("--wait", "1", **FACTS)
    ran = Ran(rank1)
    assert (ran.code, why in ran.stderr) == (3, True), ran.stderr


def test_rank_0_takes_no_place_where_it_cannot_keep_the_key_to_itself(tmp_path: Path) -> None:
    taken = tmp_path / "taken.key"
    taken.mkdir()
    good = tmp_path / "good.key"
    assert keys.publish([str(taken), str(good)], 1, KEY) == [str(good)]
    assert good.stat().st_mode & 0o777 == 0o600
    assert keys.read(str(good)) == (1, KEY)
    assert [each for each in tmp_path.iterdir() if each not in (taken, good)] == []


def test_a_key_replaces_an_earlier_one_and_only_its_own_run_removes_it(tmp_path: Path) -> None:
    path = write(tmp_path / "key")
    written = keys.publish([str(path)], 1, b"\1" * 32)
    assert keys.read(str(path)) == (1, b"\1" * 32)
    keys.publish([str(path)], 2, KEY)
    keys.withdraw(written, 1, b"\1" * 32)
    assert keys.read(str(path)) == (2, KEY)
    keys.withdraw(written, 2, KEY)
    assert not path.exists()
