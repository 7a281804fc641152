"""Decide which libraries of the host an image needs beside those that its layers name.

What the layers name comes from the host in any case. Of what these need in turn, a library comes
from the host where the image has none of its name, or one that lacks what is asked of it. They all
lie in one folder of the container, which its loader searches first, and not over the image's own
files: so the list is the same for every distribution, and nothing has to be mounted into a system
folder. What a library opens by an absolute path (libcxi does so with libcurl) is seen at that path
as well, where the image has nothing there.

The C library itself is never bound: all parts of it and its loader must be of one build, and the
loader is the image's. So what libraries of the host ask of it must be in the image's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from posixpath import basename

from lumicontainer.core.model import Bind
from lumicontainer.errors import Problem
from lumicontainer.inside.elf.loader import Library, Tree
from lumicontainer.inside.elf.reader import Symbol, Version, opened

FOLDER = "/opt/lumicontainer/host"
"""Where the libraries of the host lie in a container."""

GLIBC = frozenset(
    (
        "ld-linux-x86-64.so.2",
        "libBrokenLocale.so.1",
        "libanl.so.1",
        "libc.so.6",
        "libc_malloc_debug.so.0",
        "libdl.so.2",
        "libm.so.6",
        "libmvec.so.1",
        "libnsl.so.1",
        "libnss_compat.so.2",
        "libnss_dns.so.2",
        "libnss_files.so.2",
        "libpthread.so.0",
        "libresolv.so.2",
        "librt.so.1",
        "libthread_db.so.1",
        "libutil.so.1",
    )
)
"""The names of glibc's libraries for x86-64 (its manual, and shlib-versions in its sources)."""

Image = Callable[[str], Library | None]
"""Return what an image has under a library's name, or at a path."""


@dataclass(frozen=True)
class Mount:
    """Say what of the host is seen where in a container, and why."""

    source: str
    target: str
    reason: str
    mode: str = ""
    """``ro`` keeps the container from changing it, where file permissions would not."""

    def __str__(self) -> str:
        if self.source == self.target and not self.mode:
            return self.source
        return ":".join(filter(None, (self.source, self.target, self.mode)))


@dataclass(frozen=True)
class Closure:
    """Hold which libraries of the host to bind, and what cannot work."""

    mounts: tuple[Mount, ...] = ()
    problems: tuple[Problem, ...] = ()
    """Those of the level ``warning`` concern libraries that may be opened, and need not be."""


def names(wanted: Sequence[Bind], host: Tree) -> list[str]:
    """Return every name and path that ``close`` can ask an image for."""
    found = dict.fromkeys(sorted(GLIBC))
    queue: deque[tuple[Library, ...]] = deque()
    queue.extend((library,) for bind in wanted if (library := host.find(bind.path)))
    seen: set[str] = set()
    while queue:
        chain = queue.popleft()
        library = chain[0]
        found |= dict.fromkeys((library.name, library.elf.soname))
        if library.path in seen or library.name in GLIBC:
            continue
        seen.add(library.path)
        found |= dict.fromkeys(library.elf.needed)
        below = [host.find(name, chain) for name in library.elf.needed]
        paths = opened(host.file(library.path))
        found |= dict.fromkeys(paths)
        queue.extend((each, *chain) for each in below if each)
        queue.extend((each,) for path in paths if (each := host.find(path)))
    return [name for name in found if name]


def close(wanted: Sequence[Bind], host: Tree, image: Image, *, seen: Sequence[str] = ()) -> Closure:
    """Return what must be bound for ``wanted``, and what cannot work.

    ``seen`` are the paths of the host that containers see at the same place.
    """
    work = _Work(host, image, tuple(seen))
    for bind in wanted:
        work.want(bind)
    work.follow()
    work.open()
    problems = [*work.problems, *_unmet(work), *_hidden(work)]
    return Closure(tuple(work.mounts()), tuple(dict.fromkeys(problems)))


