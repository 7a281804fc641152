"""Build without user namespaces, by PRoot: it makes programs believe that they are root.

PRoot (ptrace) translates paths and fakes what only root may do. The tree belongs to the user; its
owners are recorded while a program runs (``build.tree.owners``) and reach the packed layer.
"""

import getpass
import os
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from lumicontainer.constants import SYSTEM_PATH
from lumicontainer.core.plan.steps import Plan
from lumicontainer.engines import Engine, find_engine
from lumicontainer.errors import HostError, InputError, Problem
from lumicontainer.inside.checking import PROOT_TREE
from lumicontainer.inside.image.walk import SHOWN
from lumicontainer.sandbox.runtimes import proot_base
from lumicontainer.sandbox.runtimes.namespaces import make_mount_points
from lumicontainer.sandbox.runtimes.proot_limits import problems
from lumicontainer.sandbox.runtimes.runtime import OWNERS, Base, Runtime, Sandbox
from lumicontainer.system import process
from lumicontainer.system.files.temporary import require_programs, temporary_root

_HOST = ("/dev", "/proc", "/sys")
_RESOLVER = "/etc/resolv.conf"
_NOWHERE = Path("/dev/null")
# Without PROOT_NO_SECCOMP, PRoot would see a call after ``owners``. PRoot's own folder for what it
# lays over a tree is in TMPDIR.
_CLEAN = ("PROOT_NO_SECCOMP=1", f"PATH={SYSTEM_PATH}", "HOME=/root", "LANG=C")
_EITHER = """\
if {probe} >/dev/null 2>&1; then
    {first} || exit
    echo "in a container of the engine, without ptrace" >&2
    exec {engine}
fi
echo "under PRoot, in the tree: the engine starts no container here" >&2
exec {traced}
"""
_IMAGE = 'for file in /.singularity.d/env/*.sh; do [ ! -e "$file" ] || . "$file"; done; exec "$@"'


class PRoot(Runtime):
    """Implement ``Runtime`` by PRoot."""

    name = "proot"
    compression = "gzip"
    checks_tree = True
    unproven = "the start modes of an engine"

    def __init__(self) -> None:
        self.engine: Engine | None = None
        with suppress(HostError):
            self.engine = find_engine()

    def require_host(self) -> None:
        _program()
        if os.geteuid() == 0:
            what, why = "cannot build with PRoot as root", "PRoot only emulates root's rights"
            hint = "build as an ordinary user, or with --runtime namespaces"
            raise HostError(Problem(what, why=why, hint=hint))
        require_programs(temporary_root())
        process.capture(_recorded(_NOWHERE.parent, _NOWHERE, _NOWHERE, [*_start(), "/bin/true"]))

    def require_plan(self, plan: Plan) -> None:
        limits = [each for layer in plan.resolved.included() for each in problems(layer)]
        if limits:
            raise InputError(*limits)
        super().require_plan(plan)
        if plan.bootstrap.by_debootstrap:
            proot_base.require_debootstrap()

    def as_root(self, *_: Path) -> list[str]:
        return []

    def bootstrap(self, base: Base) -> list[str]:
        record = base.folder / OWNERS
        outside = [*_start(), *proot_base.device_options(base.tree)]
        inside = [*_start(), "-r", str(base.tree), *_binds(base.tree, {}), "-w", "/"]
        state = _NOWHERE  # The tree is new.
        return proot_base.command(
            base,
            outside=_recorded(base.tree, state, record, outside),
            inside=_recorded(base.tree, state, record, inside),
        )

    def step(self, sandbox: Sandbox, command: Sequence[str]) -> list[str]:
        mounts, tree = sandbox.mounts, sandbox.tree
        make_mount_points(sandbox)
        binds = {"/tmp": mounts.temporary, "/var/tmp": mounts.temporary}
        binds |= {target: path for path, target in mounts.binds.items()}
        words = [*_start(), "-r", str(tree), *_binds(tree, binds), "-w", "/"]
        words += ["/bin/sh", "-c", _IMAGE, "sh"]
        start = _recorded(tree, sandbox.state, sandbox.root / OWNERS, words)
        traced = [*start, *command]
        if not sandbox.as_user or self.engine is None:
            return traced
        first = [*start, *sandbox.first] if sandbox.first else ["true"]
        probe = self.engine.compile_in(tree, ["true"], mounts)
        inside = ["/usr/bin/env", "HOME=/tmp", *command]
        engine = self.engine.compile_in(tree, inside, mounts)
        return _either(probe, engine, traced, first=first)

    def check(
        self, image: Path, tree: Path, command: Sequence[str], environment: Mapping[str, str]
    ) -> list[str]:
        traced = _checked(tree, command, environment)
        if self.engine is None:
            return traced
        probe = self.engine.execute(image, ["true"], binds=())
        words = self.engine.execute(image, command, binds=(), environment=environment)
        return _either(probe, words, traced)


def _checked(tree: Path, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command that runs a check of an image in its tree, as the user."""
    home = os.environ.get("HOME", "/")
    binds = {"/tmp": Path("/tmp"), home: Path(home)} if home != "/" else {"/tmp": Path("/tmp")}
    options = _binds(tree, binds)
    shown = ":".join(word.rpartition(":")[2] for word in options[1::2])
    variables = {
        **environment,
        SHOWN: shown,
        PROOT_TREE: str(tree),
        "HOME": home,
        "USER": getpass.getuser(),
    }
    settings = [f"{name}={value}" for name, value in variables.items()]
    inside = ["/bin/sh", "-c", _IMAGE, "sh", *command]
    words = [_program(), "-r", str(tree), *options, "-w", "/", *inside]
    start = ["env", "-i", *_CLEAN, *settings, *words]
    return _recorded(_NOWHERE.parent, _NOWHERE, _NOWHERE, start)


def _either(
    probe: Sequence[str],
    engine: Sequence[str],
    traced: Sequence[str],
    *,
    first: Sequence[str] = ("true",),
) -> list[str]:
    """Return a command that uses the engine, after ``first``, if ``probe`` succeeds; else PRoot."""
    words = {"probe": probe, "engine": engine, "traced": traced, "first": first}
    script = _EITHER.format(**{name: shlex.join(each) for name, each in words.items()})
    return ["sh", "-c", script]


def _program() -> str:
    program = process.find("proot")
    if program is None:
        hint = "module load CrayEnv PRoot (on LUMI), or install the package proot"
        raise HostError(Problem("PRoot not found", "PATH", hint=hint))
    return str(program)


def _start() -> list[str]:
    masked = ["sh", "-c", 'umask 022 && exec "$@"', "sh"]
    return ["env", "-i", *_CLEAN, *masked, _program(), "-0"]


def _binds(tree: Path, binds: Mapping[str, Path]) -> list[str]:
    folders = {folder: Path(folder) for folder in _HOST}
    if os.path.lexists(tree / _RESOLVER.strip("/")):
        folders[_RESOLVER] = Path(_RESOLVER)
    sources = {**folders, **binds}
    return [word for target, path in sources.items() for word in ("-b", f"{path}:{target}")]


def _recorded(tree: Path, state: Path, record: Path, command: Sequence[str]) -> list[str]:
    words = [str(tree), str(state), str(record), *command]
    return process.module_command("lumicontainer.sandbox.tree.owners", *words)
