"""State what is the same in every image: paths, variables and the time of files."""

from collections.abc import Iterable, Mapping

FORMAT = 1
"""The format of documents. A key is renamed or removed only with a new one."""
ENGINES = ("apptainer", "singularity")
"""The programs that run images, the preferred one first; ``singularity`` is SingularityCE."""
ENGINE_PREFIXES = tuple(name.upper() for name in ENGINES)
"""The beginnings of the engines' variables."""
HOME = "/opt/lumicontainer"
STAGE = f"{HOME}/.stage"
"""In the image itself, so that neither the host's /tmp nor its size matters; removed again."""
WHEELS = f"{HOME}/.wheels"
"""The folder in which a plain build keeps wheels from compiling to installing, then removed."""
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
STEM = r"\w[\w.+-]*"
"""Names of recipes, profiles and platforms, and so of their files: the name stands in
comments of documents, in paths and in lines for the shell."""
OPEN_PATH = r"\$\{([A-Z_]+):-(/[A-Za-z0-9._/+*-]*)\}(/[A-Za-z0-9._/+-]*)"
"""A library of the host, in a folder that a variable names."""
MANIFEST = "sha256sums"
"""The sha256 of every file below HOME, in the form of sha256sum."""
PROGRAMS = ("lumi-entry", "lumi-verify")
"""The baked-in files that are put on PATH."""
VERIFY = f"{HOME}/bin/lumi-verify"
LONGEST_CHECK = 7 * 24 * 3600
"""Seconds; no job of LUMI may take longer."""
DEFAULTS: Mapping[str, str] = {"PYTHONNOUSERSITE": "1"}
"""Variables that every image sets if neither a layer nor the user does: packages in ~/.local,
which containers see, would hide the image's."""
EPOCH = 1_735_689_600
"""The time (seconds, start of 2025) that every file of an image has, and that tools such as pip
and gzip take for the present: two builds at two moments give the same bytes."""


def search_path(path: Iterable[str]) -> str:
    """Return the value of PATH while a step runs."""
    return ":".join((*path, SYSTEM_PATH))