@dataclass
class _Work:
    """Hold what was found so far."""

    host: Tree
    image: Image
    seen: tuple[str, ...]
    bound: dict[str, Library] = field(default_factory=dict)
    """By the name that the loader asks for."""
    reasons: dict[str, str] = field(default_factory=dict)
    paths: dict[str, Library] = field(default_factory=dict)
    """What is opened by its path."""
    asked: dict[str, str] = field(default_factory=dict)
    """By the path of a library: in words, who asks for it."""
    optional: set[str] = field(default_factory=set)
    """The paths of the libraries that only those need which may be opened."""
    problems: list[Problem] = field(default_factory=list)
    queue: deque[tuple[Library, ...]] = field(default_factory=deque)

    def want(self, bind: Bind) -> None:
        """Take what a layer names."""
        library = self.host.find(bind.path)
        if library is None:
            self.problems.append(_absent(bind))
        else:
            self.asked[library.path] = f"a layer: {bind.reason}"
            self._bind(library, bind.reason, (library,))

    def follow(self, *, optional: bool = False) -> None:
        """Take what the libraries at hand need, and these in turn."""
        while self.queue:
            chain = self.queue.popleft()
            for name in chain[0].elf.needed:
                self._need(name, chain, optional=optional)

    def open(self) -> None:
        """Take what the libraries at hand open by an absolute path."""
        pending = deque(self.libraries())
        while pending:
            library = pending.popleft()
            for path in opened(self.host.file(library.path)):
                known = path in self.paths or path in self.asked
                found = None if known or self.image(path) else self.host.find(path)
                if found is None or found.name in GLIBC:
                    continue
                before = set(self.bound)
                self._open(found, library)
                pending += [found, *(self.bound[name] for name in self.bound.keys() - before)]

    def _open(self, library: Library, opener: Library) -> None:
        self.paths[library.path] = library
        self.asked[library.path] = f"{opener.name} opens it"
        self.reasons[library.path] = (
            f"{opener.name} opens it by this path, where the image has none"
        )
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
            self.asked.setdefault(theirs.path, f"{asker.name} needs it")
            if optional:
                self.optional.add(theirs.path)
            self._bind(theirs, f"{asker.name} needs it, and {why}", (theirs, *chain))

    def _check_path(self, name: str, chain: tuple[Library, ...]) -> None:
        """Note a library that would get another one than what is bound.

        The older kind of path in a library (DT_RPATH) is searched before LD_LIBRARY_PATH.
        """
        asker, ours, theirs = chain[0], self.bound[name], self.host.find(name, chain)
        older = theirs is not None and theirs.own and not asker.elf.runpath
        if theirs and older and self.sees(theirs.path) and not self._same(ours, theirs):
            self.problems.append(_elsewhere(name, asker, ours, theirs))

    def _same(self, one: Library, other: Library) -> bool:
        return self.host.file(one.path) == self.host.file(other.path)

    def _why(self, asker: Library, mine: Library | None, theirs: Library) -> str:
        """Return why the host's library has to be taken; nothing where the image's will do."""
        if mine is None:
            return "the image has none"
        if theirs.own and self.sees(theirs.path):
            return f"looks for it in {theirs.path.rpartition('/')[0]} first, which is bound"
        lacking = next(iter(_lacking(asker, mine, theirs)), "")
        return f"the image's is older: it lacks {lacking}" if lacking else ""

    def _bind(self, library: Library, why: str, chain: tuple[Library, ...]) -> None:
        own = library.elf.soname or library.name
        for name in dict.fromkeys((library.name, own)):
            known = self.bound.setdefault(name, library)
            self.reasons.setdefault(name, why)
            if not self._same(known, library):
                self.problems.append(_twice(name, known, library, self))
        self.queue.append(chain)

    def sees(self, path: str) -> bool:
        """Tell whether a path of the host is seen at the same place in the container."""
        real = self.host.file(path)[len(self.host.root) :]
        return all(
            any(each == top or each.startswith(top.rstrip("/") + "/") for top in self.seen)
            for each in (path, real)
        )

    def libraries(self) -> list[Library]:
        """Return the libraries of the host that are used, each once."""
        found = {each.path: each for each in (*self.bound.values(), *self.paths.values())}
        return list(found.values())

    def provider(self, name: str) -> Library | None:
        """Return the library that programs in the container get under a name."""
        return self.bound.get(name) or self.image(name)

    def mounts(self) -> Iterator[Mount]:
        """Yield what to bind."""
        for name, library in self.bound.items():
            yield Mount(library.path, f"{FOLDER}/{name}", self.reasons[name])
        for path, library in self.paths.items():
            if not self.sees(path):
                yield Mount(library.path, path, self.reasons[path])

    def problem(self, library: Library, what: str, why: str, hint: str) -> Problem:
        """Return a problem of a library of the host."""
        asked = self.asked.get(library.path, "")
        where = f"{library.path} ({asked})" if asked else library.path
        level = "warning" if library.path in self.optional else "error"
        return Problem(what, where, why, hint, level)


def _lacking(asker: Library, mine: Library, theirs: Library) -> Iterator[str]:
    """Yield what a library asks of another that the host's has and the image's has not."""
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
    """Yield what the loader would refuse, or miss once the program runs."""
    for library in work.libraries():
        for name in library.elf.needed:
            if work.provider(name) is None:
                yield _missing(name, library, work)
        for version in library.elf.requires:
            provider = work.provider(version.file)
            refused = provider and not _gives(provider, version)
            if provider and refused and not version.weak:
                yield _too_new(version, library, provider, work)
        yield from _unmet_symbols(library, work)


