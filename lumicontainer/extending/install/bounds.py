"""Compare the size of wheels when unpacked with limits and free space, before they are unpacked.

Uv stops at a file whose size differs from the one that its wheel states (uv 0.13).
"""

import shutil
from collections.abc import Sequence
from pathlib import Path

from lumicontainer.errors import Problem, SpaceError, StepError
from lumicontainer.system import budget, units
from lumicontainer.system.files import foreign
from lumicontainer.system.files.wheels import OTHER_VERSION, Contents, measure_wheel


def require_room(wheels: Sequence[Path], folder: Path) -> None:
    """Raise ``StepError`` for wheels made to fill a disk, and ``SpaceError`` for a full one.

    ``folder`` is where they are unpacked.
    """
    sizes = [measure_wheel(each) for each in wheels]
    total = Contents(sum(each.files for each in sizes), sum(each.size for each in sizes))
    if total.size > budget.UNPACKED or total.files > foreign.MOST_FILES:
        largest, most = max(zip(wheels, sizes, strict=True), key=lambda pair: pair[1].size)
        of = f"{units.count(most.files, 'file')} of {units.size(most.size)}"
        what, why = "the packages are too large", f"{largest.name} unpacks to {of}"
        raise StepError(Problem(what, why=why, hint=OTHER_VERSION))
    free = shutil.disk_usage(folder).free
    if free < total.size:
        what, why = "not enough space for the packages", f"they unpack to {units.size(total.size)}"
        hint = "free some space, or name another place with LUMICONTAINER_TMPDIR"
        why = f"{why}, and {units.size(free)} are free"
        raise SpaceError(Problem(what, str(folder), why, hint))
