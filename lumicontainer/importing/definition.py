"""Read definitions of Apptainer and Singularity.

spython's parser reads the lines of sections. It knows no line numbers and no bootstrap but docker,
and it changes the indentation of scripts (seen with 0.3.14), so these are read here.
"""

import re
import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from lumicontainer.errors import InputError, Problem
from lumicontainer.importing.copies import is_pattern
from lumicontainer.importing.draft import (
    CARRIED,
    NOT_CARRIED,
    NOT_NEEDED,
    Draft,
    FileLine,
    limit_entries,
    read_imported,
)
from lumicontainer.importing.environment import add_path, add_variable
from lumicontainer.importing.lists.requirements import inner_name
from lumicontainer.importing.replacements import replacement_for
from lumicontainer.importing.shell.losses import is_of_system
from lumicontainer.importing.shell.script import ShellReader
from lumicontainer.importing.shell.split import expand_variables, other_program
from lumicontainer.importing.shell.starts import start_text
from lumicontainer.importing.spython_parsers import section as parsed
from lumicontainer.system.files.recipe_folder import MAX_FILE_BYTES

_EXPORTED = re.compile(r"^(([A-Za-z_]\w*)=[^;]*);\s*export\s+\2\s*;?$")
"""Sets a variable and exports it, as shells of old times need it."""
_ARGUMENT = re.compile(r"\{\{\s*(\w+)\s*\}\}")


class Section(NamedTuple):
    """Hold one section of a definition, or its header."""

    line: int
    name: str
    rest: str
    """The text after its name."""
    lines: tuple[str, ...]


def sections(text: str) -> Iterator[Section]:
    """Yield the header (``bootstrap``) and the sections of each stage, with their lines."""
    line, name, rest, body = 1, "bootstrap", "", list[str]()
    for number, each in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        bare = each.strip()
        begins = bare.startswith("%") and not bare.startswith("%%")
        if begins or re.match(r"(?i)bootstrap\s*:", bare):
            if any(map(str.strip, body)):
                yield Section(line, name, rest, tuple(body))
            line, body = number, []
            name, rest = "bootstrap", ""
            if begins:
                name, *words = re.split(r"\s+", bare[1:], maxsplit=1)
                rest = "".join(words)
            else:
                body = [each]
            continue
        body.append(each)
    if body or name != "bootstrap":
        yield Section(line, name.lower(), rest.strip(), tuple(body))


def read_definition(draft: Draft, name: str) -> None:
    """Add the header and the sections of a definition; raise ``InputError`` if it has no header."""
    text, arguments = read_imported(draft, name), dict[str, str]()
    for each in sections(text):
        if each.name == "arguments":
            arguments |= dict(_pair(line, "=") for line in each.lines if "=" in line)
    whole = _with_arguments(text, arguments, name)
    parts = list(limit_entries(name, sections(whole), "section"))
    heads = [number for number, each in enumerate(parts) if _is_header(each)]
    if not heads:
        hint = "a definition begins with Bootstrap: and From:"
        raise InputError(Problem("expected a definition of Apptainer", name, hint=hint))
    reader = _Reader(draft, name)
    for number, each in enumerate(parts):
        if number < heads[-1] and heads[0] <= number:
            reader.leave_out(each)
        else:
            reader.read(each)


def _with_arguments(text: str, arguments: Mapping[str, str], file: str) -> str:
    """Return a definition with the defaults of its arguments; each may be named often."""
    defaults = (arguments.get(name, "") for name in _ARGUMENT.findall(text))
    if len(text) + sum(map(len, defaults)) > MAX_FILE_BYTES:
        why = f"with the defaults of its arguments it has more than {MAX_FILE_BYTES >> 20} MiB"
        raise InputError(Problem("cannot read the definition", file, why, "shorten them"))
    return _ARGUMENT.sub(lambda defaults: arguments.get(defaults[1], defaults[0]), text)


def _is_header(each: Section) -> bool:
    return each.name == "bootstrap" and any(
        re.match(r"(?i)\s*bootstrap\s*:", text) for text in each.lines
    )


def _pair(text: str, separator: str) -> tuple[str, str]:
    name, _, value = text.partition(separator)
    return name.strip(), value.strip().strip('"')


def copied(text: str) -> list[str]:
    """Return the files that a definition copies from the folder where it is built."""
    unstaged = (each for each in sections(text) if each.name == "files" and not each.rest)
    return [line.split()[0] for each in unstaged for line in each.lines if line.strip()]


