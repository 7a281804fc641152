"""Ranks meet over real sockets: who is not one of them is refused, who goes away is reported."""

import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lumicontainer.inside.errors import LaunchError
from lumicontainer.inside.launch.launchers import recognize
from lumicontainer.inside.launch.rendezvous import port
from lumicontainer.inside.verify.channel import client, keys, protocol, server
from lumicontainer.inside.verify.channel.client import Connection, RefusedError
from lumicontainer.inside.verify.channel.protocol import GoneError
from lumicontainer.inside.verify.channel.server import Server
from lumicontainer.inside.verify.outcome import Outcome

KEY = b"what this step alone knows"
CHECKS = "those of this image"
SOON = 10

Open = Callable[..., Server]
_connections: list[Connection] = []


def me(rank: int, checks: str = CHECKS) -> dict[str, Any]:
    return {"rank": rank, "node": "1", "host": "nid2", "checks": checks}


@pytest.fixture
def hosts() -> Iterator[list[Server]]:
    opened: list[Server] = []
    yield opened
    for each in (*opened, *_connections):
        each.close()
    _connections.clear()


@pytest.fixture
def host(hosts: list[Server]) -> Open:
    """Be rank 0 of a number of ranks, at a port of the kernel's choice."""

    def opened(ranks: int = 3, key: bytes = KEY) -> Server:
        hosts.append(Server(server.listen("127.0.0.1", [0]), ranks, key=key, checks=CHECKS))
        return hosts[-1]

    return opened


def port_of(host: Server) -> int:
    return int(host._listener.getsockname()[1])


def join(host: Server, rank: int, **more: Any) -> Connection:
    given = {"key": KEY, "me": me(rank), **more}
    _connections.append(client.join("127.0.0.1", port_of(host), **given))
    return _connections[-1]


def test_ranks_come_get_orders_and_answer(host: Open) -> None:
    rank0 = host()
    connections = {rank: join(rank0, rank) for rank in (2, 1)}
    rank0.await_all(SOON)
    assert sorted(rank0.peers) == [1, 2]
    answers = {rank: rank0.order(rank, "t/x") for rank in connections}
    for rank, connection in connections.items():
        order = connection.next(SOON)
        assert order is not None
        assert order["run"] == "t/x"
        came = Outcome("failed", f"of {rank}", output="x" * (1 << 20))
        threading.Thread(
            target=connection.send, args=({"id": order["id"], "outcome": came.plain()},)
        ).start()
    for rank, answer in answers.items():
        came = answer.result(SOON)
        assert (came.reason, came.rank, came.host) == (f"of {rank}", rank, "nid2")
        assert len(came.output) == 1 << 20


def test_halting_and_the_end_are_heard(host: Open) -> None:
    rank0 = host(2)
    connection = join(rank0, 1)
    rank0.await_all(SOON)
    rank0.halt([0, 1], "t/x", "because")
    assert connection.next(SOON) == {"halt": "t/x", "why": "because"}
    rank0.close()
    assert connection.next(SOON) == {"end": True}


def test_waiting_ends_when_its_time_is_over(host: Open) -> None:
    rank0 = host(2)
    begun = time.monotonic()
    rank0.await_all(0.3)
    assert 0.2 < time.monotonic() - begun < 5
    assert rank0.order(1, "t/x").exception(SOON).args == ("it never joined",)  # type: ignore[union-attr]


def test_who_goes_away_is_an_answer(host: Open) -> None:
    rank0 = host(2)
    connection = join(rank0, 1)
    rank0.await_all(SOON)
    answer = rank0.order(1, "t/x")
    assert rank0.busy(1)
    connection.close()
    with pytest.raises(GoneError, match="or its node has ended"):
        answer.result(SOON)
    assert "or its node has ended" in rank0.gone[1]


def test_who_has_gone_may_come_again(host: Open) -> None:
    rank0 = host(2)
    join(rank0, 1).close()
    while not rank0.gone.get(1):
        time.sleep(0.01)
    join(rank0, 1)
    rank0.await_all(SOON)
    assert 1 not in rank0.gone


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"key": b"of another step"}, "as it does if the keys differ"),
        ({"me": me(3)}, "rank 3 has joined, or"),
        ({"me": me(0)}, "rank 0 has joined, or"),
        ({"me": me(-1)}, "rank -1 has joined, or"),
        ({"me": me(1, "those of another")}, "other checks"),
    ],
)
def test_who_is_not_of_the_step_is_refused(host: Open, more: dict[str, Any], message: str) -> None:
    rank0 = host()
    with pytest.raises(RefusedError, match=message):
        join(rank0, 1, **more)
    assert rank0.peers == {}


def test_a_rank_that_has_joined_cannot_join_a_second_time(host: Open) -> None:
    rank0 = host()
    join(rank0, 1)
    with pytest.raises(RefusedError, match="rank 1 has joined, or"):
        join(rank0, 1)
    with pytest.raises(RefusedError):
        join(rank0, 2, me=me(2, "those of another"))
    assert "other checks" in rank0.gone[2]


DEEP = b"[" * 4000 + b"\n"
OLDER = b'{"lumi-verify": 1, "nonce": "00"}\n'