def _gives(provider: Library, version: Version) -> bool:
    # The loader takes a library without versions for any version, and says so on stderr.
    return version.name in provider.elf.provides or not provider.elf.provides


def _unmet_symbols(library: Library, work: _Work) -> Iterator[Problem]:
    """Yield symbols that glibc has on the host and has not in the image, under known versions."""
    own = [each for name in sorted(GLIBC) if (each := work.image(name))]
    versions = {version for each in own for version in each.elf.provides}
    for symbol in library.elf.undefined:
        wanted = symbol.file in GLIBC and not symbol.weak and symbol.version in versions
        if wanted and not any(str(symbol) in each.elf.defined for each in own):
            yield work.problem(
                library,
                f"the image's {symbol.file} has no {symbol}",
                f"{library.name} of the host asks for it: it belongs to the host's glibc alone",
                _OTHER_BASE,
            )


_OTHER_BASE = (
    "build the image upon a base with a glibc as new as the host's, or take the layer's "
    "provider 'source', which needs no library of the host"
)


def _too_new(version: Version, library: Library, provider: Library, work: _Work) -> Problem:
    symbols = [each for each in library.elf.undefined if _is_of(each, version)]
    asked = f" for {', '.join(each.name for each in symbols[:5])}" if symbols else ""
    more = f" and {len(symbols) - 5} more" if len(symbols) > 5 else ""
    why = f"{library.name} of the host wants it{asked}{more}"
    if version.file in GLIBC:
        newest = max(provider.elf.provides, key=_number, default="")
        what = f"the image's {version.file} has no version {version.name}; its newest is {newest}"
        return work.problem(library, what, why, _OTHER_BASE)
    if version.file in work.bound:
        what = f"two libraries of the host want different {version.file}"
        why += f", and {provider.path}, which comes first, has no version {version.name}"
        return work.problem(library, what, why, "name the newer one in the layer's host_libraries")
    what = f"the image's {version.file} has no version {version.name}, and the host has none"
    return work.problem(library, what, why, "ask your system's support: it is broken there too")


def _number(version: str) -> tuple[int, ...]:
    digits = version.rpartition("_")[2].split(".")
    return tuple(int(each) for each in digits if each.isdigit())


def _is_of(symbol: Symbol, version: Version) -> bool:
    return (symbol.file, symbol.version) == (version.file, version.name)


def _hidden(work: _Work) -> Iterator[Problem]:
    """Yield libraries of the image that an older one of the host would take the place of."""
    for name, theirs in work.bound.items():
        mine = work.image(name)
        # Programs of the image ask for versions; of a library without any they take everything.
        if mine is None or not theirs.elf.provides:
            continue
        lost = [each for each in mine.elf.provides if each not in theirs.elf.provides]
        if lost:
            yield work.problem(
                theirs,
                f"{name} of the host would take the place of the image's, which is another one",
                f"programs in the image may ask {mine.path} for {', '.join(lost[:5])}, "
                "which the host's lacks",
                "take the layer's provider 'source', or a version of it that is as old as the "
                "host's",
            )


def _absent(bind: Bind) -> Problem:
    return Problem(
        f"the host has no {basename(bind.path)}",
        bind.path,
        f"the image wants it of the host: {bind.reason}",
        "start it on a node that has it, or build the image with the layer's provider 'source'; "
        "run --platform workstation takes the image's own libraries alone",
    )


def _missing(name: str, library: Library, work: _Work) -> Problem:
    return work.problem(
        library,
        f"there is no {name}, neither on the host nor in the image",
        f"{library.name} of the host needs it",
        "load the host's module that puts its folder into LD_LIBRARY_PATH, or take the layer's "
        "provider 'source'",
    )


def _twice(name: str, first: Library, second: Library, work: _Work) -> Problem:
    return work.problem(
        second,
        f"two libraries of the host have the name {name}",
        f"{first.path} and {second.path} cannot both be loaded under it",
        "name one of them in the layers' host_libraries, and not the other",
    )


def _elsewhere(name: str, asker: Library, ours: Library, theirs: Library) -> Problem:
    return Problem(
        f"{asker.name} of the host may get another {name} than the one that is bound",
        asker.path,
        f"the path written in it (DT_RPATH) leads to {theirs.path} before {ours.path} is found",
        f"name {theirs.path} in the layer's host_libraries",
        "warning",
    )
