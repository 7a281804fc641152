"""Keep what programs compile and download off the home folder: on the node, or on /scratch.

The platform says which variables, and where each belongs. What stays on the node lies in one
folder below /tmp, or below TMPDIR where that is on the node: private to the user, and named by
user, job and step, so that all ranks of a node find the same one without a word. Everybody may
write in /tmp, so a folder there counts only where it is the user's own, closed to others and no
link; where somebody else took the name, all ranks pass on to the next one.
"""

from __future__ import annotations

import os
import stat

from ..environment import DEFAULT, USER, Setting
from ..errors import UNFIT, LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from ..node.hardware import Node
    from .context import Context

NAMES = 8
"""How many names are tried where others took them."""
FOLLOWS = {
    "HF_HUB_CACHE": ("HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"),
    "TORCH_HOME": ("XDG_CACHE_HOME",),
    "TRITON_CACHE_DIR": ("TRITON_HOME",),
}
"""Variables that the libraries derive each one's default from: where the user set them, that counts
(huggingface_hub/constants.py, torch/hub.py, triton/runtime/cache.py)."""
OF_EACH_RANK = {"AITER_JIT_DIR"}
"""AITER compiles behind a lock that all ranks with one folder wait for (aiter issue 887)."""
OFF_THE_NODE = {
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "dvs",
    "fuse",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "panfs",
    "smb3",
    "wekafs",
}
"""File systems that several nodes share; what FUSE carries may be one of them."""


def settings(context: Context) -> Iterator[Setting]:
    """Decide the variables that say where caches lie; what the user set is left alone.

    It makes nothing: the folders on the node are noted in ``context.caches`` for ``make``.
    """
    homes: dict[str, tuple[str, str]] = {}
    for row in context.platform["caches"]:
        name, place = row["name"], row["storage"]
        if context.env.get(name) and not _is_slurm_s(name, context):
            yield context.default(name, None, origin="", why="")
            continue
        set_above = [other for other in FOLLOWS.get(name, ()) if context.env.get(other)]
        if set_above:
            yield Setting(name, None, origin=USER, why=f"it follows {set_above[0]}, which is set")
            continue
        if place not in homes:
            homes[place] = _HOMES[place](context)
        home, why = homes[place]
        if not home:
            yield Setting(name, None, origin=DEFAULT, why=why)
            continue
        folder = os.path.join(home, row["folder"])
        if name in OF_EACH_RANK:
            folder = f"{folder}-{context.number('LOCAL_RANK') or 0}"
        if place == "node":
            context.caches = [*(context.caches or [home]), folder]
        origin = context.platform.get("name", DEFAULT)
        yield Setting(
            name, folder, origin=origin, why="; ".join(filter(None, (row.get("reason"), why)))
        )


def _is_slurm_s(name: str, context: Context) -> bool:
    """Tell whether this is the TMPDIR that Slurm itself sets where the user sets none.

    It does so for the first task of each node and the batch script, whose steps inherit it, and for
    no other task (_make_tmpdir in its slurmstepd): left alone, ranks would differ.
    """
    return name == "TMPDIR" and "SLURM_JOB_ID" in context.env and context.env.get(name) == "/tmp"


def make(context: Context) -> None:
    """Make the folders on the node; raise LaunchError where that fails."""
    home, *folders = context.caches
    try:
        if context.options.remove_caches:
            from . import cache_removal  # noqa: PLC0415 - seldom asked for

            cache_removal.hold(home)
        else:
            os.close(open_private(home))
        for folder in folders:
            os.makedirs(folder, 0o700, exist_ok=True)
    except OSError as error:
        raise LaunchError(
            f"cannot make a folder for caches: {error.strerror}",
            where=error.filename or home,
            why="it is to hold what the ranks of this node compile, and their temporary files",
            hint="make room there, or export TMPDIR as a folder on the node that can be written",
            code=UNFIT,
            told=True,
        ) from None


def open_private(path: str) -> int:
    """Return a descriptor of the private folder ``path``, which is made if it is not there.

    Several ranks may come at once: one of them makes it, and each looks at what it then opened.
    Raises OSError where it is a link, no folder, somebody else's or open to others.
    """
    umask = os.umask(0o077)
    try:
        os.mkdir(path, 0o700)
    except FileExistsError:
        pass
    finally:
        os.umask(umask)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    if is_private(os.fstat(descriptor)):
        return descriptor
    os.close(descriptor)
    raise PermissionError(1, "it is not this user's alone", path)