class _Reader(ShellReader):
    def leave_out(self, each: Section) -> None:
        if each.name == "bootstrap":
            text = " ".join(text.strip() for text in each.lines if text.strip())
            self.line(each.line, text).refuse("only the last stage becomes the image", "")

    def read(self, each: Section) -> None:
        line = self.line(each.line, f"%{each.name} {each.rest}".strip())
        if read := self._READERS.get(each.name.lower()):
            try:
                read(self, line, each)
            except ValueError as error:
                line.refuse(f"it cannot be read: {error}")
        else:
            line.decided("sections", each.name.lower())

    def _header(self, line: FileLine, each: Section) -> None:
        pairs = dict(
            _pair(text, ":") for text in each.lines if ":" in text and text.strip()[0] != "#"
        )
        keys = {name.lower(): value.partition(" #")[0].strip() for name, value in pairs.items()}
        if "bootstrap" not in keys:
            return
        agent = keys["bootstrap"].lower()
        line = line.part("; ".join(f"{name}: {value}" for name, value in pairs.items()))
        image = {"debootstrap": "debian"}.get(agent, keys.get("from", ""))
        if agent == "localimage":
            line.replace_image(PurePosixPath(image).name.removesuffix(".sif"))
        elif agent in ("docker", "debootstrap", "library", "docker-daemon", "oras"):
            line.replace_image(image)
        else:
            base = self.draft.goal.base
            line.refuse(f"no base comes from the bootstrap '{agent}'; the base is {base}")

    def _arguments(self, line: FileLine, each: Section) -> None:
        del each
        line.note(CARRIED, "their defaults stand where {{ NAME }} stood")

    def _files(self, line: FileLine, each: Section) -> None:
        del line
        if stage := each.rest.removeprefix("from").strip():
            for row in self._rows(each):
                source, *target = row.text.split(None, 1)
                row.refuse_files(stage, source)
                if not replacement_for("stage_files", source).get("same"):
                    refused = self.draft.lines[-1].outcome == NOT_CARRIED
                    outcome = NOT_CARRIED if refused else NOT_NEEDED
                    self.losses.lose("".join(target) or source, "/", outcome)
            return
        for row in self._rows(each):
            for pair in parsed("files", [row.text]).files:
                source, *target = str(pair).split(None, 1)
                if source.startswith("/"):
                    row.refuse("it is not below the definition's folder")
                    self.losses.lose("".join(target) or source, "/")
                else:
                    self._copy(row, source, "".join(target))

    def _copy(self, row: FileLine, source: str, target: str) -> None:
        names = self.copies.matching(inner_name(source)) if is_pattern(source) else []
        for name in names or [source]:
            part = row.part(f"{name} {target}") if names else row
            self.copies.add(part, name, self._place(target, name, into=len(names) > 1))

    def _place(self, target: str, source: str, *, into: bool) -> str:
        """Return where ``cp -r`` puts a file or a folder: in the target if that is a folder.

        ``into`` says that it must be one, as there are several sources.
        """
        place = target.rstrip("/")
        if not place:
            return target or f"/{source}"
        is_folder, former = self.draft.has_folder(source.rstrip("/")), self.copies.find(place)
        is_there = into or is_of_system(place) or (former and self.draft.has_folder(former))
        if is_there or (is_folder and target.endswith("/")):
            return f"{place}/{PurePosixPath(source).name}"
        return target

    def _rows(self, each: Section) -> Iterator[FileLine]:
        lines = enumerate(map(str.strip, each.lines), each.line + 1)
        rows = ((number, text) for number, text in lines if text and text[0] != "#")
        for number, text in limit_entries(self.file, rows, "line of a section"):
            yield self.line(number, text)

    def _environment(self, line: FileLine, each: Section) -> None:
        del line
        for row in self._rows(each):
            if "drop" in replacement_for("commands", row.text):
                row.decided("commands", row.text)
                continue
            exported = re.fullmatch(r"export\s+(\w+)\s*;?", row.text)
            if exported and exported[1] in self.draft.environment:
                row.note(NOT_NEEDED, "an earlier line sets it")
                continue
            assignments = parsed("environment", [row.text]).environ
            if not assignments:
                row.refuse("only variables with a value can be carried over")
            for assignment in assignments:
                self._variables(row, str(assignment))

    def _variables(self, line: FileLine, text: str) -> None:
        assignments = _EXPORTED.sub(r"\1", text)
        try:
            words = shlex.split(assignments, comments=True)
        except ValueError:
            words = []
        code = any(mark in assignments for mark in ("$(", "`", ";"))
        if code or not words or not all("=" in word for word in words):
            line.refuse("it is more than variables with a value")
            return
        for word in words:
            name, _, text = word.partition("=")
            value = expand_variables(text, self.draft.environment)
            if name.endswith("PATH"):
                add_path(line, name, text, self.draft.environment, self.losses)
            elif "$" in value:
                line.part(word).refuse("it has a variable without a known value")
            else:
                add_variable(line, name, value, self.losses)

    def _post(self, line: FileLine, each: Section) -> None:
        if why := other_program(re.sub(r"^-c\s+", "#!", each.rest)):
            line.refuse(why)
        else:
            self.read_shell("\n".join(each.lines), line.number + 1, {})

    def _start(self, line: FileLine, each: Section) -> None:
        lines = [text.strip() for text in each.lines if text.strip()]
        if why := other_program("\n".join(lines)):
            line.refuse(why)
        else:
            starts = [text for text in lines if self._starts(text)]
            command = start_text(starts[0]) if starts else ""
            if starts[1:]:
                line.refuse(
                    "it is a script of several commands: copy it as a file", f"%{each.name}"
                )
            else:
                line.start(command, self.find_program(command.replace('"', "").split()))

    def _starts(self, text: str) -> bool:
        """Return whether a line of a script starts something, rather than prepares it."""
        return not text.startswith("#") and "drop" not in replacement_for("commands", text)

    _READERS: Mapping[str, Any] = {
        "bootstrap": _header,
        "arguments": _arguments,
        "files": _files,
        "environment": _environment,
        "post": _post,
        "runscript": _start,
        "startscript": _start,
    }
