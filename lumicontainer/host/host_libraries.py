"""Decide which libraries of the host an image needs besides the ones that its layers name.

The libraries that layers name always come from the host. A dependency of theirs comes from the host
if the image has no library of its name, or one without a version or a symbol that is needed. All
are bound into one folder of the container, which its loader searches first. So the image's own
files stay visible, and the list is the same for every distribution. A library that is opened by an
absolute path (libfabric's provider cxi opens libcurl so) is also bound at that path, if the image
has nothing there.

The C library is never bound: all its parts and its loader must come from one build, and the loader
is the image's. So the image's C library must have what the host's libraries require of it.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from posixpath import basename
from typing import NamedTuple

from lumicontainer.constants import OPEN_PATH
from lumicontainer.core.model import Bind
from lumicontainer.errors import Problem
from lumicontainer.inside.elf.loader import Library, Tree
from lumicontainer.inside.elf.reader import Version, find_opened

FOLDER = "/opt/lumicontainer/host"
"""The folder of the host's libraries in a container."""

GLIBC = frozenset(
    (
        *("ld-linux-x86-64.so.2", "libBrokenLocale.so.1", "libanl.so.1", "libc.so.6"),
        *("libc_malloc_debug.so.0", "libdl.so.2", "libm.so.6", "libmvec.so.1", "libnsl.so.1"),
        *("libnss_compat.so.2", "libnss_dns.so.2", "libnss_files.so.2", "libpthread.so.0"),
        *("libresolv.so.2", "librt.so.1", "libthread_db.so.1", "libutil.so.1"),
    )
)
"""The names of glibc's libraries for x86-64 (its manual, and shlib-versions in its sources)."""

Ask = Callable[[Sequence[str]], Mapping[str, Library]]
"""Returns the libraries that an image has, among names and paths."""


@dataclass(frozen=True)
class Mount:
    """Hold a path of the host, its path in a container, and why it is bound."""

    source: str
    target: str
    reason: str
    mode: str = ""
    """``ro`` makes it read-only in the container."""

    def __str__(self) -> str:
        if self.source == self.target and not self.mode:
            return self.source
        return ":".join(filter(None, (self.source, self.target, self.mode)))


