"""Run checks with the ranks that a launcher started: rank 0 decides, every rank runs its own."""

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
from .local import NODE, ONCE, RANKS, Team
from .outcome import ERROR, Outcome
from .process import Stop
from .resources import MPI, Place

_TICK = 0.2
_NEXT, _SELDOM = 0.1, 1.0
"""Seconds after which a rank looks for rank 0 again, at first and later: it may start late, and
of a thousand ranks all look into the same folder."""


class Crew(Team):
    """Run checks as rank 0, with the others; alone where it is the only one."""

    def __init__(
        self,
        place: Place,
        env: Mapping[str, str],
        folder: str,
        *,
        stop: Stop | None = None,
        host: server.Host | None = None,
    ) -> None:
        super().__init__(place, env, folder, stop=stop)
        self.host = host
        self._withdraw_key: Callable[[], None] = lambda: None
        self._layout = layout(env)
        self._with_mpi = ""

    def lacking(self, check: Mapping[str, Any]) -> tuple[str, str] | None:
        """Return what a check lacks here; MPI begins once in a step, so one check takes it."""
        lack = super().lacking(check)
        if lack or check.get("runs", ONCE) != RANKS or not check.get("needs", {}).get("mpi"):
            return lack
        if self._with_mpi:
            return MPI, (
                f"MPI can be begun once in a step, and {self._with_mpi} does: "
                f"lumi-verify -k {check['name']} runs it, in a step of its own"
            )
        self._with_mpi = check["name"]
        return None

    def run(self, check: Mapping[str, Any]) -> Outcome:
        """Run a check on the ranks that it is for; return what came of it."""
        self.begin(check)
        runs = check.get("runs", ONCE)
        if runs == ONCE:
            return self.process(check)
        every = range(self.place.ranks)
        wanted = self.firsts() if runs == NODE else every
        absent = self._all_absent()
        if absent and runs == RANKS:
            return _of_absent("it was not run, without", absent)
        with ThreadPoolExecutor(1) as pool:
            jobs = {
                rank: pool.submit(self.own, check, 0)
                if rank == 0
                else self._ordered(rank, check["name"])
                for rank in wanted
            }
            came = self.gathered(check, jobs)
        here = {each.host for each in came}
        lost = [each for each in absent if not each.host or each.host not in here]
        return outcome.together([*came, *lost])

    def gather(self, *, checks: str, seconds: float) -> None:
        """Let the others join; return once they are here, or ``seconds`` are over."""
        place = self.place
        candidates = protocol.ports(self.env, place.launch)
        key = keys.given(self.env)
        listener = server.listen(protocol.address(self.env, place.launch), candidates)
        if key is None:
            key = os.urandom(32)
            port = int(listener.getsockname()[1])
            written = keys.publish(keys.files(self.env, place.launch), port, key)
            self._withdraw_key = partial(keys.withdraw, written, port, key)
        self.host = server.Host(listener, place.ranks, key=key, checks=checks)
        self.host.await_all(seconds, lambda: self.stop.why)
        if not self._all_absent():
            self._withdraw_key()

    def dismiss(self) -> None:
        """Let the others go."""
        self._withdraw_key()
        if self.host:
            self.host.close()

    def own(self, check: Mapping[str, Any], rank: int) -> Outcome:
        """Run this rank's process of a check, with what the launcher told and handed it."""
        if check.get("runs", ONCE) != RANKS:
            return self.process(check, rank)
        return self._process(check, rank, self.env, files=True)

    def halt(self, check: Mapping[str, Any], why: str) -> None:
        """Have every rank end a check."""
        super().halt(check, why)
        if self.host:
            self.host.halt(range(self.place.ranks), check["name"], why)

    def firsts(self) -> list[int]:
        """Return the first rank of each node that is here."""
        nodes = {self.place.node: 0}
        # A copy, for ranks may go at any time.
        guests = dict(self.host.guests) if self.host else {}
        for rank in sorted(guests):
            if not self._why_absent(rank):
                nodes.setdefault(guests[rank].node, rank)
        return list(nodes.values())

    def lost(self) -> Outcome | None:
        """Return what is told of the ranks that did not come, or stay; None where all are here."""
        absent = self._all_absent()
        return _of_absent("it ends without", absent) if absent else None

    def absent(self, rank: int) -> Outcome:
        """Return what is told of a rank that cannot run anything."""
        came = Outcome(ERROR, self._why_absent(rank), rank=rank)
        came.host = self.host.host_of(rank) if self.host else self.place.host
        if not came.host and rank < len(self._layout):
            came.host = self._layout[rank]
        return came

    def late(self, check: Mapping[str, Any], rank: int) -> Outcome:
        """Return what is told of a rank that does not answer in time."""
        came = super().late(check, rank)
        came.host = self.absent(rank).host
        return came

    def _all_absent(self) -> list[Outcome]:
        return [self.absent(rank) for rank in range(self.place.ranks) if self._why_absent(rank)]

    def _why_absent(self, rank: int) -> str:
        if rank == 0 or self.host is None:
            return ""
        if rank in self.host.guests:
            return "it has not answered to an earlier check yet" if self.host.busy(rank) else ""
        return self.host.why_gone(rank) or "it did not come"

    def _ordered(self, rank: int, check: str) -> Future[Outcome]:
        """Have another rank run a check; that it goes away meanwhile is an outcome, too."""
        assert self.host is not None
        answer, came = self.host.order(rank, check), Future[Outcome]()

        def done(answered: Future[Outcome]) -> None:
            if answered.exception() is None:
                came.set_result(answered.result())
                return
            lost = self.absent(rank)
            lost.reason = str(answered.exception())
            came.set_result(lost)

        answer.add_done_callback(done)
        return came


