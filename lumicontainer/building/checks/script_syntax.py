"""Parse the scripts of an image with bash and Python, without running them."""

import warnings
from collections.abc import Iterator
from pathlib import PurePosixPath

from lumicontainer.core.model import Checks, LayerFile
from lumicontainer.core.resolve.decisions import Resolved, ResolvedLayer
from lumicontainer.core.yaml.validators import COMPILE, FINISH, SCRIPT
from lumicontainer.errors import InputError, Place, Problem
from lumicontainer.system.programs.bash import find_syntax_fault


def refuse_unparsable(resolved: Resolved) -> None:
    """Raise ``InputError`` with all scripts of an image that cannot be parsed."""
    problems = [
        problem for path, file in _scripts(resolved) if (problem := _problem(path, file.content))
    ]
    if problems:
        raise InputError(*problems)


def _scripts(resolved: Resolved) -> Iterator[tuple[str, LayerFile]]:
    """Yield the scripts that build the image and its checks, each with the path to show."""
    for layer in resolved.included():
        run = _run(layer)
        for file in layer.files:
            if file.name in run:
                yield f"{layer.folder}/{file.name}", file
        yield from _checks(layer.checks, f"{layer.folder}/")
    yield from _checks(resolved.checks, "")


def _run(layer: ResolvedLayer) -> set[str]:
    scripts = {SCRIPT, COMPILE, FINISH, layer.script, layer.compile, layer.content.apt_repositories}
    return scripts - {""}


def _checks(checks: Checks, folder: str) -> Iterator[tuple[str, LayerFile]]:
    yield from ((f"{folder}{check.file.name}", check.file) for check in checks.each)


def _problem(path: str, content: bytes) -> Problem | None:
    python = PurePosixPath(path).suffix == ".py"
    mistake = _python(path, content) if python else find_syntax_fault(content)
    if mistake is None:
        return None
    line, why = mistake
    return Problem("cannot parse the script", str(Place(path, line)), why, "correct the line")


def _python(path: str, content: bytes) -> tuple[int, str] | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(content, path, "exec", dont_inherit=True)
    except SyntaxError as error:
        return error.lineno or 1, error.msg
    except (ValueError, RecursionError, MemoryError) as error:
        return 1, str(error) or "nested too deep"
    return None
