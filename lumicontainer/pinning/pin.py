"""Make the lock of an image: ask the origin of each input for its current version."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from packaging.requirements import InvalidRequirement, Requirement

from lumicontainer.core.lock import Lock, LockEntry, lock_with
from lumicontainer.core.model import source
from lumicontainer.core.model.source import APT, DEBOOTSTRAP, IMAGE, PYTHON, SDIST, Input
from lumicontainer.core.model.wheel_names import normal
from lumicontainer.core.plan.steps import Plan
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.resolve.facts import facts_of
from lumicontainer.core.resolve.inputs import BUILD_REQUIREMENTS, base_label, inputs
from lumicontainer.errors import HostError, InputError, LumicontainerError, Problem, SpaceError
from lumicontainer.host.site import Site, read_site
from lumicontainer.host.uv import find_refusing_indexes
from lumicontainer.pinning import apt, sdists, sources
from lumicontainer.pinning.uv import Resolver
from lumicontainer.pinning.wheels import Query, Target, Wheel, is_of
from lumicontainer.sandbox.failures import missing_packages
from lumicontainer.system import units
from lumicontainer.system.terminal.progress import Progress

RECIPE = "the recipe"
_BASE = "apt on the base"
_SHOWN = 8
T = TypeVar("T")


def make_lock(
    resolved: Resolved,
    *,
    plan_of: Callable[[Resolved], Plan],
    mirrors: Mapping[str, str],
    progress: Progress,
) -> Lock:
    """Return the lock of an image; inputs without an answer are open, with the reason.

    Raises ``InputError`` if a recipe names a package that does not exist.
    """
    bootstrap = resolved.bootstrap
    release = bootstrap.release if bootstrap.by_debootstrap else ""
    layers: dict[str, list[LockEntry]] = {layer.name: [] for layer in resolved.included()}
    maker = _Maker(resolved, read_site(release, mirrors), progress, plan_of, layers)
    for each in inputs(resolved):
        if each.pinned and each.kind != APT:
            maker.add(each, LockEntry(each.kind, each.name, each.where, each.stated, RECIPE))
    maker.sources()
    maker.base()
    maker.python()
    if maker.wrong:
        raise InputError(*maker.wrong)
    return lock_with(resolved, maker.layers)


@dataclass
class _Maker:
    """Gather the entries of a lock, layer by layer."""

    resolved: Resolved
    site: Site
    progress: Progress
    plan_of: Callable[[Resolved], Plan]
    layers: dict[str, list[LockEntry]]
    known: dict[str, LockEntry] = field(default_factory=dict)
    """The wheels of the image by the names of their packages."""
    wrong: list[Problem] = field(default_factory=list)
    """Names in the recipe that do not exist."""
    resolver: Resolver = field(init=False)
    """Finds the wheels, if the image has a Python."""

    def open_inputs(self, *kinds: str) -> list[Input]:
        """Return the inputs of these kinds that the recipe leaves open.

        Apt packages with a version are among them: their dependencies are open.
        """
        chosen = [each for each in inputs(self.resolved) if each.kind in kinds]
        return [each for each in chosen if each.kind == APT or not each.pinned]

    def add(self, of: Input, entry: LockEntry) -> None:
        self.layers[of.layer].append(entry)
        if entry.open:
            self.progress.say(f"not pinned: {of.layer}: {of.label}: {entry.open}")

    def pin(self, of: Input, pin: str, origin: str) -> None:
        self.add(of, LockEntry(of.kind, of.name, of.where, pin, origin))

    def leave(self, of: Input, why: str) -> None:
        self.add(of, LockEntry(of.kind, of.name, of.where, open=why))

    def attempt(self, ask: Callable[[], T]) -> T | None:
        """Return an answer; on an error, report it and return None."""
        try:
            return ask()
        except SpaceError:
            raise
        except LumicontainerError as error:
            self.progress.say(str(error))
            return None

    def find(self, of: Input, ask: Callable[[], str], origin: str, why: str) -> None:
        """Add the pin that ``ask`` returns; on an error, leave the input open."""
        if pin := self.attempt(ask):
            self.pin(of, pin, origin)
        else:
            self.leave(of, why)

    def sources(self) -> None:
        """Pin the sources of steps, and the base image."""
        for each in self.open_inputs(*sources.ORIGINS):
            origin, why = sources.ORIGINS[each.kind]
            with self.progress.step(f"pin {each.label}"):
                self.find(each, partial(sources.current_pin, each, self.site), origin, why)

    def base(self) -> None:
        """Pin the packages of the base, and the apt packages of the layers."""
        requests = self.open_inputs(DEBOOTSTRAP, APT)
        if not requests:
            return
        plan_of, site = self.plan_of, self.site
        answers = self.attempt(lambda: apt.ask(plan_of(self._with_base()), site, self.progress))
        if answers is None:
            for each in requests:
                self.leave(each, "the base could not be made here")
            return
        present = dict(answers.present)
        for each in self.open_inputs(DEBOOTSTRAP):
            self.pin(each, answers.base, f"the list of its {len(present)} packages")
        self.wrong += _refused(self.resolved, answers)
        for layer in self.layers:
            present |= answers.layers.get(layer, {})
            mine = [each for each in requests if each.layer == layer and each.kind == APT]
            pins = {name: answers.pin(name, version) for name, version in present.items()}
            self._apt(mine, answers.layers.get(layer), pins)

    def _apt(
        self, mine: Sequence[Input], closure: Iterable[str] | None, pins: Mapping[str, str]
    ) -> None:
        named = {each.name.partition("=")[0]: each for each in mine}
        for name, each in named.items():
            if closure is None:
                why = "apt does not find it, its repository, or another package of its layer"
                self.leave(each, why)
            elif name not in pins:
                self.leave(each, "apt names no version of it")
            else:
                self.pin(each, pins[name], _BASE)
        for name in closure or ():
            if name not in named:
                entry = LockEntry(APT, name, pin=pins[name], origin=_BASE, dependency=True)
                self.layers[mine[0].layer].append(entry)

    def _with_base(self) -> Resolved:
        bootstrap, layer = self.resolved.bootstrap, self.resolved.layers[0].name
        if bootstrap.by_debootstrap:
            return self.resolved
        pins = [entry.pin for entry in self.layers[layer] if entry.kind == IMAGE and entry.pin]
        if not pins:
            raise HostError(Problem(f"the base is not known: {base_label(bootstrap)}"))
        return self.resolved._replace(bootstrap=bootstrap._replace(image=pins[0]))

    def python(self) -> None:
        """Pin the Python packages of the image, and those that compile it."""
        requests = self.open_inputs(PYTHON, SDIST)
        facts = facts_of(self.resolved)
        versions = [[each.value for each in facts.get(name, ())] for name in ("python", "glibc")]
        python, glibc = (next(filter(None, values), "") for values in versions)
        if not python:
            for each in requests:
                self.leave(each, "no layer says under 'provides' which Python the image has")
        elif requests:
            self.resolver = Resolver(Target(python, glibc), self.progress.say)
            named = next((each.name for each in requests if each.kind == PYTHON), "pip")
            for warning in find_refusing_indexes(self.site, normal(Requirement(named).name)):
                self.progress.say(str(warning))
            self._ask_layers(requests)

    def _ask_layers(self, requests: Sequence[Input]) -> None:
        """Ask layer by layer: packages of the layers below are not installed twice."""
        below: dict[str, dict[str, str]] = {}
        for each in requests:
            if each.kind == SDIST:
                why = "pip did not find its source"
                self.find(each, partial(self.resolver.pip.source, each.name), "its source", why)
        for layer in self.resolved.included():
            mine = [each for each in requests if each.kind == PYTHON and each.layer == layer.name]
            named = [each.name for each in mine]
            present, same = (_agreeing(each, named) for each in _seen_by(layer, below))
            below[layer.name] = _provided(layer)
            present |= below[layer.name]
            for file in sorted({each.where for each in mine}, reverse=True):
                group = [each for each in mine if each.where == file]
                if file == BUILD_REQUIREMENTS:
                    self._wheels(group, {}, {})
                    continue
                wheels = self._wheels(group, present, same)
                present |= wheels
                below[layer.name] |= wheels

    def _wheels(
        self, group: Sequence[Input], present: Mapping[str, str], same: Mapping[str, str]
    ) -> dict[str, str]:
        index = next((each.index_url for each in group if each.index_url), "")
        names = [each.name for each in group]
        with self.progress.step(f"{group[0].layer}: {units.count(len(group), 'package')}"):
            wheels = self._find_wheels(group, Query(names, present, same, index))
        if wheels is None:
            return {}
        layer, where = group[0].layer, group[0].where
        entries = {normal(each.name): _entry(each, where, index) for each in wheels}
        for each in group:
            # The package of a layer below is not installed twice, and still pins the input.
            self._one_of({**self.known, **entries}, each)
        others = entries.keys() - set(map(normal, names))
        self.layers[layer] += [
            entry._replace(dependency=True) for name, entry in entries.items() if name in others
        ]
        self.layers[layer] += [
            _entry(needed, "", index)._replace(dependency=True, builds=normal(each.name))
            for each in wheels
            for needed in each.built_with
        ]
        self.known |= {} if where == BUILD_REQUIREMENTS else entries
        return {normal(each.name): each.version for each in wheels}

    def _find_wheels(self, group: Sequence[Input], query: Query) -> list[Wheel] | None:
        """Return the wheels found here, else in the image; None where requirements stay open."""
        try:
            wheels = self.resolver.wheels(query)
            # A script that reads the file itself may not be able to build a source.
            source = "" if group[0].where else self.resolver.source_in_the_way(query, wheels)
            return self._of_sources(group, query.index, source) if source else wheels
        except LumicontainerError as error:
            missing = {each.word: each for each in missing_packages.absent(error.problems[0].why)}
            pip, index = self.resolver.pip, query.index
            if word := next((each for each in missing if pip.has_source(each, index)), ""):
                return self._of_sources(group, index, word)
            self.progress.say(str(error))
            for each in group:
                self.leave(each, _no_wheel(missing.get(each.name.replace(" ", ""))))
            return None

    def _of_sources(self, group: Sequence[Input], index: str, word: str) -> list[Wheel] | None:
        """Ask in the image, where code of sources may run; None if that fails."""
        layer, where = group[0].layer, group[0].where
        lines = [*([f"--extra-index-url {index}"] if index else []), *(each.name for each in group)]
        try:
            if where:
                what = f"a script of the layer reads '{where}', and could build it in another way"
                raise HostError(Problem(what, hint="name it in 'packages: python' of layer.yaml"))
            self.progress.say(f"{layer}: {word} has no wheel: asking the pip of the image")
            image = sdists.asking(self.resolved, layer, lines, self.layers)
            return sdists.ask(self.plan_of(image), self.site, self.progress)
        except SpaceError:
            raise
        except LumicontainerError as error:
            self.progress.say(str(error))
            first = error.problems[0]
            # The hint of a failed step names a log of this host.
            hint = first.hint if isinstance(error, HostError) else "lock it once more to see why"
            why = "; ".join(filter(None, (f"{word} has no wheel", first.what, hint)))
            for each in group:
                self.leave(each, " ".join(why.split()))
            return None

    def _one_of(self, known: Mapping[str, LockEntry], each: Input) -> None:
        entry = known.get(normal(each.name))
        if entry is None:
            self.leave(each, "a layer below provides it, from no index")
        else:
            index = each.index_url or entry.index_url
            self.add(each, entry._replace(name=each.name, where=each.where, index_url=index))


def _refused(resolved: Resolved, answers: apt.Answers) -> Iterator[Problem]:
    layers = {layer.name: layer for layer in resolved.included()}
    for name, text in answers.refused.items():
        for each in missing_packages.absent(text):
            if problem := missing_packages.problem_of(each, layers[name], answers.names):
                yield problem


def _no_wheel(missing: missing_packages.Absent | None) -> str:
    if missing is None:
        return "pip finds no wheels of it, or none that fit the others"
    offered = ", ".join(missing.offered[-_SHOWN:])
    return "the configured index has no wheel of it" + (f"; it has {offered}" if offered else "")


def _entry(wheel: Wheel, where: str, index: str) -> LockEntry:
    index = index if is_of(wheel, index) else ""
    if not wheel.sha256:
        why = "its index has no sha256 of it"
        return LockEntry(PYTHON, normal(wheel.name), where, index_url=index, open=why)
    return LockEntry(PYTHON, normal(wheel.name), where, wheel.line, wheel.file, index)


def _seen_by(
    layer: ResolvedLayer, below: Mapping[str, Mapping[str, str]]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return the Python packages that a layer finds, and those that it must agree with.

    A layer compiles on the layers up to the last that it requires, and is installed on all. It does
    not find the packages of the layers between, and must use the same versions of them.
    """
    order = list(below)
    if any(file.name == layer.compile for file in layer.files):
        last = max((order.index(name) for name in layer.requires if name in below), default=0)
        order = order[: last + 1]
    versions = {name: version for each in order for name, version in below[each].items()}
    everything = [pair for each in below.values() for pair in each.items()]
    return versions, {name: version for name, version in everything if name not in versions}


def _agreeing(versions: Mapping[str, str], requirements: Iterable[str]) -> dict[str, str]:
    """Return the versions that meet the requirements; a layer replaces the others."""
    agreed = {}
    for each in requirements:
        with suppress(InvalidRequirement):  # Pip reports it.
            agreed[normal(each)] = Requirement(each).specifier

    def agrees(name: str) -> bool:
        return name not in agreed or agreed[name].contains(versions[name], prereleases=True)

    return {name: versions[name] for name in filter(agrees, versions)}


def _provided(layer: ResolvedLayer) -> dict[str, str]:
    """Return the Python packages of a layer's sources, with their versions."""
    names = source.python_packages(layer.content.sources, layer.values().get("version", ""))
    return {normal(name): version for name, version in names}
