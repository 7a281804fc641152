"""Strangers on the node attack the meeting of the ranks: none is believed, and none keeps out."""

import os
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.inside.launch.launchers import recognize
from lumicontainer.inside.verify import launched, resources
from lumicontainer.inside.verify.channel import client, keys, protocol, server
from lumicontainer.inside.verify.channel.client import Connection, RefusedError
from lumicontainer.inside.verify.channel.protocol import GoneError, Seal
from lumicontainer.inside.verify.channel.server import Server
from lumicontainer.inside.verify.outcome import Outcome

from ..unit.inside.verify.verifying import STEP, Image, Ran, awaited
from .test_folders_of_others import given_away

KEY = os.urandom(32)
CHECKS = "those of this image"
ME = {"rank": 1, "node": "1", "host": "nid2", "checks": CHECKS}
HERE = "127.0.0.1"
SOON = 120
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


def pump(source: socket.socket, target: socket.socket, change: Change) -> None:
    """Hand each line on as ``change`` returns it."""
    with suppress(OSError), source.makefile("rb") as lines:
        for number, line in enumerate(lines):
            for each in change(number, line):
                target.sendall(each)
        target.shutdown(socket.SHUT_WR)


@contextmanager
def joined(host: Server, change: Change) -> Iterator[Connection]:
    """Join as rank 1, by way of somebody who changes what the rank says."""
    with socket.create_server((HERE, 0)) as listener:

        def serve() -> None:
            near, _ = listener.accept()
            with near, socket.create_connection((HERE, port_of(host))) as far:
                up = threading.Thread(target=pump, args=(near, far, change), daemon=True)
                up.start()
                pump(far, near, lambda _, line: [line])
                up.join()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        connection = client.join(HERE, listener.getsockname()[1], key=KEY, me=ME)
        yield connection
        connection.close()
        thread.join(SOON)


def refuses(came: Future[Outcome], why: str = "an invalid signature") -> None:
    """See that rank 0 takes no answer."""
    with pytest.raises(GoneError, match=why):
        came.result(SOON)


def answer(connection: Connection, **changes: Any) -> None:
    """Answer the next order, with changes to what came of it."""
    order = connection.next(SOON)
    assert order is not None
    connection.send({"id": order["id"], "outcome": {**Outcome("passed").plain(), **changes}})


def dropped(stream: socket.socket) -> bytes:
    """Return what rank 0 still says to one whom it drops."""
    stream.settimeout(SOON)
    said = b""
    with suppress(ConnectionResetError):
        while chunk := stream.recv(4096):
            said += chunk
    return said


FACTS = {**STEP, "SLURM_PROCID": "1", "SLURM_LOCALID": "0", "SLURM_NODEID": "1"}
FACTS |= {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}


def test_a_stranger_who_knows_all_that_the_launcher_says_is_no_rank(tmp_path: Path) -> None:
    """Its forged answer would be believed instead of the answer of a rank that has not come."""
    image = Image(tmp_path)
    image.add("ranks", WAITS, runs="ranks")
    (rank0,) = image.tasks("--json", "-", "--wait", "20", ranks=2, absent=[1])
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
    with joined(host, CHANGES[what]) as connection:
        came = host.order(1, "t/x")
        if what != "the one before":
            answer(connection, state="failed", reason="broken")
        refuses(came)


def test_an_answer_that_is_replayed_counts_once(host: Server) -> None:
    with joined(host, lambda n, line: [line, line] if n == 2 else [line]) as connection:
        first = host.order(1, "t/x")
        answer(connection)
        assert first.result(SOON).state == "passed"
        refuses(host.order(1, "t/y"))


def test_an_answer_that_is_left_out_is_missed(host: Server) -> None:
    with joined(host, lambda n, line: [] if n == 2 else [line]) as connection:
        orders = [host.order(1, name) for name in ("t/x", "t/y")]
        answer(connection)
        answer(connection)
        for each in orders:
            refuses(each)


