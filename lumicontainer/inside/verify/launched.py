"""Run checks with the ranks of a launcher: rank 0 orders, and each rank runs its processes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

from ..errors import UNFIT, LaunchError
from ..launch import launchers
from ..launch.hostlist import HostlistError, expand
from . import outcome
from .channel import client, keys, protocol, server
from .local import NODE, ONCE, RANKS, Runner
from .outcome import ERROR, Outcome
from .process import Stop
from .resources import MPI, Place

_TICK = 0.2
_NEXT, _SELDOM = 0.1, 1.0
"""Seconds between attempts to find rank 0, at first and later. Rank 0 may start late, and a
thousand ranks read the same folder."""


class LaunchedRunner(Runner):
    """Run checks as rank 0 together with the other ranks, if there are others."""

    def __init__(
        self,
        place: Place,
        env: Mapping[str, str],
        folder: str,
        *,
        stop: Stop | None = None,
        server_: server.Server | None = None,
    ) -> None:
        super().__init__(place, env, folder, stop=stop)
        self.server = server_
        self._withdraw_key: Callable[[], None] = lambda: None
        self._layout = layout(env)
        self._with_mpi = ""

    def unmet_need(self, check: Mapping[str, Any]) -> tuple[str, str] | None:
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

    def run(self, check: Mapping[str, Any]) -> Outcome:
        """Run a check on its ranks; return the outcome."""
        self.begin(check)
        runs = check.get("runs", ONCE)
        if runs == ONCE:
            return self.process(check)
        every = range(self.place.ranks)
        wanted = self.firsts() if runs == NODE else every
        absent = self._all_absent()
        if absent and runs == RANKS:
            return _of_absent("not run, without", absent)
        with ThreadPoolExecutor(1) as pool:
            jobs = {
                rank: pool.submit(self.own, check, 0)
                if rank == 0
                else self._ordered(rank, check["name"])
                for rank in wanted
            }
            result = self.gathered(check, jobs)
        here = {each.host for each in result}
        lost = [each for each in absent if not each.host or each.host not in here]
        return outcome.together([*result, *lost])

    def gather(self, *, checks: str, seconds: float) -> None:
        """Let the other ranks join, for at most ``seconds``."""
        place = self.place
        candidates = protocol.ports(self.env, place.launch)
        key = keys.given(self.env)
        listener = server.listen(protocol.address(self.env, place.launch), candidates)
        if key is None:
            key = os.urandom(32)
            port = int(listener.getsockname()[1])
            written = keys.publish(keys.files(self.env, place.launch), port, key)
            self._withdraw_key = partial(keys.withdraw, written, port, key)
        self.server = server.Server(listener, place.ranks, key=key, checks=checks)
        self.server.await_all(seconds, lambda: self.stop.why)
        if not self._all_absent():
            self._withdraw_key()

    def dismiss(self) -> None:
        """End the other ranks."""
        self._withdraw_key()
        if self.server:
            self.server.close()

    def own(self, check: Mapping[str, Any], rank: int) -> Outcome:
        """Run this rank's process of a check, with the launcher's variables and open files."""
        if check.get("runs", ONCE) != RANKS:
            return self.process(check, rank)
        return self._process(check, rank, self.env, files=True)

    def halt(self, check: Mapping[str, Any], why: str) -> None:
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

    def late(self, check: Mapping[str, Any], rank: int) -> Outcome:
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


class Search:
    """Find rank 0 from another rank, and keep the reason of a failure."""

    def __init__(self, runner: LaunchedRunner) -> None:
        self._env = runner.env
        self._given = keys.given(runner.env)
        self._ports = protocol.ports(runner.env, runner.place.launch)
        self._files = keys.files(runner.env, runner.place.launch)
        self.where = protocol.address(runner.env, runner.place.launch)
        self.why = ""

    def offers(self) -> Iterator[tuple[int, bytes]]:
        """Yield each port at which rank 0 may listen, with its key."""
        if self._given:
            yield from ((port, self._given) for port in self._ports)
            return
        known = set()
        for path in self._files:
            try:
                offer = keys.read(path)
            except keys.UntrustedError as error:
                self.why = f"its key cannot be trusted: {error}"
                continue
            if offer and offer not in known:
                known.add(offer)
                yield offer
        if not known and not self.why:
            self.why = (
                f"there is no key of rank 0 in {' or '.join(map(os.path.dirname, self._files))}"
            )

    def once(self, me: Mapping[str, Any]) -> client.Connection | None:
        """Join rank 0; on failure keep the reason."""
        for port, key in self.offers():
            try:
                return client.join(self.where, port, key=key, me=me)
            except client.RefusedError as error:
                self.why = f"port {port}: {error}"
            except OSError as error:
                self.why = self.why or f"port {port}: {error.strerror or error}"
        return None


def find(runner: LaunchedRunner, *, checks: str, seconds: float) -> client.Connection | None:
    """Return the connection to rank 0, None after an interrupt.

    Raises LaunchError if rank 0 is not found within ``seconds``.
    """
    place, search = runner.place, Search(runner)
    me = {"rank": place.rank, "node": place.node, "host": place.host, "checks": checks}
    end, pause = time.monotonic() + seconds, _NEXT
    while time.monotonic() < end and not runner.stop.why:
        connection = search.once(me)
        if connection:
            return connection
        time.sleep(pause)
        pause = min(1.5 * pause, _SELDOM)
    if runner.stop.why:
        return None
    raise LaunchError(
        f"rank {place.rank} did not find rank 0 within {seconds:.0f} s",
        where=search.where,
        why=search.why,
        hint="read the messages of rank 0, and run the same image on every rank; if the nodes "
        f"share no folder: {keys.SET_ONE}",
        code=UNFIT,
    )


def serve(
    runner: LaunchedRunner, connection: client.Connection, checks: Sequence[Mapping[str, Any]]
) -> str:
    """Execute orders of rank 0 until it ends this rank; return the reason of an early end."""
    known = {check["name"]: check for check in checks}

    def run_check(check: Mapping[str, Any], number: int) -> None:
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