class Closure(NamedTuple):
    """Hold which libraries of the host to bind, and what cannot work."""

    mounts: tuple[Mount, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Problems of the level ``warning`` concern libraries that programs may open, or not."""


def located(bind: Bind, host: Tree, env: Mapping[str, str]) -> Bind:
    """Return a library at its path on this host: the folder of a variable, else the newest.

    A path such as ``${HOME_OF_X:-/opt/x/*}/lib/libx.so`` leaves that open.
    """
    parts = re.fullmatch(OPEN_PATH, bind.path)
    if parts is None:
        return bind
    variable, pattern, rest = parts.groups()
    value = env.get(variable, "") + rest
    if value.startswith("/") and Path(host.file(value)).exists():
        return bind._replace(path=value)
    root = Path(host.file("/"))
    paths = [f"/{path.relative_to(root)}" for path in root.glob((pattern + rest).lstrip("/"))]
    return bind._replace(path=max(paths, key=_numbers, default=pattern + rest))


def _numbers(path: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", path)]


def close(libraries: Sequence[Bind], host: Tree, ask: Ask, *, seen: Sequence[str] = ()) -> Closure:
    """Return what must be bound for ``libraries``, and what cannot work.

    ``seen`` are the paths of the host that are bound at the same path. As long as nothing is known
    of the image, all libraries count, so one question is nearly always enough.
    """
    known: dict[str, Library | None] = {}
    names: set[str] = set()

    def image(name: str) -> Library | None:
        names.add(name)
        return known.get(name)

    while True:
        closure = _closed(libraries, _Work(host, image, tuple(seen)))
        if not (new := sorted(names - known.keys())):
            return closure
        known |= {**dict.fromkeys(new), **ask(new)}


def _closed(libraries: Sequence[Bind], work: "_Work") -> Closure:
    for bind in libraries:
        work.want(bind)
    work.follow()
    work.open()
    problems = [*work.problems, *_unmet(work), *_hidden(work)]
    return Closure(tuple(work.mounts()), tuple(dict.fromkeys(problems)))


@dataclass
class _Work:
    """Hold the libraries found so far."""

    host: Tree
    image: Callable[[str], Library | None]
    """Returns the library of the image by its name or its path."""
    seen: tuple[str, ...]
    bound: dict[str, Library] = field(default_factory=dict)
    """By the name that the loader searches."""
    reasons: dict[str, str] = field(default_factory=dict)
    paths: dict[str, Library] = field(default_factory=dict)
    """The libraries that are opened by their path."""
    origins: dict[str, str] = field(default_factory=dict)
    """By the path of a library: in words, what requires it."""
    optional: set[str] = field(default_factory=set)
    """The paths of libraries that only optional libraries need."""
    problems: list[Problem] = field(default_factory=list)
    queue: deque[tuple[Library, ...]] = field(default_factory=deque)

    def want(self, bind: Bind) -> None:
        library = self.host.find(bind.path)
        if library is None:
            self.problems.append(_absent(bind))
        else:
            self.origins[library.path] = f"a layer: {bind.reason}"
            self._bind(library, bind.reason, (library,))

    def follow(self, *, optional: bool = False) -> None:
        """Add the dependencies of the libraries found, and their dependencies."""
        while self.queue:
            chain = self.queue.popleft()
            for name in chain[0].elf.needed:
                self._need(name, chain, optional=optional)

    def open(self) -> None:
        """Add the libraries that those found open by an absolute path."""
        pending = deque(self.libraries())
        while pending:
            library = pending.popleft()
            for path in find_opened(self.host.file(library.path)):
                known = path in self.paths or path in self.origins
                opened_library = None if known or self.image(path) else self.host.find(path)
                if opened_library is None or opened_library.name in GLIBC:
                    continue
                before = set(self.bound)
                self._open(opened_library, library)
                pending += [
                    opened_library,
                    *(self.bound[name] for name in self.bound.keys() - before),
                ]

    def _open(self, library: Library, opener: Library) -> None:
        self.paths[library.path] = library
        self.origins[library.path] = opens = f"{opener.name} opens it"
        self.reasons[library.path] = f"{opens} by this path, and the image has no such file"
        self.optional.add(library.path)
        self.queue.append((library,))
        self.follow(optional=True)

    def _need(self, name: str, chain: tuple[Library, ...], *, optional: bool) -> None:
        if name in self.bound:
            self._check_path(name, chain)
        if name in GLIBC or name in self.bound:
            return
        asker, mine, theirs = chain[0], self.image(name), self.host.find(name, chain)
        if theirs is None:
            return
        why = self._why(asker, mine, theirs)
        if why:
            self.origins.setdefault(theirs.path, f"{asker.name} needs it")
            if optional:
                self.optional.add(theirs.path)
            self._bind(theirs, f"{asker.name} needs it, and {why}", (theirs, *chain))

    def _check_path(self, name: str, chain: tuple[Library, ...]) -> None:
        """Warn of a library that would load another library than the bound one.

        The loader searches the older kind of path in a library (DT_RPATH) before LD_LIBRARY_PATH.
        """
        asker, ours, theirs = chain[0], self.bound[name], self.host.find(name, chain)
        older = theirs is not None and theirs.own and not asker.elf.runpath
        if theirs and older and self.sees(theirs.path) and not self._same(ours, theirs):
            self.problems.append(_elsewhere(name, asker, ours, theirs))

    def _same(self, one: Library, other: Library) -> bool:
        return self.host.file(one.path) == self.host.file(other.path)

    def _why(self, asker: Library, mine: Library | None, theirs: Library) -> str:
        """Return why the host's library is needed; empty if the image's suffices."""
        if mine is None:
            return "the image has none"
        if theirs.own and self.sees(theirs.path):
            return f"looks for it in {theirs.path.rpartition('/')[0]} first, which is bound"
        missing = next(_missing_in(asker, mine, theirs), "")
        return f"the image's is older: it misses {missing}" if missing else ""

    def _bind(self, library: Library, why: str, chain: tuple[Library, ...]) -> None:
        own = library.elf.soname or library.name
        for name in dict.fromkeys((library.name, own)):
            known = self.bound.setdefault(name, library)
            self.reasons.setdefault(name, why)
            if not self._same(known, library):
                self.problems.append(_twice(name, known, library, self))
        self.queue.append(chain)

    def sees(self, path: str) -> bool:
        """Return whether a path of the host is bound at the same path."""
        both = (PurePosixPath(path), PurePosixPath(self.host.file(path)[len(self.host.root) :]))
        return all(any(map(each.is_relative_to, self.seen)) for each in both)

    def libraries(self) -> list[Library]:
        """Return the libraries of the host in use, each once."""
        every = (*self.bound.values(), *self.paths.values())
        return list({each.path: each for each in every}.values())

    def provider(self, name: str) -> Library | None:
        return self.bound.get(name) or self.image(name)

    def mounts(self) -> Iterator[Mount]:
        for name, library in self.bound.items():
            yield Mount(library.path, f"{FOLDER}/{name}", self.reasons[name])
        for path, library in self.paths.items():
            if not self.sees(path):
                yield Mount(library.path, path, self.reasons[path])

    def problem(self, library: Library, what: str, why: str, hint: str) -> Problem:
        origin = self.origins.get(library.path, "")
        where = f"{library.path} ({origin})" if origin else library.path
        level = "warning" if library.path in self.optional else "error"
        return Problem(what, where, why, hint, level)


def _missing_in(asker: Library, mine: Library, theirs: Library) -> Iterator[str]:
    """Yield what a library requires of another one that the host's has and the image's has not."""
    for version in asker.elf.requires:
        fits = version.name in mine.elf.provides or version.weak
        if version.file == theirs.name and not fits and version.name in theirs.elf.provides:
            yield f"version {version.name}"
    for symbol in asker.elf.undefined:
        if not symbol.weak and symbol.file in ("", theirs.name):
            text = str(symbol)
            if text in theirs.elf.defined and text not in mine.elf.defined:
                yield f"the symbol {text}"


def _unmet(work: _Work) -> Iterator[Problem]:
    """Yield what the loader would refuse at the start or later."""
    for library in work.libraries():
        for name in library.elf.needed:
            if work.provider(name) is None:
                what = f"neither the host nor the image has {name}"
                why = f"{library.name} of the host needs it"
                yield work.problem(library, what, why, _LOAD_MODULE)
        for version in library.elf.requires:
            provider = work.provider(version.file)
            refused = provider and not _gives(provider, version)
            if provider and refused and not version.weak:
                yield _too_new(version, library, provider, work)
        yield from _unmet_symbols(library, work)


def _gives(provider: Library, version: Version) -> bool:
    # The loader accepts a library without versions for any version, with a warning.
    return version.name in provider.elf.provides or not provider.elf.provides


def _unmet_symbols(library: Library, work: _Work) -> Iterator[Problem]:
    """Yield symbols that only the glibc of the host has, under known versions."""
    own = [each for name in sorted(GLIBC) if (each := work.image(name))]
    versions = {version for each in own for version in each.elf.provides}
    for symbol in library.elf.undefined:
        required = symbol.file in GLIBC and not symbol.weak and symbol.version in versions
        if required and not any(str(symbol) in each.elf.defined for each in own):
            what = f"the image's {symbol.file} has no {symbol}"
            why = f"{library.name} of the host needs it: only the host's glibc has it"
            yield work.problem(library, what, why, _OTHER_BASE)


_FROM_SOURCE = "set the layer's provider to 'source'"
_LOAD_MODULE = f"load the host's module that adds its folder to LD_LIBRARY_PATH, or {_FROM_SOURCE}"
_OTHER_BASE = (
    f"build the image on a base with a glibc as new as the host's, or {_FROM_SOURCE}, which needs "
    "no library of the host"
)


def _too_new(version: Version, library: Library, provider: Library, work: _Work) -> Problem:
    pair = (version.file, version.name)
    symbols = [each.name for each in library.elf.undefined if (each.file, each.version) == pair]
    symbol_names = f" for {', '.join(symbols[:5])}" if symbols else ""
    more = f" and {len(symbols) - 5} more" if len(symbols) > 5 else ""
    why = f"{library.name} of the host needs it{symbol_names}{more}"
    if version.file in GLIBC:
        newest = max(provider.elf.provides, key=_numbers, default="")
        what = f"the image's {version.file} has no version {version.name}; its newest is {newest}"
        return work.problem(library, what, why, _OTHER_BASE)
    if version.file in work.bound:
        what = f"two libraries of the host need different versions of {version.file}"
        why += f", and {provider.path}, which comes first, has no version {version.name}"
        return work.problem(library, what, why, "name the newer one in the layer's host_libraries")
    what = f"the image's {version.file} has no version {version.name}, and the host has none"
    return work.problem(library, what, why, "ask your system's support: the host misses it too")


def _hidden(work: _Work) -> Iterator[Problem]:
    """Yield libraries of the image that an older one of the host would hide."""
    for name, theirs in work.bound.items():
        mine = work.image(name)
        # Programs of the image require versions. A library without versions fits all of them.
        if mine is None or not theirs.elf.provides:
            continue
        lost = [each for each in mine.elf.provides if each not in theirs.elf.provides]
        if lost:
            what = f"{name} of the host would hide the image's, which differs"
            missing = ", ".join(lost[:5])
            why = f"programs in the image may need {missing} of {mine.path}; the host's has none"
            hint = f"{_FROM_SOURCE}, or to a version as old as the host's"
            yield work.problem(theirs, what, why, hint)


def _absent(bind: Bind) -> Problem:
    hint = (
        "start the image on a node that has it, or build it with the layer's provider 'source'; "
        "run --platform workstation uses only the image's own libraries"
    )
    what, why = f"the host has no {basename(bind.path)}", f"the image needs it: {bind.reason}"
    return Problem(what, bind.path, why, hint)


def _twice(name: str, first: Library, second: Library, work: _Work) -> Problem:
    what = f"two libraries of the host have the name {name}"
    why = f"only one of {first.path} and {second.path} can be loaded by this name"
    return work.problem(second, what, why, "name only one of them in the layers' host_libraries")


def _elsewhere(name: str, asker: Library, ours: Library, theirs: Library) -> Problem:
    what = f"{asker.name} of the host may load another {name} than the bound one"
    why = f"its path (DT_RPATH) leads to {theirs.path} before {ours.path} is found"
    hint = f"name {theirs.path} in the layer's host_libraries"
    return Problem(what, asker.path, why, hint, "warning")
