"""Turn the shell text of ``RUN`` and ``%post`` into packages, and lines of ``install.sh``."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from lumicontainer.core.apptainer_syntax import hazard
from lumicontainer.core.yaml.validators import apt_package
from lumicontainer.importing import conda, requirements
from lumicontainer.importing.copies import Copies
from lumicontainer.importing.draft import (
    CARRIED,
    NOT_CARRIED,
    NOT_NEEDED,
    Draft,
    FileLine,
    fault,
)
from lumicontainer.importing.replacements import replacement_for, table
from lumicontainer.importing.shell_split import ShellCommand, command_words, expand_variables, split
from lumicontainer.system import process

_PIP = re.compile(r"(?:python[\d.]*\s+-m\s+)?pip[\d.]*\s+install(?!\S)|uv\s+pip\s+install(?!\S)")
_CONDA = re.compile(r"(?:conda|mamba|micromamba)\s+(install|create|env\s+(?:create|update))(?!\S)")
_INSTALLERS = re.compile(r"(?i)(mini|mamba|ana)(conda|forge)|micromamba|get-pip\.py")
_ARCHIVE = re.compile(r"\.(tar(\.\w+)?|tgz|tbz2?|txz|zip|sh|run)$")
_ASSIGNMENT = re.compile(r"\w+=\S*")
_UNPINNED = "it downloads what nothing pins; name it under 'sources' of the layer"
_UNKNOWN = "it has a variable without a known value"


class ShellReader:
    """Read a file with shell text, whose folders and variables go on from line to line."""

    def __init__(self, draft: Draft, file: str) -> None:
        self.draft = draft
        self.file = file
        self.copies = Copies(draft)
        self.folder = ""
        """Where commands run."""
        self.lost = ("", "")
        """The folder where they would run if it were there, and the outcome of what would."""
        self.missing: dict[str, str] = {}
        """Names of what is not downloaded, each with the outcome of what uses it."""

    def line(self, number: int, text: str) -> FileLine:
        """Return a line of the file."""
        return FileLine(self.draft, self.file, number, text)

    def read_shell(self, text: str, first: int, values: Mapping[str, str]) -> None:
        """Add the commands of a text whose first line has the number ``first``."""
        kept: list[str] = []
        lost, known = self.lost, dict(values)
        for command in split(text):
            line = self.line(first + command.offset, command.text)
            away = re.match(r"cd\s+(\S*)", command.text)
            if lost[0] and not (away and away[1].startswith("/")):
                line.note(lost[1], f"it runs in {lost[0]}, which is not there")
                lost = self.lost if away else lost
            elif self._is_kept(line, known, compound=command.compound):
                kept.append(command.text)
                known |= _assigned(command, known)
                lost = ("", "") if away else lost
            elif away:
                lost = away[1], self.draft.lines[-1].outcome
        if any(not re.match(r"cd\s", each) for each in kept):
            enter = [f"cd {shlex.quote(self.folder)}"] if self.folder else []
            body = "\n".join([*enter, *kept])
            head = f"# {self.file}:{first}\n# shellcheck disable=all\n"
            self.draft.script.append(f"{head}(\n{body}\n)\n")

    def _is_kept(self, line: FileLine, values: Mapping[str, str], *, compound: bool) -> bool:
        """Add what becomes of a command; return whether it is a line of the script."""
        plain = _plain(line.text)
        found = None if compound else command_words(plain, values)
        if found is None:
            unknown = not compound and bool(re.search(table()["downloads"], line.text))
            why = _UNKNOWN if unknown else replacement_for("commands", plain).get("refuse", "")
            return self._is_other_kept(line, expand_variables(plain, values), why)
        found, before = _without_options(found), len(self.draft.lines)
        if not found or self._read_installer(line, found):
            if len(self.draft.lines) == before:
                line.note(NOT_NEEDED, "nothing is left to do")
            return False
        if line.decided("commands", " ".join(found)):
            return False
        return self._is_other_kept(line, expand_variables(plain, values))

    def _read_installer(self, line: FileLine, found: Sequence[str]) -> bool:
        joined = shlex.join(found)
        if re.match(r"apt(-get)?\s", joined) and "install" in found:
            _add_apt(line, found[found.index("install") + 1 :])
        elif _PIP.match(joined):
            for path in requirements.add_pip(line, found[found.index("install") + 1 :]):
                part = line.part(f"pip install -r {path}")
                requirements.read_named(part, self._file(path), requirements.read_requirements)
        elif conda_verb := _CONDA.match(joined):
            verb = conda_verb[1].split()
            files = ["environment.yml"] if len(verb) > 1 else []
            self._add_conda(line, found[1 + len(verb) :], files)
        else:
            return False
        return True

    def _file(self, path: str) -> str:
        """Return the name in the folder of what a path of the image was copied from."""
        return self.copies.find(str(PurePosixPath(self.folder or "/") / path))

    def _add_conda(self, line: FileLine, words: Sequence[str], files: Sequence[str]) -> None:
        """Add what conda installs; ``files`` are those that it reads if none is named."""
        wanted = conda.wanted(words)
        if wanted.unknown:
            line.refuse(f"the option '{wanted.unknown}' of conda has no counterpart")
            return
        for path in wanted.files or files:
            read = conda.read_specs if path.endswith(".txt") else conda.read_environment
            requirements.read_named(line, self._file(path), read)
        for word in wanted.packages:
            conda.add_package(line.part(word))

    def _is_other_kept(self, line: FileLine, plain: str, why: str = "") -> bool:
        """Add what becomes of a command that installs no packages by name."""
        text = line.text
        if self._read_download(line, plain):
            return False
        if used := self.used(plain) or self.used(text):
            line.note(self.missing[used], f"it uses {used}, which is not there")
            return False
        if re.search(r"/etc/apt/|sources\.list", text):
            why = "name a script that does it under apt_repositories of the layer"
        elif re.search(table()["downloads"], text):
            why = why or _UNPINNED
        if why := why or hazard(text) or _syntax_error(text):
            line.refuse(why)
            return False
        line.note(CARRIED)
        return True

    def used(self, text: str) -> str:
        """Return what is missing and a text names; empty if it names none of it."""
        named = re.findall(r"[\w.+${}-]+", text)
        return next((name for name in self.missing if name in named), "")

    def _read_download(self, line: FileLine, plain: str) -> bool:
        git = re.search(r"\bgit\s+clone\b(.*)", plain.replace("\\\n", " "), re.DOTALL)
        urls = re.findall(r"(?:https?|ftp)://[^\s'\"|;)&>]+", plain)
        if not urls:
            return False
        if _INSTALLERS.search(urls[0]) and not git:
            saved = _saved_as(line.text) or urls[0]
            self.missing[PurePosixPath(saved).name] = NOT_NEEDED
            line.replace("python", "the layer has Python and pip")
            return True
        if git:
            source = _clone(git[1], urls[0])
            self.missing[source["folder"]] = NOT_CARRIED
        elif re.search(r"\b(curl|wget|aria2c)\b", plain):
            source = requirements.url_source(urls[0], _saved_as(plain))
            self.missing[source["file"]] = NOT_CARRIED
            self.missing[_ARCHIVE.sub("", PurePosixPath(urls[0]).name)] = NOT_CARRIED
        else:
            return False
        named = source.get("folder", "")
        if line.decided("python", requirements.package_of(named)):
            self.missing[named] = NOT_NEEDED
        else:
            line.refuse_source(source)
        return True


def _add_apt(line: FileLine, found: Sequence[str]) -> None:
    values = {n for n, word in enumerate(found, 1) if word in ("-t", "-o", "-c")}
    wanted = [word for n, word in enumerate(found) if n not in values and not word.startswith("-")]
    for word in dict.fromkeys(wanted):
        package, _, version = word.partition("=")
        part = line.part(f"apt {word}")
        if part.decided("apt", package):
            continue
        if fault(apt_package, package):
            part.refuse("it is not the name of a Debian package")
            continue
        line.draft.apt.setdefault(package)
        part.note(CARRIED, f"in the version of {line.draft.goal.base}" if version else "")


def _assigned(command: ShellCommand, values: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a command sets to values which are known."""
    found = [] if command.compound else command_words(command.text, values) or []
    pairs = [each.partition("=") for each in found[found[:1] == ["export"] :]]
    plain = all(name.isidentifier() and equals for name, equals, _ in pairs)
    return {name: value for name, _, value in pairs} if plain else {}