@pytest.mark.parametrize(
    "said", [b"SSH-2.0-OpenSSH_9.2\r\n", b"{}\n", b"[]\n", b"\xff\n", b"", DEEP, OLDER]
)
def test_another_program_at_the_port_is_no_rank_0(said: bytes) -> None:
    with server.listen("127.0.0.1", [0]) as listener:
        listener.setblocking(True)

        def answer() -> None:
            stream, _ = listener.accept()
            stream.sendall(said)
            stream.close()

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(RefusedError):
            client.join("127.0.0.1", listener.getsockname()[1], key=KEY, me=me(1))


ASKS = protocol.hello("0" * 32)


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x80\x04\x95pickle\n",
        b"[1, 2]\n",
        b"null\n",
        b"{}\n",
        b'{"id": 1, "outcome": {}}\n',
        b"[" * 4000 + b"\n",
        ASKS + json.dumps(me(1)).encode() + b"\n",
        ASKS + b"0" * 64 + b" " + json.dumps(me(1)).encode() + b"\n",
        ASKS + b"\xff\n",
        ASKS + ASKS,
        b"x" * 10_000,
    ],
)
def test_a_stranger_is_shown_out_and_the_ranks_still_meet(host: Open, said: bytes) -> None:
    rank0 = host(2)
    with socket.create_connection(("127.0.0.1", port_of(rank0))) as stream:
        stream.settimeout(SOON)
        stream.sendall(said)
        with stream.makefile("rb") as lines:
            try:
                rest = lines.read()
            except ConnectionResetError:
                rest = b""
    assert rest.count(b"\n") <= 2
    join(rank0, 1)
    rank0.await_all(SOON)
    assert list(rank0.peers) == [1]


@pytest.mark.parametrize(
    "said", [{}, {"id": 99, "outcome": Outcome("passed").plain()}, {"id": 1, "outcome": {}}]
)
def test_a_rank_that_answers_nonsense_is_gone(host: Open, said: dict[str, Any]) -> None:
    rank0 = host(2)
    connection = join(rank0, 1)
    rank0.await_all(SOON)
    answer = rank0.order(1, "t/x")
    connection.send(said)
    with pytest.raises(GoneError, match="a message is invalid"):
        answer.result(SOON)


STEP = {
    "SLURM_JOB_ID": "4711",
    "SLURM_STEP_ID": "3",
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_NUM_TASKS": "2",
    "SLURM_STEP_TASKS_PER_NODE": "2",
}


def test_ports_are_the_step_s_own_and_not_master_port() -> None:
    launch = recognize(STEP)
    found = protocol.ports(STEP, launch)
    assert len(set(found)) == protocol.PLACES
    assert int(port(STEP, launch).value or 0) not in found
    other = {**STEP, "SLURM_STEP_ID": "4"}
    assert not set(found) & set(protocol.ports(other, recognize(other)))
    taken = {**STEP, "MASTER_PORT": str(found[0])}
    assert found[0] not in protocol.ports(taken, launch)


def test_another_step_has_a_key_file_and_a_key_of_its_own() -> None:
    secret = {keys.GIVEN: "0123456789abcdef"}
    changes = [{}, {"SLURM_STEP_ID": "4"}, {"SLURM_JOB_ID": "1"}, {"MASTER_PORT": "1"}]
    steps = [{**STEP, **secret, **change} for change in changes]
    assert len({keys.of_step(step) for step in steps}) == len(steps)
    assert len({keys.given(step) for step in steps}) == len(steps)


def test_a_secret_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(LaunchError, match="LUMI_VERIFY_SECRET is too short"):
        keys.given({keys.GIVEN: "short"})


def test_a_secret_may_have_bytes_that_are_no_text() -> None:
    secrets = [f"0123456789abcdef{last}" for last in ("\udcfe", "\udcff")]
    assert len({keys.given({**STEP, keys.GIVEN: secret}) for secret in secrets}) == 2


def test_ranks_of_one_node_look_where_that_node_s_ranks_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    env = {**STEP, "HOME": str(tmp_path)}
    one = {Path(path).parent for path in keys.files(env, recognize(env))}
    assert one == {tmp_path, Path("/dev/shm"), Path("/tmp")}
    two = {**env, "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
    assert {Path(path).parent for path in keys.files(two, recognize(two))} == {tmp_path}


def test_a_working_directory_that_is_gone_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    env = {**STEP, "HOME": str(tmp_path), "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
    assert {Path(path).parent for path in keys.files(env, recognize(env))} == {tmp_path}


def test_where_no_port_is_free_it_is_reported() -> None:
    with server.listen("127.0.0.1", [0]) as taken:
        candidates = [taken.getsockname()[1]]
        with pytest.raises(LaunchError, match="cannot listen"):
            server.listen("127.0.0.1", candidates)


def test_a_name_that_no_host_can_have_is_nobody() -> None:
    with pytest.raises(OSError, match="invalid host name"):
        client.join("a..b", 1, key=KEY, me=me(1))


def test_rank_0_of_many_may_have_as_many_files_open(host: Open) -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        host(1000)
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