def _of_absent(what: str, absent: Sequence[Outcome]) -> Outcome:
    """Return an error that names the ranks that are not here, with the first one's reason."""
    names = [f"rank {each.rank}{f' on {each.host}' if each.host else ''}" for each in absent[:8]]
    more = f" and {len(absent) - 8} more" if len(absent) > 8 else ""
    came = Outcome(ERROR, f"{what} {', '.join(names)}{more}: {absent[0].reason}")
    came.rank, came.host = absent[0].rank, absent[0].host
    return came


def layout(env: Mapping[str, str]) -> list[str]:
    """Return the node of each rank as far as Slurm's variables tell it, else nothing.

    Slurm hands ranks out node by node unless it is told otherwise (srun --distribution).
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
    """Look for rank 0 from another rank, and keep why it is not found."""

    def __init__(self, crew: Crew) -> None:
        self._env = crew.env
        self._given = keys.given(crew.env)
        self._ports = protocol.ports(crew.env, crew.place.launch)
        self._files = keys.files(crew.env, crew.place.launch)
        self.where = protocol.address(crew.env, crew.place.launch)
        self.why = ""

    def offers(self) -> Iterator[tuple[int, bytes]]:
        """Yield where rank 0 may listen, with the key that it then has."""
        if self._given:
            yield from ((port, self._given) for port in self._ports)
            return
        known = set()
        for path in self._files:
            try:
                offer = keys.read(path)
            except keys.UntrustedError as error:
                self.why = f"its key is not trusted: {error}"
                continue
            if offer and offer not in known:
                known.add(offer)
                yield offer
        if not known and not self.why:
            self.why = f"it has left no key in {' or '.join(map(os.path.dirname, self._files))}"

    def once(self, me: Mapping[str, Any]) -> client.Door | None:
        """Join rank 0 where it is there; else keep the reason."""
        for port, key in self.offers():
            try:
                return client.join(self.where, port, key=key, me=me)
            except client.RefusedError as error:
                self.why = f"port {port}: {error}"
            except OSError as error:
                self.why = self.why or f"port {port}: {error.strerror or error}"
        return None


def find(crew: Crew, *, checks: str, seconds: float) -> client.Door | None:
    """Return the way to rank 0, None where this is interrupted.

    Raises LaunchError where rank 0 is not found in ``seconds``.
    """
    place, search = crew.place, Search(crew)
    me = {"rank": place.rank, "node": place.node, "host": place.host, "checks": checks}
    end, pause = time.monotonic() + seconds, _NEXT
    while time.monotonic() < end and not crew.stop.why:
        door = search.once(me)
        if door:
            return door
        time.sleep(pause)
        pause = min(1.5 * pause, _SELDOM)
    if crew.stop.why:
        return None
    raise LaunchError(
        f"rank {place.rank} did not find rank 0 in {seconds:.0f} s",
        where=search.where,
        why=search.why,
        hint="see what became of rank 0, and run the same image on every rank; where the nodes "
        f"share no folder: {keys.SET_ONE}",
        code=UNFIT,
    )


def serve(crew: Crew, door: client.Door, checks: Sequence[Mapping[str, Any]]) -> str:
    """Do as rank 0 orders until it lets this rank go; return why it ended otherwise."""
    known = {check["name"]: check for check in checks}

    def obey(check: Mapping[str, Any], number: int) -> None:
        try:
            came = crew.own(check, crew.place.rank)
        except Exception as error:  # noqa: BLE001 - a rank that says nothing is waited for
            came = Outcome(ERROR, f"lumi-verify itself fails here: {error!r}")
        if not crew.stop.why:
            door.tell({"id": number, "came": came.plain()})

    def heed(message: Mapping[str, Any]) -> None:
        """Do what an order says; raise ValueError or KeyError where it is none."""
        if "run" in message:
            protocol.check_fields(message, {"run": str, "id": int})
            crew.begin(known[message["run"]])
            pool.submit(obey, known[message["run"]], message["id"])
        else:
            protocol.check_fields(message, {"halt": str, "why": str})
            crew.halt(known[message["halt"]], message["why"])

    with ThreadPoolExecutor(1) as pool:
        while not crew.stop.why:
            try:
                message = door.next(_TICK)
                if message and "end" in message:
                    break
                if message:
                    heed(message)
            except (protocol.GoneError, ValueError, KeyError) as error:
                crew.stop.why = f"rank 0: {error}"
    door.close()
    return crew.stop.why