def _plain(text: str) -> str:
    """Return a command without ``sudo`` and the variables that are set for it alone."""
    found = text.replace("\\\n", " ").split(" ")
    while found and (found[0] in ("", "sudo", "env", "-E") or _ASSIGNMENT.fullmatch(found[0])):
        found.pop(0)
    return " ".join(found) or text


def _without_options(found: list[str]) -> list[str]:
    """Return the words of a command of apt without options before what it does."""
    if found[:1] not in (["apt"], ["apt-get"]):
        return found
    first = next((n for n, word in enumerate(found[1:], 1) if not word.startswith("-")), 1)
    return [found[0], *found[first:]]


def _clone(rest: str, url: str) -> dict[str, str]:
    behind = [word for word in rest.partition(url)[2].split() if not word.startswith("-")]
    folder = (
        PurePosixPath(behind[0]).name if behind and re.fullmatch(r"[\w./-]+", behind[0]) else ""
    )
    return requirements.git_source(url, folder)


def _saved_as(text: str) -> str:
    """Return the name of the file that a download is written to; empty if its URL names it."""
    option = r"-[a-zA-Z]*O" if re.search(r"\bwget\b", text) else r"-[a-zA-Z]*o"
    form = rf"(?:\s{option}|--output(?:-document)?)[= ]\s*([\w./+-]+)(?![\w./+:-])"
    found = re.search(form, text) or re.search(r"[^>&]>\s*([\w./+-]+)", text)
    name = PurePosixPath(found[1]).name if found else ""
    return name if re.fullmatch(r"[A-Za-z0-9][\w.+-]*", name) else ""


def _syntax_error(text: str) -> str:
    command = ["bash", "--norc", "--noprofile", "-O", "extglob", "-n"]
    done = process.finished(command, env={"PATH": "/usr/bin:/bin"}, given=text.encode())
    return "bash cannot parse it" if done.returncode or done.stderr else ""
