"""Keep caches of compilers and downloads off the home folder: on the node, or on /scratch.

The platform lists the variables and the place of each. All caches on the node lie in one folder
below /tmp, or below TMPDIR if that is on the node. Its name holds user, job and step, so all ranks
of a node use the same one; caches that the next step needs lie in one whose name has no step. Every
user may write in /tmp, so the folder must be the user's own, closed to others and not a link. If
another user has taken the name, all ranks use the next one.

PyTorch's flight recorder writes what each rank was doing when a collective timed out, long after
the start, so its folder must outlive the job.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from ..environment import DEFAULT, USER, Setting
from ..errors import UNFIT, LaunchError
from ..node.hardware import Node
from ..node.private_folder import is_private, open_private
from . import batons, cache_removal
from .context import Context

_RECORDER = "flight-recorder"
NAMES = 8  # names to try if other users have taken them
# The variables from which libraries derive the default of each; the user's values have priority
# (huggingface_hub/constants.py, torch/hub.py, triton/runtime/cache.py, vllm/envs.py).
FOLLOWS = {
    "HF_HOME": ("XDG_CACHE_HOME",),
    "HF_HUB_CACHE": ("HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME"),
    "HF_TOKEN_PATH": ("HF_HOME", "XDG_CACHE_HOME"),
    "TORCH_HOME": ("XDG_CACHE_HOME",),
    "TRITON_CACHE_DIR": ("TRITON_HOME",),
    "VLLM_CACHE_ROOT": ("XDG_CACHE_HOME",),
}
# AITER compiles under a lock for which all ranks with the same folder wait (aiter issue 887).
OF_EACH_RANK = {"AITER_JIT_DIR"}
# File systems that several nodes share; one on FUSE may be.
OFF_THE_NODE = {
    *("9p", "afs", "beegfs", "ceph", "cifs", "dvs", "fuse", "gpfs", "lustre", "nfs", "nfs4"),
    *("panfs", "smb3", "wekafs"),
}


def settings(context: Context) -> Iterator[Setting]:
    """Decide the variables of caches; the user's values stay.

    The folders on the node are noted in ``context.caches``, and ``make`` creates them.
    """
    homes: dict[str, tuple[str, str]] = {}
    for row in context.platform.get("caches", ()):
        name, place = row["name"], row["storage"]
        if _is_kept(name, context):
            yield context.default(name, None, origin="", why="")
            continue
        set_above = [other for other in FOLLOWS.get(name, ()) if context.env.get(other)]
        if set_above:
            yield Setting(name, None, origin=USER, why=f"derived from {set_above[0]}, which is set")
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
        if place in _ON_NODE:
            context.caches.setdefault(home, {})[name] = folder
        origin = context.platform.get("name", DEFAULT)
        yield Setting(
            name, folder, origin=origin, why="; ".join(filter(None, (row.get("reason"), why)))
        )


def _is_kept(name: str, context: Context) -> bool:
    """Return whether the user's value stays; warn of a TMPDIR that is not in the container."""
    folder = context.env.get(name)
    if not folder or _is_slurm_s(name, context):
        return False
    if name != "TMPDIR" or os.path.isdir(folder):
        return True
    text = f"TMPDIR={folder} is not a folder in the container (bind it, or unset TMPDIR)"
    context.warnings.append(text)
    return False


def _is_slurm_s(name: str, context: Context) -> bool:
    """Return whether this is the TMPDIR that Slurm itself sets if the user sets none."""
    # Slurm sets it for the batch script and the first task of each node only (_make_tmpdir in its
    # slurmstepd), so ranks would differ.
    return name == "TMPDIR" and "SLURM_JOB_ID" in context.env and context.env.get(name) == "/tmp"


def make(context: Context) -> None:
    """Create the folders on the node; raise LaunchError if that fails."""
    home = ""
    try:
        for home, folders in context.caches.items():
            if context.options.remove_caches:
                cache_removal.hold(home)
            else:
                os.close(open_private(home))
            for name, folder in folders.items():
                os.makedirs(folder, 0o700, exist_ok=True)
                if name == batons.FOLDER:
                    batons.hold(folder)
    except OSError as error:
        what, where = f"cannot create a folder for caches: {error.strerror}", error.filename or home
        why = "it holds the compiled code and the temporary files of this node's ranks"
        hint = "free disk space there, or export TMPDIR as a writable folder on the node"
        raise LaunchError(what, where, why, hint, code=UNFIT, shown=True) from None


def base(context: Context) -> tuple[str, str]:
    """Return the folder on the node for caches, and why the preferred one is not used."""
    reasons: list[str] = []
    for folder in _bases(context):
        reason = _unusable(folder, context.node)
        if not reason:
            return folder, "; ".join(reasons)
        reasons.append(f"{folder}: {reason}")
    return "", "; ".join(reasons)


def _of_job(context: Context) -> tuple[str, str]:
    """Return the folder for all steps; files that a step removes at its end lie in another."""
    run = context.run_id()
    return _on_node(context, run if context.options.remove_caches else run.partition(".")[0])


