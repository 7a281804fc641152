"""The texts that build an image with a plain engine, and those by which one knows the image.

They are put together here and not filled into templates: the import of Jinja2 would be a quarter of
what ``render`` takes.
"""

from __future__ import annotations

import base64
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from lumicontainer.core.model import Bootstrap
from lumicontainer.core.plan.plan import HOME, SYSTEM_PATH, Step

_CONSTANT = re.compile(r"LANG|LANGUAGE|LC_[A-Z]+|LD_[A-Z_]+")
"""Variables that name what only this image has, so that a host's value of them is wrong in it.

Nearly every login shell exports LANG, and often as a locale that the image lacks: each program
would complain. LD_LIBRARY_PATH and LD_PRELOAD name files of the host; besides, no engine hands the
host's LD_LIBRARY_PATH on, so where the image's gave way to it, neither would be there. Who means it
says SINGULARITYENV_LANG or --env, which win over constants too.
"""

_DEFAULTS = """\
    # What the user exported wins over these. The engine has unset it at this point, keeps it as
    # lines of __exported_env__, and gives back afterwards what is unset then.
    __line__="$(printf '\\n.')"
    __line__="${__line__%.}"
    __exported__() {
        case "$__line__${__exported_env__:-}" in
            *"$__line__$1="*) return 0 ;;
            *) return 1 ;;
        esac
    }
"""
_NO_DEFAULTS = """\
    unset -f __exported__
    unset __line__
"""
_BRACES = re.compile(r"\{(?=\{)")
_PRINTF = {"\\": "\\\\", "%": "%%", "\n": "\\n"}
"""What stands for a character in the format of printf, where that is not the character itself."""

RUNSCRIPT = f'exec {HOME}/bin/lumi-entry "$@"\n'


class Subject(NamedTuple):
    """Hold what a document tells of its image."""

    name: str
    summary: str
    platform: str
    profile: str
    bootstrap: Bootstrap
    environment: Mapping[str, str]
    path: Sequence[str]


def definition(subject: Subject, mirror: str, programs: Iterable[str]) -> str:
    """Return the definition that runs ``programs`` on the base, in their order.

    ``mirror`` is the URL from which debootstrap takes it.
    """
    name = subject.name
    fakeroot = "--fakeroot " if subject.bootstrap.agent == "debootstrap" else ""
    sections = "".join(
        f"%post -c /bin/bash\nset -euo pipefail\n{program}\n" for program in programs
    )
    return f"""\
{_origin(subject)}
# It is complete: singularity build {fakeroot}{name}.sif {name}.def
{_header(subject.bootstrap, mirror)}
%labels
    org.opencontainers.image.title {name}
    org.opencontainers.image.description {subject.summary}

%environment
{variables(subject)}
{sections}%runscript
    {RUNSCRIPT}"""


def dockerfile(subject: Subject, steps: Iterable[Step]) -> str:
    """Return the Dockerfile that makes the steps on the base."""
    name, base = subject.name, subject.bootstrap.image
    command = f"docker build -t {name} - < Dockerfile"
    include = " ".join(subject.bootstrap.include)
    install = "apt-get -q -y install --no-install-recommends"
    installed = f"RUN apt-get -q update && {install} {include} && rm -rf /var/lib/apt/lists/*\n"
    made = "".join(_run(step.name, program) for step in steps for program in step.documents)
    settings = "".join(
        f"ENV {each}={_docker_quote(value)}\n" for each, value in subject.environment.items()
    )
    path = f'ENV PATH="{":".join(subject.path)}:{SYSTEM_PATH}"\n' if subject.path else ""
    return f"""\
{_origin(subject)}
# It is complete, and needs neither a build context nor BuildKit: {command}
ARG BASE={base}
FROM ${{BASE}}
SHELL ["/bin/bash", "-euo", "pipefail", "-c"]
LABEL org.opencontainers.image.title={_docker_quote(name)} \\
      org.opencontainers.image.description={_docker_quote(subject.summary)}
{installed if include else ""}{made}
{settings}{path}ENTRYPOINT ["{HOME}/bin/lumi-entry"]
"""


def variables(subject: Subject) -> str:
    """Return the lines of a shell that set an image's variables."""
    lines = []
    defaults = []
    for name, value in subject.environment.items():
        if _CONSTANT.fullmatch(name):
            lines += _assigned(name, value)
        else:
            defaults += _assigned(name, value, unless=f"__exported__ {name} || ")
    if defaults:
        lines += [_DEFAULTS, *defaults, _NO_DEFAULTS]
    if subject.path:
        lines.append(f'    export PATH="{":".join(subject.path)}:$PATH"\n')
    return "".join(lines)


def _assigned(name: str, value: str, *, unless: str = "") -> list[str]:
    """Return the lines that export a variable, none of which an engine reads as its own.

    The engines' shell (mvdan.cc/sh) expands a tilde at the beginning of the value of
    ``export "$1=$2"``, and leaves one that is quoted behind ``export NAME=``.
    """
    if not _control(value):
        return [f"    {unless}export {name}={_quote(value)}\n"]
    # The end of the text keeps the newlines before it, which "$( )" would take away.
    text = "".join(map(_printed, value)) + "."
    text = text.replace("-", "\\055", 1) if text.startswith("-") else text
    return [
        f'    __value__="$(printf {_quote(text)})"\n',
        f'    {unless}export {name}="${{__value__%.}}"\n',
        "    unset __value__\n",
    ]


def _control(text: str) -> bool:
    return any(ord(character) < 32 or ord(character) == 127 for character in text)


def _printed(character: str) -> str:
    """Return a character as the format of printf has it."""
    octal = f"\\{ord(character):03o}" if _control(character) else character
    return _PRINTF.get(character, octal)


def _quote(value: str) -> str:
    """Return a value quoted for the shell, without ``{{``: it begins a build argument."""
    return _BRACES.sub("{''", shlex.quote(value))


def _origin(subject: Subject) -> str:
    profile = f" and the profile '{subject.profile}'" if subject.profile else ""
    image = f"the recipe '{subject.name}' for the platform '{subject.platform}'{profile}"
    return f"# Made by lumicontainer from {image}."


def _header(bootstrap: Bootstrap, mirror: str) -> str:
    if bootstrap.agent != "debootstrap":
        return f"Bootstrap: {bootstrap.agent}\nFrom: {bootstrap.image}\n"
    include = f"Include: {' '.join(bootstrap.include)}\n" if bootstrap.include else ""
    return f"Bootstrap: debootstrap\nOSVersion: {bootstrap.release}\nMirrorURL: {mirror}\n{include}"


def _run(name: str, program: str) -> str:
    # Docker takes no line above 65,535 bytes.
    encoded = "\\\n".join(base64.encodebytes(program.encode()).decode().splitlines())
    return f"""
# layer: {name} (the same program that the definition holds as text)
RUN base64 -d >/run/lumicontainer-step <<<\\
{encoded} \\
    && bash /run/lumicontainer-step && rm /run/lumicontainer-step
"""


def _docker_quote(value: str) -> str:
    for character in '\\"$':
        value = value.replace(character, "\\" + character)
    return f'"{value}"'
