"""Write what installs the packages of a layer: those that it names, or those that a lock holds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from lumicontainer.core import shell
from lumicontainer.core.model import Content, LayerFile

APT_GET = "apt-get -q -y -o APT::Sandbox::User=root -o Dpkg::Use-Pty=0"
_LOCKED = "locked.txt"


def install(content: Content, stage: str) -> str:
    """Return shell text that installs a layer's packages, with its files in ``stage``/layer."""
    text = ""
    if content.apt_repositories:
        text += f"(cd {stage}/layer && bash ./{content.apt_repositories})\n"
    if content.apt:
        words = " ".join(content.apt)
        text += f"{APT_GET} update\n{APT_GET} install --no-install-recommends {words}\n"
    if content.python:
        quoted = shell.words(content.python)
        text += f"python3 -m pip install {quoted}\n"
    for file in locked_files(content):
        # In isolation pip fetches, by no hash, what a source is built with.
        # What another index has comes first: some of the rest may need it, and it needs the rest.
        alone = "" if file.name == _LOCKED else "--no-deps "
        text += (
            f"python3 -m pip install --no-build-isolation {alone}--require-hashes"
            f" --requirement {stage}/{file.name}\n"
        )
    return text


def locked_files(content: Content) -> Sequence[LayerFile]:
    """Return the requirements that a lock holds, as pip reads them."""
    groups = [(f"--extra-index-url {url}", *lines) for url, lines in content.indexed.items()]
    named = {f"{number}-{_LOCKED}": lines for number, lines in enumerate(groups)}
    named |= {_LOCKED: content.locked} if content.locked else {}
    return [
        LayerFile(name, 0o644, "".join(f"{line}\n" for line in lines).encode())
        for name, lines in named.items()
    ]


def locked_inputs(content: Content) -> dict[str, Any]:
    """Return what a lock holds as inputs of a key; nothing where there is none."""
    inputs: dict[str, Any] = {"locked": content.locked, "indexed": content.indexed}
    return {name: value for name, value in inputs.items() if value}
