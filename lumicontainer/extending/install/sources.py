"""Build wheels of sources in an image. A wheel is all that the container of a build returns."""

import re
from pathlib import Path

from packaging.utils import InvalidWheelFilename, parse_wheel_filename

from lumicontainer.errors import Problem, StepError
from lumicontainer.extending.container import PROBE, Container, Mounts
from lumicontainer.extending.lock.locked import Locked
from lumicontainer.system.files import foreign

_SCRIPT = Path(__file__).parent / "scripts/build_wheel.py"
_MISSING = re.compile(r"No module named '([\w.]+)'")


def build_wheel(container: Container, package: Locked, source: Path, seen: Path) -> Path:
    """Return the wheel that the backend of a source makes in a container of its own.

    ``seen`` is a folder of packages that the backend may import. Raises ``StepError`` if it fails.
    """
    writes = container.part(f"build-{package.name}")
    out = writes / "built"
    out.mkdir()
    own = (package.folder,) if package.folder else ()
    mounts = Mounts(writes, (seen, *(() if own else (source,))), own)
    hook = "build_editable" if own else "build_wheel"
    command = ["python3", "-B", f"{PROBE}/build.py", hook, str(source), str(out)]
    done = container.run(
        mounts, command, {"PYTHONPATH": str(seen)}, [f"{_SCRIPT}:{PROBE}/build.py:ro"]
    )
    if done.returncode:
        raise _refused(package, done.stderr)
    place = container.part("wheels-built") / package.name
    found = foreign.take(writes, out.name, place)
    if len(found) != 1 or not _is_of(package, *found):
        what, why = f"the build of {package.name} left no wheel of it", ", ".join(map(ascii, found))
        raise StepError(Problem(what, why=why or "it left nothing", hint="leave the package out"))
    (name,) = found
    return place / name


def _is_of(package: Locked, *names: str) -> bool:
    """Return whether the name of a wheel is that of a package and its version."""
    try:
        name, version, *_ = parse_wheel_filename(names[0])
        return name == package.name and package.version in ("", str(version))
    except InvalidWheelFilename:
        return False


def _refused(package: Locked, printed: str) -> StepError:
    missing = _MISSING.findall(printed)
    hint = f"name the package of '{missing[-1]}' too" if missing else "read its message"
    last = "\n".join(printed.strip().splitlines()[-20:])
    what = f"cannot build {package.name} in the image"
    return StepError(Problem(what, why=last, hint=hint))
