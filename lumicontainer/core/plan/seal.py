"""Plan the last step: it bakes in lumi-entry and the record of what the image holds."""

import shlex
from collections.abc import Iterable, Sequence

from lumicontainer.constants import HOME, MANIFEST, PROGRAMS, STAGE, search_path
from lumicontainer.core import shell
from lumicontainer.core.model import Bind, LayerFile
from lumicontainer.core.plan.base import remove_traces
from lumicontainer.core.plan.records import record_files
from lumicontainer.core.plan.steps import Step, digests, make_step, program_of
from lumicontainer.core.resolve.decisions import Resolved
from lumicontainer.core.yaml.validators import FINISH

SEAL = "lumicontainer"
"""The last step: it bakes in lumi-entry and the record of what the image holds."""
MAX_SECTION = 65_000
"""Apptainer reads a section of a definition into 64 KiB (bufio.Scanner: token too long), so each
step has its own sections; the engine runs them one after the other.
"""

# /etc/hosts and /etc/resolv.conf are mount points, which an unprivileged build (PRoot) and a
# read-only image cannot make later.
# The programs' first line asks PATH for python3; in an image it is known, and env's start is saved.
# No engine lets a program of an image become another user, so su and its like keep no mark that
# would work where the files are copied out. Only in two folders: by PRoot others are the host's.
# It is looked for beside the rest, which writes files meanwhile. A build of ours knows all modes,
# and does not look for it: under PRoot that took 12 s.
_SEAL_FIRST = """\
if ! command -v python3 >/dev/null; then
    echo "error: the image has no python3, which lumi-entry needs; hint: add the layer 'python'" >&2
    exit 1
fi
for file in /etc/hosts /etc/resolv.conf; do
    [ -e "$file" ] || : >"$file"
done
"""
# Engines that run without privileges cannot make what the image does not have. Nothing is written
# through a link, which may lead elsewhere.
_MOUNT_POINTS = """\
for path in {paths}; do
    if [ ! -e "$path" ] && [ ! -L "$path" ]; then {make} "$path"; fi
done
"""
_FIND_SETUID = """\
find /usr /opt -xdev -ignore_readdir_race -type f -perm /6000 -exec chmod ug-s {} + &
"""
_INSTALL = f"""\
mkdir -p {HOME}/bin
for program in {" ".join(PROGRAMS)}; do
    mv {HOME}/lib/lumi_inside/$program {HOME}/bin/$program
    sed -i "1s|.*|#!$(command -v python3) -ISB|" {HOME}/bin/$program
    ln -sfn {HOME}/bin/$program /usr/local/bin/$program
done
python3 -I -m compileall -q --invalidation-mode unchecked-hash {HOME}/lib
PYTHONPATH={HOME}/lib python3 -m lumi_inside.image.extensible
PYTHONPATH={HOME}/lib python3 -m lumi_inside.image.inventory >{HOME}/packages.json
"""
_WAIT = "wait $!\n"
_HASH = f"""\
(
    cd {HOME}
    find . -name '.?*' -prune -o -type f ! -name {MANIFEST} -print0 |
        LC_ALL=C sort --zero-terminated | xargs --null sha256sum
) >{HOME}/{MANIFEST}
"""


def mount_points(binds: Iterable[Bind]) -> str:
    """Return shell text that makes folders and empty files for ``binds``, where nothing is."""
    made: dict[str, list[str]] = {}
    for bind in binds:
        make = "install -D --mode 644 /dev/null" if bind.file else "mkdir -p"
        made.setdefault(make, []).append(bind.path)
    return "".join(
        _MOUNT_POINTS.format(paths=shlex.join(paths), make=make) for make, paths in made.items()
    )


def seal_step(
    resolved: Resolved, parent: str, *, inside: Iterable[LayerFile], path: tuple[str, ...]
) -> Step:
    """Return the step that makes an image of the layers.

    ``inside`` are the files of the programs that it installs; ``path`` is the search path.
    """
    files = list(record_files(resolved))
    files += [LayerFile(f"lib/lumi_inside/{f.name}", f.mode, f.content) for f in inside]
    finishing = _finishing(resolved)
    finished = {name: digests(each) for name, each in finishing.items()}
    inputs = {"parent": parent, "path": path, "files": digests(files)}
    inputs |= {"finish": finished} if finished else {}
    finish = "".join(f"(cd {STAGE}/finish/{name} && bash ./{FINISH})\n" for name in finishing)
    first = finish + _SEAL_FIRST + mount_points(resolved.binds())
    first += remove_traces(resolved.bootstrap)
    work = first + _FIND_SETUID + _INSTALL + _WAIT + _HASH
    exported = LayerFile("values.sh", 0o644, shell.exports({"PATH": search_path(path)}).encode())
    staged = [
        file._replace(name=f"finish/{name}/{file.name}")
        for name, own in finishing.items()
        for file in own
    ]

    def program(part: Sequence[LayerFile], work: str = "") -> str:
        written = shell.write_files(HOME, part)
        return program_of(SEAL, [exported, *staged] if work else [exported], work=written + work)

    *firsts, last = _parts(files, MAX_SECTION - len(program([], work).encode()))
    documents = (*(program(part) for part in firsts), program(last, work))
    step = make_step(SEAL, program(files, work), inputs)
    written = tuple(file._replace(name=f"{HOME[1:]}/{file.name}") for file in files)
    built = program([], first + _INSTALL + _HASH)
    return step._replace(program=built, documents=documents, files=written)


def _parts(files: Iterable[LayerFile], limit: int) -> list[list[LayerFile]]:
    """Spread files, in their order, over parts of ``limit`` bytes of shell text; at least one.

    The text that writes several files is not longer than the texts that write each of them.
    """
    parts: list[list[LayerFile]] = [[]]
    taken = 0
    for file in files:
        size = len(shell.write_files(HOME, [file]).encode())
        if parts[-1] and taken + size > limit:
            parts.append([])
            taken = 0
        parts[-1].append(file)
        taken += size
    return parts


def _finishing(resolved: Resolved) -> dict[str, Sequence[LayerFile]]:
    """Return the files of each layer that has a ``finish.sh``, in the order of the layers."""
    return {
        layer.name: layer.files
        for layer in resolved.included()
        if any(file.name == FINISH for file in layer.files)
    }