def is_private(status: os.stat_result) -> bool:
    """Tell whether this is a folder of the user's own that nobody else may look into."""
    own = status.st_uid == os.geteuid() and stat.S_ISDIR(status.st_mode)
    return own and not status.st_mode & 0o077


def base(context: Context) -> tuple[str, str]:
    """Return the folder on the node below which caches may lie, and why not an earlier one."""
    reasons: list[str] = []
    for folder in _bases(context):
        reason = _unusable(folder, context.node)
        if not reason:
            return folder, "; ".join(reasons)
        reasons.append(f"{folder}: {reason}")
    return "", "; ".join(reasons)


def _on_node(context: Context) -> tuple[str, str]:
    """Return the folder on the node, which may not be there yet, and why it is this one."""
    folder, why = base(context)
    if folder:
        once = "-once" if context.options.remove_caches else ""
        stem = f"lumi-{os.geteuid()}-{context.run_id()}".rstrip("-") + once
        for number in range(NAMES):
            path = os.path.join(folder, f"{stem}-{number}" if number else stem)
            if _is_free_or_ours(path):
                return path, f"on the node, in {folder}" + (f" ({why})" if why else "")
        why = f"others took every name like {stem} in {folder}"
    context.warnings.append(f"no folder on the node for caches, which stay where they are: {why}")
    return "", why


def _bases(context: Context) -> list[str]:
    below = os.path.join(context.node.root, "tmp")
    given = "" if _is_slurm_s("TMPDIR", context) else context.env.get("TMPDIR", "")
    return [given, below] if given.startswith("/") and given != below else [below]


def _unusable(base: str, node: Node) -> str:
    """Return why caches cannot lie below ``base``, nothing where they can."""
    try:
        status = os.stat(base)
    except OSError as error:
        return error.strerror or "it cannot be looked at"
    if not os.access(base, os.W_OK | os.X_OK):
        return "this user may not write there"
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        return "others may rename what lies there (chmod +t)"
    kind = file_system(base, node)
    if kind.partition(".")[0] in OFF_THE_NODE:
        return f"it is on {kind}, which nodes share"
    return ""


def file_system(path: str, node: Node) -> str:
    """Return the type of the file system that holds ``path``, nothing where that is not told."""
    try:
        with open(os.path.join(node.root, "proc/self/mountinfo"), "rb") as stream:
            lines = os.fsdecode(stream.read()).splitlines()
    except OSError:
        return ""
    found, kind = "", ""
    within = os.path.join(os.path.realpath(path), "")
    for line in lines:
        fields, _, rest = line.partition(" - ")
        # Of mounts on one point the last is the one that is seen.
        point = os.path.join(_unescaped(fields.split(" ")[4]), "")
        if within.startswith(point) and len(point) >= len(found):
            found, kind = point, rest.split(" ")[0]
    return kind


def _unescaped(text: str) -> str:
    return text.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")


def _is_free_or_ours(path: str) -> bool:
    try:
        return is_private(os.lstat(path))
    except FileNotFoundError:
        return True
    except OSError:
        return False


def on_scratch(context: Context) -> tuple[str, str]:
    """Return the user's folder on /scratch, which the libraries make where they need it."""
    top = os.path.join(context.node.root, "scratch")
    if not os.path.isdir(top):
        return "", "there is no /scratch; left to the program"
    project = context.env.get("SLURM_JOB_ACCOUNT", "")
    user = context.env.get("USER") or context.env.get("LOGNAME") or str(os.geteuid())
    if not project:
        return "", "SLURM_JOB_ACCOUNT does not tell the project; left to the program"
    if "/" in project + user or project.startswith(".") or user.startswith("."):
        return "", f"SLURM_JOB_ACCOUNT={project} and USER={user} make no folder"
    folder = os.path.join(top, project)
    if not os.access(folder, os.W_OK | os.X_OK):
        return "", f"{folder} cannot be written; left to the program"
    return os.path.join(folder, user), f"in {folder}, not in the home folder"


_HOMES = {"node": _on_node, "scratch": on_scratch}
