"""Ranks meet over real sockets: who is not one of them is refused, who goes away is reported."""

import json
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
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

from .. import seen

KEY = b"what this step alone knows"
CHECKS = "those of this image"
SOON = 120

Join = Callable[..., Connection]


def me(rank: int, checks: str = CHECKS) -> dict[str, Any]:
    return {"rank": rank, "node": "1", "host": "nid2", "checks": checks}


def rank_0_of(ranks: int) -> Server:
    return Server(server.listen("127.0.0.1", [0]), ranks, key=KEY, checks=CHECKS)


def port_of(rank0: Server) -> int:
    return int(rank0._listener.getsockname()[1])


@pytest.fixture
def rank0() -> Iterator[Server]:
    with closing(rank_0_of(3)) as opened:
        yield opened


@pytest.fixture
def join(rank0: Server) -> Iterator[Join]:
    """Join rank 0 as a given rank."""
    with ExitStack() as at_end:

        def joined(rank: int, **more: Any) -> Connection:
            options = {"key": KEY, "me": me(rank), **more}
            connection = client.join("127.0.0.1", port_of(rank0), **options)
            return at_end.enter_context(closing(connection))

        yield joined


@pytest.mark.slow
def test_ranks_come_get_orders_and_answer(rank0: Server, join: Join) -> None:
    connections = {rank: join(rank) for rank in (2, 1)}
    began = time.monotonic()
    rank0.await_all(SOON)
    assert time.monotonic() - began < SOON
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


@pytest.mark.slow
def test_halting_and_the_end_are_heard(rank0: Server, join: Join) -> None:
    connection = join(1)
    rank0.halt([0, 1], "t/x", "because")
    assert connection.next(SOON) == {"halt": "t/x", "why": "because"}
    rank0.close()
    assert connection.next(SOON) == {"end": True}


@pytest.mark.slow
def test_waiting_ends_when_its_time_is_over(rank0: Server) -> None:
    begun = time.monotonic()
    rank0.await_all(0.3)
    assert 0.2 < time.monotonic() - begun < SOON
    assert rank0.order(1, "t/x").exception(SOON).args == ("it never joined",)  # type: ignore[union-attr]


@pytest.mark.slow
def test_who_goes_away_is_an_answer_and_may_come_again(rank0: Server, join: Join) -> None:
    connection = join(1)
    answer = rank0.order(1, "t/x")
    assert rank0.busy(1)
    connection.close()
    with pytest.raises(GoneError, match="or its node has ended"):
        answer.result(SOON)
    assert "or its node has ended" in rank0.gone[1]
    join(1)
    assert 1 not in rank0.gone


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"key": b"of another step"}, "as it does if the keys differ"),
        ({"me": me(3)}, "rank 3 has joined, or"),
        ({"me": me(0)}, "rank 0 has joined, or"),
        ({"me": me(-1)}, "rank -1 has joined, or"),
        ({"me": me(1)}, "rank 1 has joined, or"),
    ],
)
def test_who_is_not_of_the_step_is_refused(
    rank0: Server, join: Join, more: dict[str, Any], message: str
) -> None:
    join(1)
    with pytest.raises(RefusedError, match=message):
        join(2, **more)
    assert list(rank0.peers) == [1]


@pytest.mark.slow
def test_a_rank_of_another_image_is_refused_and_not_waited_for(rank0: Server, join: Join) -> None:
    with pytest.raises(RefusedError, match="other checks"):
        join(2, me=me(2, "those of another"))
    assert rank0.peers == {}
    assert "other checks" in rank0.gone[2]


DEEP = b"[" * 4000 + b"\n"
OLDER = b'{"lumi-verify": 1, "nonce": "00"}\n'
ASKS = protocol.hello("0" * 32)