def test_a_connection_that_is_replayed_is_no_rank(host: Server) -> None:
    said: list[bytes] = []
    with joined(host, lambda _, line: said.append(line) or [line]):
        pass
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
WRONG: dict[str, list[Any]] = {
    "output": [["a"]],
    "state": [[], "perfect"],
    "reason": [{}],
    "seconds": ["1", float("nan"), True, 10**400],
    "facts": [[]],
    "halted": [1],
    "rank": [None],
    "ranks": [[1]],
    "measured": [
        *([1], [{}], [{**ROW, "value": "1"}], [{**ROW, "holds": "yes"}], [{**ROW, "minimum": 1}]),
        *([{**ROW, "minimum": [], "unit": "s", "source": "x"}], [{**ROW, "unjudged": {}}]),
    ],
}


@pytest.mark.parametrize(
    ("field", "value"), [(field, value) for field, values in WRONG.items() for value in values]
)
def test_a_field_of_another_type_loses_one_rank_alone(host: Server, field: str, value: Any) -> None:
    connection = client.join(HERE, port_of(host), key=KEY, me=ME)
    came = host.order(1, "t/x")
    answer(connection, **{field: value})
    refuses(came, "a message is invalid")
    client.join(HERE, port_of(host), key=KEY, me=ME).close()
    connection.close()


@pytest.mark.parametrize(
    "changes",
    [{"rank": "1"}, {"rank": True}, {"rank": [1]}, {"node": 1}, {"host": None}, {"checks": {}}],
)
def test_who_asks_by_fields_of_other_types_stays_out(host: Server, changes: dict[str, Any]) -> None:
    with pytest.raises(RefusedError):
        client.join(HERE, port_of(host), key=KEY, me={**ME, **changes})
    assert host.peers == {}


@pytest.mark.parametrize(
    "order",
    [{"run": ["t/x"], "id": 1}, {"run": "t/x", "id": "1"}, {"halt": 1, "why": ""}, {"what": "?"}],
)
def test_an_order_of_another_form_is_not_obeyed(order: dict[str, Any]) -> None:
    with socket.create_server((HERE, 0)) as listener:

        def rank_0() -> None:
            stream, _ = listener.accept()
            with stream.makefile("rb") as lines:
                stream.sendall(protocol.hello("0" * 32))
                number = protocol.number_of_hello(next(lines).strip())
                seal = Seal(KEY, "0" * 32, number, is_zero=True)
                stream.sendall(seal.pack({"welcome": True}) + seal.pack(order))
                list(lines)

        threading.Thread(target=rank_0, daemon=True).start()
        connection = client.join(HERE, listener.getsockname()[1], key=KEY, me=ME)
        runner = launched.LaunchedRunner(resources.Place(FACTS), FACTS, "/nowhere")
        assert launched.serve(runner, connection, [{"name": "t/x"}]).startswith("rank 0: ")


def write(path: Path, mode: int = 0o600) -> Path:
    path.write_text(f"12345 {KEY.hex()}\n")
    path.chmod(mode)
    return path


BAD: dict[str, Callable[[Path], object]] = {
    "belongs to the user": lambda path: given_away(write(path, 0o644)),
    "mode 640": lambda path: write(path, 0o640),
    "mode 604": lambda path: write(path, 0o604),
    "Too many levels": lambda path: path.symlink_to(write(path.with_name("own"))),
    "a second name": lambda path: path.hardlink_to(write(path.with_name("own"))),
    "not a regular": os.mkfifo,
    "is not a regular": Path.mkdir,
    "has no key": lambda path: path.touch(0o600),
}


@pytest.mark.parametrize("why", BAD)
def test_a_key_that_others_may_have_written_or_read_is_not_taken(tmp_path: Path, why: str) -> None:
    BAD[why](tmp_path / "key")
    with pytest.raises(keys.UntrustedError, match=why):
        keys.read(str(tmp_path / "key"))


@pytest.mark.parametrize("why", ["mode 640", "belongs to the user"])
def test_a_rank_that_finds_such_a_key_says_so(tmp_path: Path, why: str) -> None:
    image = Image(tmp_path)
    image.add("one", WAITS)
    BAD[why](tmp_path / f".lumi-verify-{keys.of_step(FACTS)}.key")
    # Rank 0 would put its own in its place.
    rank1 = image.start("--wait", "1", **FACTS)
    ran = Ran(rank1)
    assert (ran.code, why in ran.stderr) == (3, True), ran.stderr


def test_rank_0_uses_no_folder_that_others_can_read_for_its_key(tmp_path: Path) -> None:
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
