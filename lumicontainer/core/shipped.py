"""Read the files that are shipped with the package and become a part of images."""

from pathlib import Path

from lumicontainer.core.model.files import LayerFile

_PACKAGE = Path(__file__).parents[1]


DOWNLOAD = _PACKAGE / "step/download.sh"
"""The program by which steps and locks download a file."""
APT_FILES = _PACKAGE / "step/apt-files.sh"
"""The program by which steps and locks name the files of Debian packages."""
FETCH = _PACKAGE / "step/fetch.sh"
"""The program by which steps fetch a source."""


def step_script(name: str) -> bytes:
    """Return a script that steps share."""
    return (_PACKAGE / "step" / name).read_bytes()


def programs() -> tuple[LayerFile, ...]:
    """Return the programs that are baked into images, with all of their packages."""
    folder = _PACKAGE / "inside"
    return tuple(
        LayerFile(
            p.relative_to(folder).as_posix(), 0o644 if p.suffix == ".py" else 0o755, p.read_bytes()
        )
        for p in sorted(folder.rglob("*"))
        if p.is_file() and not p.name.startswith(".") and p.parent.name != "__pycache__"
    )