def _on_node(context: Context, run: str) -> tuple[str, str]:
    """Return the folder of a run on the node, which may not exist yet, and the reason."""
    folder, why = base(context)
    if folder:
        once = "-once" if context.options.remove_caches else ""
        stem = f"lumi-{os.geteuid()}-{run}".rstrip("-") + once
        for number in range(NAMES):
            path = os.path.join(folder, f"{stem}-{number}" if number else stem)
            if _is_free_or_ours(path):
                return path, f"on the node, in {folder}" + (f" ({why})" if why else "")
        why = f"other users have taken every name like {stem} in {folder}"
    warning = f"no folder on the node for caches, so they stay in their default folders: {why}"
    if warning not in context.warnings:
        context.warnings.append(warning)
    return "", why


def _bases(context: Context) -> list[str]:
    below = os.path.join(context.node.root, "tmp")
    own = "" if _is_slurm_s("TMPDIR", context) else context.env.get("TMPDIR", "")
    return [own, below] if own.startswith("/") and own != below else [below]


def _unusable(base: str, node: Node) -> str:
    try:
        status = os.stat(base)
    except OSError as error:
        return error.strerror or "it cannot be read"
    if not os.access(base, os.W_OK | os.X_OK):
        return "this user may not write there"
    if status.st_mode & 0o022 and not status.st_mode & stat.S_ISVTX:
        return "other users may rename its files (chmod +t)"
    if os.statvfs(base).f_flag & os.ST_NOEXEC:
        return "compiled code cannot be loaded from it (it is mounted with noexec)"
    kind = file_system(base, node)
    if kind.partition(".")[0] in OFF_THE_NODE:
        return f"it is on {kind}, which nodes share"
    return ""


def file_system(path: str, node: Node) -> str:
    """Return the type of the file system of ``path``, or "" if it is unknown."""
    longest, kind = "", ""
    within = os.path.join(os.path.realpath(path), "")
    for line in node.text("proc/self/mountinfo").splitlines():
        fields, _, rest = line.partition(" - ")
        # Of several mounts on a folder, the last is visible.
        point = os.path.join(fields.split(" ")[4].replace("\\040", " "), "")
        if within.startswith(point) and len(point) >= len(longest):
            longest, kind = point, rest.split(" ")[0]
    return kind


def _is_free_or_ours(path: str) -> bool:
    try:
        return is_private(os.lstat(path))
    except FileNotFoundError:
        return True
    except OSError:
        return False


def on_scratch(context: Context) -> tuple[str, str]:
    """Return the user's folder on /scratch, which libraries create, and the reason."""
    top = os.path.join(context.node.root, "scratch")
    if not os.path.isdir(top):
        return "", "there is no /scratch; the program's default"
    project = context.env.get("SLURM_JOB_ACCOUNT", "")
    user = context.env.get("USER") or context.env.get("LOGNAME") or str(os.geteuid())
    if not project:
        return "", "SLURM_JOB_ACCOUNT is not set; the program's default"
    if "/" in project + user or project.startswith(".") or user.startswith("."):
        return "", f"SLURM_JOB_ACCOUNT={project} and USER={user} are not names of folders"
    folder = os.path.join(top, project)
    if not os.access(folder, os.W_OK | os.X_OK):
        return "", f"{folder} is not writable; the program's default"
    return os.path.join(folder, user), f"in {folder}, not in the home folder"


def _in_home(context: Context) -> tuple[str, str]:
    home = context.env.get("HOME", "")
    return (os.path.join(home, ".cache"), "") if home else ("", "HOME is not set")


_ON_NODE = {"node": lambda context: _on_node(context, context.run_id()), "job": _of_job}
_HOMES = {**_ON_NODE, "scratch": on_scratch, "home": _in_home}


def recorder_prefix(context: Context) -> tuple[str | None, str]:
    """Return the start of the files' names and the reason; None leaves it to PyTorch.

    The files lie in the folder of ``--log-dir``, else in the user's folder on /scratch, which is
    noted in ``context.recorder`` for ``make_recorder``.
    """
    stem = f"{context.run_id()}-{_RECORDER}-rank".lstrip("-")
    if context.options.log_dir:
        try:
            return os.path.join(os.path.abspath(context.options.log_dir), stem), "--log-dir"
        except FileNotFoundError:  # the logs are refused later
            return None, "the working folder was removed"
    home, why = on_scratch(context)
    if not home:
        return None, why
    context.recorder = os.path.join(home, _RECORDER)
    return os.path.join(context.recorder, stem), why


def make_recorder(context: Context) -> None:
    """Create the folder on /scratch; a failure is only a warning."""
    if not context.recorder or context.number("LOCAL_RANK"):
        return
    try:
        os.makedirs(os.path.dirname(context.recorder), exist_ok=True)
        os.close(open_private(context.recorder))
    except OSError as error:
        context.notes.append(
            f"warning: PyTorch's flight recorder cannot write to {context.recorder}: "
            f"{error.strerror} (choose a folder with --log-dir)"
        )
