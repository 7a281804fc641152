"""``lumicontainer binds``: print the options with which ``run`` starts an image."""

import argparse
import os
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from lumicontainer.api import starting
from lumicontainer.api.starting import Binds, ImageRequest
from lumicontainer.commands import context
from lumicontainer.commands.start import image_fields
from lumicontainer.errors import HOST_UNFIT, OK
from lumicontainer.system.terminal.output import line, print_json, printable, report, write_document


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the verb."""
    context.add_options(parser, *context.IMAGE, "--with", "--json")
    summary = "print one line for job scripts on nodes without lumicontainer; this host is not read"
    parser.add_argument("--static", action="store_true", help=summary)


def run(arguments: argparse.Namespace) -> int:
    """Print the options of the engine as a bash array; fail if the image cannot run here."""
    request = ImageRequest(**image_fields(arguments))
    binds = starting.find_binds(request, static=arguments.static)
    needs = binds.needs
    for problem in binds.problems:
        report(problem)
    if arguments.json:
        print_json(_data(binds))
    elif arguments.static:
        write_document("".join(_exports({"SINGULARITY_BIND": binds.value, **needs.exports})))
    elif needs.unfit():
        # For eval, which does not see the exit code of this program.
        sys.stdout.write(f"binds=()\n(exit {HOST_UNFIT})\n")
    else:
        _print(binds, arguments.image)
    return HOST_UNFIT if needs.unfit() else OK


def _print(binds: Binds, image: Path) -> None:
    needs, platform, options, _ = binds
    rows = [(option, "root lacks some capabilities on this host") for option in options]
    rows += [(f"--bind {_word(str(mount))}", mount.reason) for mount in needs.mounts]
    rows += [(f"--env {_word(f'{v.name}={v.value}')}", v.reason) for v in needs.variables]
    text = [
        f"# What {_comment(image.name)} needs of this host ({platform.name}):",
        '# singularity exec "${binds[@]}" IMAGE COMMAND',
        *(f"# not on this host: {_comment(f'{b.path}: {b.reason}')}" for b in needs.absent),
        "binds=(",
        *(f"    {option}  # {_comment(reason)}" for option, reason in rows),
        ")",
    ]
    if needs.exports:
        text.append("# srun reads it: MPI in the image starts through PMI2.")
    lines = (*(f"{each}\n" for each in text), *_exports(needs.exports))
    write_document("".join(lines))


def _exports(variables: Mapping[str, str]) -> Iterator[str]:
    return (f"export {name}={_word(value)}\n" for name, value in variables.items())


def _comment(text: str) -> str:
    """Return a text that stays within a comment, and cannot control a terminal."""
    return printable(" ".join(text.split()))


def _word(text: str) -> str:
    """Return a text as one word for bash, on one line, that cannot control a terminal."""
    if line(text) == text:
        return shlex.quote(text)
    octal = "".join(f"\\{byte:03o}" for byte in os.fsencode(text))
    return f"$'{octal}'"


def _data(binds: Binds) -> dict[str, Any]:
    """Return what an image needs as plain data.

    ``bind`` is a value for SINGULARITY_BIND, ``environment`` the variables of the container,
    ``exports`` those of the shell that calls srun, ``options`` further options of the engine.
    """
    needs, platform, options, _ = binds
    mounts = [asdict(mount) for mount in needs.mounts]
    return {
        "platform": platform.name,
        "options": options,
        "bind": binds.value,
        "binds": [{key: value for key, value in row.items() if value} for row in mounts],
        "environment": {each.name: each.value for each in needs.variables},
        "exports": dict(needs.exports),
        "variables": [asdict(each) for each in needs.variables],
        "absent": [{"path": bind.path, "reason": bind.reason} for bind in needs.absent],
        "problems": [problem._asdict() for problem in needs.problems],
        "works": not needs.unfit(),
    }
