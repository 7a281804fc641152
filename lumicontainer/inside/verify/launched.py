"""Run checks with the ranks of a launcher: rank 0 orders, and each rank runs its processes."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from ..errors import INTERRUPTED, UNFIT, LaunchError
from ..launch import launchers
from ..launch.hostlist import HostlistError, expand
from ..messages import write_message
from . import outcome
from .channel import client, keys, protocol, server
from .local import NODE, ONCE, RANKS, Runner
from .outcome import ERROR, Outcome
from .process import Stop
from .resources import MPI, Check, Env, Place

_TICK = 0.2
_NEXT, _SELDOM = 0.1, 1.0
"""Seconds between attempts to find rank 0, at first and later. Rank 0 may start late, and a
thousand ranks read the same folder."""


class LaunchedRunner(Runner):
    """Run checks as rank 0 together with the other ranks, if there are others."""

    def __init__(self, place: Place, env: Env, folder: str, *, stop: Stop | None = None) -> None:
        super().__init__(place, env, folder, stop=stop)
        self.server: server.Server | None = None
        self._withdraw_key: Callable[[], None] = lambda: None
        self._layout = layout(env)
        self._with_mpi = ""

    def unmet_need(self, check: Check) -> tuple[str, str] | None:
        """Return a need of a check that is not met; only one check a step can use MPI."""
        unmet = super().unmet_need(check)
        if unmet or check.get("runs", ONCE) != RANKS or not check.get("needs", {}).get("mpi"):
            return unmet
        if self._with_mpi:
            return MPI, (
                f"MPI can start once in a step, and {self._with_mpi} uses it: "
                f"run lumi-verify -k {check['name']} in another step"
            )
        self._with_mpi = check["name"]
        return None

    def run(self, check: Check) -> Outcome:
        """Run a check on its ranks; return the outcome."""
        self.begin(check)
        runs = check.get("runs", ONCE)
        if runs == ONCE:
            return self.process(check)
        every = range(self.place.ranks)
        on_ranks = self.firsts() if runs == NODE else every
        absent = self._all_absent()
        if absent and runs == RANKS:
            return _of_absent("not run, without", absent)
        with ThreadPoolExecutor(1) as pool:
            jobs = {
                rank: pool.submit(self.own, check, 0)
                if rank == 0
                else self._ordered(rank, check["name"])
                for rank in on_ranks
            }
            result = self.gathered(check, jobs)
        here = {each.host for each in result}
        lost = [each for each in absent if not each.host or each.host not in here]
        return outcome.together([*result, *lost])

    def gather(self, checks: Sequence[Check], seconds: float) -> None:
        """Let the other ranks join, for at most ``seconds``."""
        place = self.place
        if place.ranks == 1:
            return
        candidates = protocol.ports(self.env, place.launch)
        key = keys.read_given_key(self.env)
        listener = server.listen(protocol.address(self.env, place.launch), candidates)
        if key is None:
            key = os.urandom(32)
            port = int(listener.getsockname()[1])
            written = keys.publish(keys.files(self.env, place.launch), port, key)
            self._withdraw_key = partial(keys.withdraw, written, port, key)
        self.server = server.Server(listener, place.ranks, key=key, checks=_fingerprint(checks))
        self.server.await_all(seconds, lambda: self.stop.why)
        if not self._all_absent():
            self._withdraw_key()

    def close(self) -> None:
        """End the processes that serve several checks, and the other ranks."""
        super().close()
        self._withdraw_key()
        if self.server:
            self.server.close()

    def own(self, check: Check, rank: int) -> Outcome:
        """Run this rank's process of a check, with the launcher's variables and open files."""
        if check.get("runs", ONCE) != RANKS:
            return self.process(check, rank)
        return self.process(check, rank, self.env, files=True)

    def halt(self, check: Check, why: str) -> None:
        """End a check on every rank."""
        super().halt(check, why)
        if self.server:
            self.server.halt(range(self.place.ranks), check["name"], why)

    def firsts(self) -> list[int]:
        """Return the first present rank of each node."""
        nodes = {self.place.node: 0}
        # A copy, because ranks may leave at any time.
        peers = dict(self.server.peers) if self.server else {}
        for rank in sorted(peers):
            if not self._why_absent(rank):
                nodes.setdefault(peers[rank].node, rank)
        return list(nodes.values())

    def lost(self) -> Outcome | None:
        """Return an error about missing ranks; None if all are present."""
        absent = self._all_absent()
        return _of_absent("missing at the end:", absent) if absent else None

    def absent(self, rank: int) -> Outcome:
        """Return the outcome of a missing rank."""
        result = Outcome(ERROR, self._why_absent(rank), rank=rank)
        result.host = self.server.hosts.get(rank, "") if self.server else self.place.host
        if not result.host and rank < len(self._layout):
            result.host = self._layout[rank]
        return result

    def late(self, check: Check, rank: int) -> Outcome:
        """Return the outcome of a rank that does not answer in time."""
        result = super().late(check, rank)
        result.host = self.absent(rank).host
        return result

    def _all_absent(self) -> list[Outcome]:
        return [self.absent(rank) for rank in range(self.place.ranks) if self._why_absent(rank)]

    def _why_absent(self, rank: int) -> str:
        if rank == 0 or self.server is None:
            return ""
        if rank in self.server.peers:
            return "it has not answered to an earlier check" if self.server.busy(rank) else ""
        return self.server.gone.get(rank) or "it did not join"

    def _ordered(self, rank: int, check: str) -> Future[Outcome]:
        """Let another rank run a check; if it leaves, that is the outcome."""
        assert self.server is not None
        answer, result = self.server.order(rank, check), Future[Outcome]()

        def done(answered: Future[Outcome]) -> None:
            if answered.exception() is None:
                result.set_result(answered.result())
                return
            lost = self.absent(rank)
            lost.reason = str(answered.exception())
            result.set_result(lost)

        answer.add_done_callback(done)
        return result


def _fingerprint(checks: Sequence[Check]) -> str:
    return hashlib.sha256(json.dumps(checks, sort_keys=True).encode()).hexdigest()


def _of_absent(what: str, absent: Sequence[Outcome]) -> Outcome:
    names = [f"rank {each.rank}{f' on {each.host}' if each.host else ''}" for each in absent[:8]]
    more = f" and {len(absent) - 8} more" if len(absent) > 8 else ""
    result = Outcome(ERROR, f"{what} {', '.join(names)}{more}: {absent[0].reason}")
    result.rank, result.host = absent[0].rank, absent[0].host
    return result


def layout(env: Mapping[str, str]) -> list[str]:
    """Return the node of each rank by Slurm's variables, or nothing if they do not determine it.

    Slurm assigns ranks node by node, except with srun --distribution.
    """
    if env.get("SLURM_DISTRIBUTION", "block").partition(":")[0] != "block":
        return []
    try:
        nodes = expand(env.get("SLURM_STEP_NODELIST", ""))
    except HostlistError:
        return []
    parts = [
        launchers.repeated(part) for part in env.get("SLURM_STEP_TASKS_PER_NODE", "").split(",")
    ]
    counts = [part[0] for part in parts if part for _ in range(part[1])]
    if None in parts or len(counts) != len(nodes):
        return []
    return [node for node, count in zip(nodes, counts) for _ in range(count)]


def _offers(runner: LaunchedRunner) -> Iterator[tuple[int, bytes] | str]:
    """Yield each port at which rank 0 may listen, with its key; or why a key is not used."""
    key = keys.read_given_key(runner.env)
    if key:
        yield from ((port, key) for port in protocol.ports(runner.env, runner.place.launch))
        return
    known = set()
    for path in keys.files(runner.env, runner.place.launch):
        try:
            offer = keys.read(path)
        except keys.UntrustedError as error:
            yield f"its key cannot be trusted: {error}"
            continue
        if offer and offer not in known:
            known.add(offer)
            yield offer


def find(
    runner: LaunchedRunner, *, checks: Sequence[Check], seconds: float
) -> client.Connection | None:
    """Return the connection to rank 0, None after an interrupt.

    Raises LaunchError if rank 0 is not found within ``seconds``.
    """
    place, why = runner.place, ""
    where = protocol.address(runner.env, place.launch)
    me = {"rank": place.rank, "node": place.node, "host": place.host}
    me["checks"] = _fingerprint(checks)
    end, pause = time.monotonic() + seconds, _NEXT
    while time.monotonic() < end and not runner.stop.why:
        for offer in _offers(runner):
            if isinstance(offer, str):
                why = offer
                continue
            try:
                return client.join(where, offer[0], key=offer[1], me=me)
            except client.RefusedError as error:
                why = f"port {offer[0]}: {error}"
            except OSError as error:
                why = why or f"port {offer[0]}: {error.strerror or error}"
        time.sleep(pause)
        pause = min(1.5 * pause, _SELDOM)
    if runner.stop.why:
        return None
    folders = map(os.path.dirname, keys.files(runner.env, place.launch))
    what = f"rank {place.rank} did not find rank 0 within {seconds:.0f} s"
    why = why or f"there is no key of rank 0 in {' or '.join(folders)}"
    hint = "read the messages of rank 0, and run the same image on every rank; if the ranks share"
    hint = f"{hint} no folder, as on other nodes or with --contain: {keys.SET_ONE}"
    raise LaunchError(what, where, why, hint, code=UNFIT)


def serve_rank_0(runner: LaunchedRunner, checks: Sequence[Check], *, seconds: float) -> int:
    """Serve rank 0 to its end; return the exit code. Print only that the connection is lost."""
    try:
        connection = find(runner, checks=checks, seconds=seconds)
    except LaunchError as error:
        error.shown = launchers.first_of_node(os.environ)
        raise
    if connection is None:
        return INTERRUPTED
    why = serve(runner, connection, checks)
    if why and why.startswith("rank 0") and launchers.first_of_node(os.environ):
        place = runner.place
        write_message(f"error: {why} (reported by rank {place.rank} on {place.host})\n")
    return INTERRUPTED if why else 0


def serve(runner: LaunchedRunner, connection: client.Connection, checks: Sequence[Check]) -> str:
    """Execute orders of rank 0 until it ends this rank; return the reason of an early end."""
    known = {check["name"]: check for check in checks}

    def run_check(check: Check, number: int) -> None:
        try:
            result = runner.own(check, runner.place.rank)
        except Exception as error:  # noqa: BLE001 - a rank that says nothing is waited for
            result = Outcome(ERROR, f"lumi-verify itself fails: {error!r}")
        if not runner.stop.why:
            connection.send({"id": number, "outcome": result.plain()})

    def execute(message: Mapping[str, Any]) -> None:
        """Execute an order; raise ValueError or KeyError if it is invalid."""
        if "run" in message:
            protocol.check_fields(message, {"run": str, "id": int})
            runner.begin(known[message["run"]])
            pool.submit(run_check, known[message["run"]], message["id"])
        else:
            protocol.check_fields(message, {"halt": str, "why": str})
            runner.halt(known[message["halt"]], message["why"])

    with ThreadPoolExecutor(1) as pool:
        while not runner.stop.why:
            try:
                message = connection.next(_TICK)
                if message and "end" in message:
                    break
                if message:
                    execute(message)
            except (protocol.GoneError, ValueError, KeyError) as error:
                runner.stop.why = f"rank 0: {error}"
    connection.close()
    return runner.stop.why