@pytest.mark.slow
@pytest.mark.parametrize(
    "said", [b"SSH-2.0-OpenSSH_9.2\r\n", b"{}\n", b"[]\n", b"\xff\n", b"", DEEP, OLDER]
)
def test_another_program_at_the_port_is_no_rank_0(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            with listener.accept()[0] as stream:
                stream.sendall(said)

        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(RefusedError):
            client.join("127.0.0.1", listener.getsockname()[1], key=KEY, me=me(1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x80\x04\x95pickle\n",
        b'{"id": 1, "outcome": {}}\n',
        DEEP,
        ASKS + json.dumps(me(1)).encode() + b"\n",
        ASKS + b"0" * 64 + b" " + json.dumps(me(1)).encode() + b"\n",
        ASKS + b"\xff\n",
        ASKS + ASKS,
        b"x" * 10_000,
    ],
)
def test_a_stranger_is_shown_out_and_the_ranks_still_meet(
    rank0: Server, join: Join, said: bytes
) -> None:
    with socket.create_connection(("127.0.0.1", port_of(rank0)), timeout=SOON) as stream:
        stream.sendall(said)
        with suppress(ConnectionResetError):
            while stream.recv(1 << 16):
                pass
    join(1)
    assert list(rank0.peers) == [1]


@pytest.mark.slow
@pytest.mark.parametrize(
    "said", [{}, {"id": 99, "outcome": Outcome("passed").plain()}, {"id": 1, "outcome": {}}]
)
def test_a_rank_that_answers_nonsense_is_gone(
    rank0: Server, join: Join, said: dict[str, Any]
) -> None:
    connection = join(1)
    answer = rank0.order(1, "t/x")
    connection.send(said)
    with pytest.raises(GoneError, match="a message is invalid"):
        answer.result(SOON)


STEP = seen.srun(1)


def test_ports_are_the_step_s_own_and_not_master_port() -> None:
    launch = recognize(STEP)
    ports = protocol.ports(STEP, launch)
    assert len(set(ports)) == protocol.PLACES
    assert int(port(STEP, launch).value or 0) not in ports
    other = {**STEP, "SLURM_STEP_ID": "4"}
    assert not set(ports) & set(protocol.ports(other, recognize(other)))
    taken = {**STEP, "MASTER_PORT": str(ports[0])}
    assert ports[0] not in protocol.ports(taken, launch)


def test_another_step_has_another_key_file_and_key() -> None:
    secret = {keys.KEY_VARIABLE: "0123456789abcdef"}
    changes = [{}, {"SLURM_STEP_ID": "4"}, {"SLURM_JOB_ID": "4"}, {"MASTER_PORT": "1"}]
    steps = [{**STEP, **secret, **change} for change in changes]
    assert len({keys.of_step(step) for step in steps}) == len(steps)
    assert len({keys.read_given_key(step) for step in steps}) == len(steps)


def test_a_secret_that_can_be_guessed_is_refused() -> None:
    with pytest.raises(LaunchError, match="LUMI_VERIFY_SECRET is too short"):
        keys.read_given_key({keys.KEY_VARIABLE: "short"})


def test_a_secret_may_have_bytes_that_are_no_text() -> None:
    secrets = [f"0123456789abcdef{last}" for last in ("\udcfe", "\udcff")]
    assert (
        len({keys.read_given_key({**STEP, keys.KEY_VARIABLE: secret}) for secret in secrets}) == 2
    )


def test_ranks_look_where_the_other_ranks_of_their_nodes_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folders(step: dict[str, str]) -> set[Path]:
        env = {**step, "HOME": str(tmp_path)}
        return {Path(path).parent for path in keys.files(env, recognize(env))}

    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    assert folders(seen.mpiexec(0)) == {here, tmp_path, Path("/dev/shm"), Path("/tmp")}
    assert folders(STEP) == {here, tmp_path}
    here.rmdir()
    assert folders(STEP) == {tmp_path}


@pytest.mark.slow
def test_where_no_port_is_free_it_is_reported() -> None:
    with server.listen("127.0.0.1", [0]) as taken:
        candidates = [taken.getsockname()[1]]
        with pytest.raises(LaunchError, match="cannot listen"):
            server.listen("127.0.0.1", candidates)


def test_a_name_that_no_host_can_have_is_nobody() -> None:
    with pytest.raises(OSError, match="invalid host name"):
        client.join("a..b", 1, key=KEY, me=me(1))


@pytest.mark.slow
def test_rank_0_of_many_may_have_as_many_files_open() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, before[1]))
    try:
        rank_0_of(1000).close()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > 1000
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
