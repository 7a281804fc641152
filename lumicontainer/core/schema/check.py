"""Read a check: a script, and the comment in it that says what it proves and what it needs.

Files that checks share, and that are no checks, have names that begin with ``_``.

The comment is a block in the form of Python's inline script metadata (PEP 723), of the type
``check``, and holds YAML::

    # /// check
    # summary: torch computes on the GPU
    # needs: {gpus: 1}
    # ///
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import PurePosixPath

from lumicontainer.core.model import Check, Checks, LayerFile
from lumicontainer.core.model.check import CHECK, FOLDER
from lumicontainer.core.yaml.parse import read_document
from lumicontainer.errors import Place, Problems

SUFFIXES = (".py", ".sh")

BEGIN, _END = "# /// check", "# ///"
_BLOCK = re.compile(rf"(?m)^{BEGIN}$\n((?:^#(?: .*)?$\n)*?)^{_END}$")


def read_checks(files: Sequence[LayerFile], owner: str, where: str, problems: Problems) -> Checks:
    """Read the checks below a folder whose files are ``files``, and which is shown as ``where``.

    ``owner`` is the layer that they belong to. Notes every problem of their comments.
    """
    own = tuple(file for file in files if file.name.startswith(FOLDER))
    readings = (_read(file, owner, f"{where}/{file.name}", problems) for file in own)
    checks = tuple(check for check in readings if check)
    refuse_twins(checks, dict.fromkeys((each.name for each in own), where), problems)
    return Checks(own, checks)


def is_check(name: str) -> bool:
    """Return whether a file of this name, below a layer's folder, is a check."""
    suffix = PurePosixPath(name).suffix
    return name.startswith(FOLDER) and suffix in SUFFIXES and "/_" not in name


def refuse_twins(checks: Iterable[Check], folders: Mapping[str, str], problems: Problems) -> None:
    """Note checks of the same name in an image, which has the checks of one accelerator.

    ``folders`` has, by the name of each file, the folder in which it is shown.
    """
    for other, check in combinations(checks, 2):
        parents = {PurePosixPath(each.file.name).parent for each in (check, other)}
        together = len(parents) == 1 or PurePosixPath(FOLDER) in parents
        if check.name == other.name and together:
            one, two = (f"{folders[e.file.name]}/{e.file.name}" for e in (check, other))
            what, place = f"two checks are called '{check.name}'", one
            why = f"{two} is so, too: a name is a file's without suffix"
            hint = "give one of the files another name"
            problems.add(what, Place(place), why=why, hint=hint)


def _read(file: LayerFile, owner: str, path: str, problems: Problems) -> Check | None:
    if not is_check(file.name):
        return None
    text = _commented(file.content.decode("utf-8", "replace"))
    if text is None:
        why = f"it has no comment from '{BEGIN}' to '{_END}'"
        hint = f"begin with: {BEGIN}, # summary: …, # hint: …, {_END}"
        problems.add("the check has no header", Place(path), why=why, hint=hint)
        return None
    document = read_document(CHECK, text, path, problems)
    return document and document._replace(
        name=f"{owner}/{PurePosixPath(file.name).stem}", file=file
    )


def _commented(text: str) -> str | None:
    """Return what the comment holds, each line in its place; None if there is no comment."""
    whole = "\n".join(text.splitlines())
    if not (block := _BLOCK.search(whole)):
        return None
    # Blanks keep the columns as they are in the file.
    return "\n" * whole.count("\n", 0, block.start(1)) + re.sub("(?m)^# ?", "  ", block[1])
