"""Build wheels of sources in an image. A wheel is all that the container of a build returns.

Uv builds a source with the packages that it names for that (PEP 517), as pip does. A source that
needs PyTorch is built with the packages of the image instead.
"""

import re
from pathlib import Path

from packaging.utils import parse_wheel_filename

from lumicontainer.errors import Problem, StepError
from lumicontainer.extending.container import PROBE, Container, Mounts
from lumicontainer.extending.facts import Facts
from lumicontainer.extending.lock.locked import Locked
from lumicontainer.host.uv import Sources, write_stand_in
from lumicontainer.packages.uv_messages import needs_image
from lumicontainer.system import process
from lumicontainer.system.files import foreign

_SCRIPT = Path(__file__).parent / "scripts/build_wheel.py"
_OUT = "built"
_MISSING = re.compile(r"No module named '([\w.]+)'")


def write_settings(container: Container, facts: Facts) -> Path:
    """Write what uv reads when it builds; return the folder.

    PyTorch and what is compiled against it are empty there: no build takes them from an index.
    """
    inputs = container.part("build-settings")
    links = inputs / "image"
    links.mkdir()
    fixed = [
        write_stand_in(links, name, facts.packages[name].version) for name in facts.protected()
    ]
    (inputs / "constraints.txt").write_text("".join(f"{line}\n" for line in fixed))
    (inputs / "uv.toml").write_text(Sources(container.site.pip, "").settings(links))
    return inputs


def build_wheel(
    container: Container, package: Locked, source: Path, seen: Path, settings: Path
) -> Path:
    """Return the wheel that the backend of a source makes in its own container.

    ``seen`` is a folder of packages that the backend may import if it needs the image's.
    ``settings`` is the folder of ``write_settings``. Raises ``StepError`` if it fails.
    """
    writes = container.part(f"build-{package.name}")
    if package.folder:
        done = _run_backend(container, package, source, seen, writes)
    else:
        done = _run_uv(container, source, settings, writes)
        if done.returncode and needs_image(done.stderr):
            writes = container.part(f"build-in-image-{package.name}")
            done = _run_backend(container, package, source, seen, writes)
    if done.returncode:
        raise _refused(package, done.stderr)
    place = container.part("wheels-built") / package.name
    wheels = [name for name in foreign.take(writes, _OUT, place) if name != ".gitignore"]
    if len(wheels) != 1 or not _is_of(package, *wheels):
        what, why = (
            f"the build of {package.name} left no wheel of it",
            ", ".join(map(ascii, wheels)),
        )
        raise StepError(Problem(what, why=why or "it left nothing", hint="leave the package out"))
    (name,) = wheels
    return place / name


def _run_uv(container: Container, source: Path, settings: Path, writes: Path) -> process.Finished:
    """Build a source with what it names for that, from the indexes of pip's configuration."""
    words = ["build", "--wheel", "--python", "python3", "--out-dir", str(writes / _OUT)]
    words += ["--config-file", str(settings / "uv.toml")]
    words += ["--build-constraints", str(settings / "constraints.txt"), str(source)]
    return container.uv(Mounts(writes, (settings, source)), *words, quiet=False)


def _run_backend(
    container: Container, package: Locked, source: Path, seen: Path, writes: Path
) -> process.Finished:
    """Build a source with the packages of the image, and with those that are added."""
    out = writes / _OUT
    out.mkdir()
    own = (package.folder,) if package.folder else ()
    mounts = Mounts(writes, (seen, *(() if own else (source,))), own)
    hook = "build_editable" if own else "build_wheel"
    command = ["python3", "-B", f"{PROBE}/build.py", hook, str(source), str(out)]
    binds = [f"{_SCRIPT}:{PROBE}/build.py:ro"]
    return container.run(mounts, command, {"PYTHONPATH": str(seen)}, binds)


def _is_of(package: Locked, *names: str) -> bool:
    """Return whether a wheel's name is the name of a package with its version."""
    try:
        name, version, *_ = parse_wheel_filename(names[0])
        return name == package.name and package.version in ("", str(version))
    except ValueError:
        return False


def _refused(package: Locked, printed: str) -> StepError:
    missing = _MISSING.findall(printed)
    hint = f"name the package of '{missing[-1]}' too" if missing else "read its message"
    last = "\n".join(printed.strip().splitlines()[-20:])
    what = f"cannot build {package.name} in the image"
    return StepError(Problem(what, why=last, hint=hint))
