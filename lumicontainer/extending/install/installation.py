"""Install what a lock names into a folder: wheels, and what is built of sources."""

import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import Distribution, PathDistribution
from pathlib import Path

from packaging.pylock import Pylock

from lumicontainer.core.model.wheel_names import normal, wheel_package
from lumicontainer.errors import InputError, Problem, StepError
from lumicontainer.extending.container import Container, Mounts
from lumicontainer.extending.facts import Facts
from lumicontainer.extending.install import proof, sources
from lumicontainer.extending.install.backend import wheels_of_backend
from lumicontainer.extending.install.bounds import require_room
from lumicontainer.extending.install.download import download, put_file
from lumicontainer.extending.lock.locked import read_locked
from lumicontainer.inside.elf.reader import UnreadableError, linked
from lumicontainer.inside.image.distributions import Package
from lumicontainer.inside.image.facts import LIBRARIES
from lumicontainer.system import process
from lumicontainer.system.files import foreign
from lumicontainer.system.files.temporary import remove_meanwhile

_INSTALL = (
    *("pip", "install", "--python", "python3", "--no-deps", "--no-build"),
    *("--offline", "--no-index", "--no-config"),
)


class Installation:
    """Install packages for an image into ``tree``, which is mounted at /user-software.

    Code of packages runs only where a source is built, and returns a wheel. The containers that
    fill a tree run none, and no container sees the tree afterwards but to read it.
    """

    def __init__(
        self, container: Container, facts: Facts, say: Callable[[str], None] = lambda _: None
    ) -> None:
        self._container, self._facts, self._say = container, facts, say
        self.tree = container.part("tree")
        self._packages = self.tree / f"lib/python{facts.python}/site-packages"
        self._wheels: list[Path] = []

    def install(self, lock: Pylock) -> None:
        """Install the packages of a lock; raise ``StepError`` if one cannot be built."""
        locked = read_locked(lock, self._facts.python)
        inputs = self._container.part("packages")
        files = [each.file for each in locked if each.file]
        places = download(files, inputs, self._container.site)
        self._wheels = [places[each.file] for each in locked if each.file and each.is_wheel]
        if to_build := [each for each in locked if not each.is_wheel]:
            seen = self._container.part("unpacked") / "wheels"
            # A source may be built with the wheels.
            self._unpack(self._wheels, seen)
            settings = sources.write_settings(self._container, self._facts)
            for each in to_build:
                source = places[each.file] if each.file else each.folder
                assert source is not None
                self._say(f"build {each.name} of its source")
                packages = self._unpack_for(each.folder) if each.folder else seen
                built = sources.build_wheel(self._container, each, source, packages, settings)
                self._wheels.append(built)
        self._packages.parent.mkdir(parents=True)
        self._unpack(self._wheels, self._packages, "--compile-bytecode")
        if (self._packages / "bin").is_dir():
            # The lists of the packages' files name them here.
            (self.tree / "bin").symlink_to((self._packages / "bin").relative_to(self.tree))

    def _unpack_for(self, code: Path) -> Path:
        """Return a folder of the packages that the user's own code names for its build."""
        folder = Path(tempfile.mkdtemp(dir=self._container.part("backends"))) / "wheels"
        self._unpack(wheels_of_backend(code, self._wheels, self._facts), folder)
        return folder

    def _unpack(self, wheels: Sequence[Path], place: Path, *words: str) -> None:
        """Unpack wheels into a new folder, and prove that it holds their files alone."""
        writes, links = self._container.part("install"), self._container.part("wheels")
        target = writes / "target"
        target.mkdir()
        require_room(wheels, target)
        for each in wheels:
            put_file(each, links / each.name)
        names = [f"{name}=={v}" for each in wheels for name, v in wheel_package(each.name)]
        command = [*_INSTALL, *words, "--find-links", str(links), "--target", str(target), *names]
        if names and (done := self._container.uv(Mounts(writes, (links,)), *command)).returncode:
            why, hint = process.last_lines(done.stderr), "read the message of uv"
            raise StepError(Problem("cannot install the packages", why=why, hint=hint))
        files = foreign.take(writes, target.name, place)
        with remove_meanwhile(writes):  # The cache of uv holds the same files.
            proof.require_same(place, files, wheels)
        proof.remove_notes_of_uv(place, files)

    def distributions(self) -> dict[str, str]:
        """Return the versions of the installed packages, by their plain names."""
        return dict(pair for each in self._wheels for pair in wheel_package(each.name))

    def require_no_hiding(self, changeable: frozenset[str]) -> None:
        """Raise ``InputError`` if a package would hide a module of the image that has to stay."""
        owners = {
            module: name
            for name, row in self._facts.packages.items()
            if name not in changeable
            for module in row.modules
        }
        problems = list(_hiding(self._packages, owners, changeable))
        if problems:
            raise InputError(*problems)

    def require_fitting_libraries(self, changeable: frozenset[str], hint: str) -> None:
        """Raise ``InputError`` if a library was linked with another build of PyTorch.

        ``hint`` says where packages for the build of the image are.
        """
        if "torch" in changeable or "torch" not in self._facts.packages:
            return
        missing: dict[str, set[str]] = {}
        paths = [*self._packages.rglob("*.so")]
        # Triton links its own modules with each other.
        libraries = self._facts.libraries.union(path.name for path in paths)
        for path in paths:
            names = [name for name in _linked(path) if name.startswith(LIBRARIES)]
            if others := set(names) - libraries:
                owner = path.relative_to(self._packages).parts[0]
                missing.setdefault(owner, set()).update(others)
        version = self._facts.packages["torch"].version
        problems = [
            Problem(
                f"{package} was compiled for another build of PyTorch",
                why=f"torch {version} of the image has no {', '.join(sorted(names))}",
                hint=hint,
            )
            for package, names in sorted(missing.items())
        ]
        if problems:
            raise InputError(*problems)


def _linked(path: Path) -> tuple[str, ...]:
    try:
        return linked(str(path)).needed
    except (OSError, UnreadableError):
        return ()


def _hiding(
    folder: Path, owners: Mapping[str, str], changeable: frozenset[str]
) -> Iterator[Problem]:
    for path in sorted(folder.glob("*.dist-info")):
        added: Distribution = PathDistribution(path)
        name = normal(str(added.metadata["Name"]))
        for module in Package(added).modules() if name not in changeable else ():
            if owner := owners.get(module):
                what = f"{name} would hide the module '{module}' of the image's {owner}"
                hint = f"leave {name} out, or let it: --allow-change {owner}"
                yield Problem(what, why="both packages have this module", hint=hint)
