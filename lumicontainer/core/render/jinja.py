"""Fill the templates: definitions, Dockerfiles, batch scripts, test classes, reports.

A template is a whole document. Every value reaches it through one of the filters below, which quote
it for the language of that place, or refuse what cannot stand there. The shell text of layers and
users is inserted as it is, and is never a template itself.
"""

import base64
import functools
import itertools
import json
import pprint
import re
import shlex
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from lumicontainer.errors import InputError, Problem

_BUILD_ARGUMENT = re.compile(r"\{(?=\{)")
_TCL_SPECIAL = re.compile(r"[^\w./:=,@+-]")
_WORD = re.compile(r"[\w.+:/@=,~%-]*")
_VALUE = re.compile(r"[^\\\x00-\x1f\x7f-\x9f\u2028\u2029]*")
_LINE = re.compile(r"[^\x00-\x1f\x7f-\x9f\u2028\u2029]*")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SHOWN = 60
_PRINTF = {"\\": "\\\\", "%": "%%", "\n": "\\n"}
"""The characters that the format of printf spells in another way."""


def fill(template: str, **values: Any) -> str:
    """Return the text of a template; in HTML, values are escaped.

    Raises ``jinja2.UndefinedError`` if the template names a value that is missing.
    """
    return _environment().get_template(template).render(values)


@functools.cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader(__package__),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=select_autoescape(["html.j2"]),
    )
    environment.filters |= {
        "quote": quote,
        "words": shlex.join,
        "literal": functools.partial(pprint.pformat, width=96, sort_dicts=False),
        "printf": printf_format,
        "docker": docker_quote,
        "base64": base64_lines,
        "lua": lua_string,
        "tcl": tcl_word,
        "toml": toml_string,
        "word": plain_word,
        "sbatch": sbatch_value,
        "line": plain_line,
        "name": variable_name,
        "integer": int,
    }
    environment.tests |= {"one_line": is_one_line}
    return environment


def quote(value: str) -> str:
    """Quote a value for the shell, without ``{{``: Apptainer reads it as a build argument."""
    return _BUILD_ARGUMENT.sub("{''", shlex.quote(value))


def plain_word(value: object) -> str:
    """Return a value that is the same text in every language; raise ``InputError`` for others."""
    return _matching(_WORD, str(value), "word of plain characters")


def sbatch_value(value: str) -> str:
    """Quote a value for an #SBATCH line; raise ``InputError`` for what Slurm cannot read there.

    Within double quotes Slurm reads a backslash before a quote, and removes others (seen with
    22.05).
    """
    if _WORD.fullmatch(value):
        return value
    _matching(_VALUE, value, "value of an option of sbatch")
    return '"' + value.replace('"', '\\"') + '"'


def plain_line(value: str) -> str:
    """Return a text that stays within its line; raise ``InputError`` for others."""
    return _matching(_LINE, value, "line")


def variable_name(value: str) -> str:
    """Return the name of a variable; raise ``InputError`` for other text."""
    return _matching(_NAME, value, "name of a variable")


def _matching(form: re.Pattern[str], text: str, kind: str) -> str:
    if form.fullmatch(text):
        return text
    raise InputError(Problem(f"invalid {kind} {text[:_SHOWN]!a}"))


def is_one_line(text: str) -> bool:
    """Check that a text has no control character."""
    return not any(map(_is_control, text))


def _is_control(character: str) -> bool:
    return ord(character) < 32 or ord(character) == 127


def printf_format(value: str) -> str:
    """Return the quoted format by which printf prints a value and a final ``.``.

    The ``.`` keeps the last newlines, which ``$( )`` would remove.
    """
    text = "".join(map(_printf_character, value)) + "."
    return quote(text.replace("-", "\\055", 1) if text.startswith("-") else text)


def _printf_character(character: str) -> str:
    octal = f"\\{ord(character):03o}" if _is_control(character) else character
    return _PRINTF.get(character, octal)


def docker_quote(value: str) -> str:
    """Quote a value for an instruction of a Dockerfile, which expands ``$``."""
    for character in '\\"$':
        value = value.replace(character, "\\" + character)
    return f'"{value}"'


def lua_string(text: str) -> str:
    """Quote a text without carriage returns for Lua, by long brackets that it does not hold."""
    signs = next(each for n in itertools.count(2) if f"]{(each := '=' * n)}" not in text)
    # Lua drops a newline behind the bracket.
    return f"[{signs}[{chr(10) if text.startswith(chr(10)) else ''}{text}]{signs}]"


def tcl_word(text: str) -> str:
    """Quote a text as one word for Tcl, also within braces."""
    if not set("{}\\") & set(text):
        return f"{{{text}}}"
    return _TCL_SPECIAL.sub(_tcl_character, text)


def _tcl_character(match: re.Match[str]) -> str:
    character = match[0]
    return f"\\{character}" if character.isprintable() else f"\\u{ord(character):04x}"


def toml_string(text: str) -> str:
    """Quote a text for TOML, for a reader that expands ``${NAME}`` and reads ``$${`` as ``${``."""
    # JSON leaves DEL as it is, which TOML forbids.
    quoted = json.dumps(text.replace("${", "$${"), ensure_ascii=False)
    return quoted.replace("\x7f", "\\u007f")


def base64_lines(text: str) -> str:
    """Encode a text as continued lines: Docker reads no line above 65,535 bytes."""
    return "\\\n".join(base64.encodebytes(text.encode()).decode().splitlines())
