"""Turn the shell text of ``RUN`` and ``%post`` into packages, and lines of ``install.sh``."""

import re
import shlex
from collections.abc import Mapping, Sequence

from lumicontainer.core.apptainer_syntax import fits_a_line, hazard
from lumicontainer.importing.copies import Copies
from lumicontainer.importing.draft import (
    CARRIED,
    MAX_COMMANDS,
    NOT_CARRIED,
    NOT_NEEDED,
    Draft,
    FileLine,
    ImportedLine,
    too_large,
)
from lumicontainer.importing.environment import READABLE, add_index, add_variable
from lumicontainer.importing.lists.requirements import sets_index
from lumicontainer.importing.lists.settings import are_settings, chooses_index
from lumicontainer.importing.replacements import replacement_for, table
from lumicontainer.importing.shell import products
from lumicontainer.importing.shell.downloads import read_download
from lumicontainer.importing.shell.groups import MOST_LEVELS, Group, group_of
from lumicontainer.importing.shell.inner_scripts import find_installer
from lumicontainer.importing.shell.installers import (
    Places,
    installs_python,
    read_installer,
    spellings,
)
from lumicontainer.importing.shell.lacks import (
    INSTALLS,
    installs_by_name,
    loss_besides,
    loss_of_list,
)
from lumicontainer.importing.shell.losses import UNKNOWN, Losses, Lost, whole_path
from lumicontainer.importing.shell.parts import (
    ShellPart,
    ShellScope,
    enters,
    find_syntax_error,
    strip_wrappers,
)
from lumicontainer.importing.shell.split import (
    MAX_TEXT,
    ShellCommand,
    empty_variables,
    expand_variables,
    split,
)
from lumicontainer.importing.shell.words import Command, simple_command
from lumicontainer.system.terminal import masking
from lumicontainer.system.terminal.output import hides_text

_UNPINNED = "it downloads what nothing pins; name it under 'sources' of the layer"
_UNREAD = "it installs packages in a form that is not read; name them under 'packages' of the layer"
_NAME_IT = "name what it stands for under 'packages' of the layer"
_UNKNOWN = "it has a variable without a known value"
_COPIES = ("cp", "mv", "ln", "install")
_ENGINE = (
    r">>?\s*[\"']?(?:\$\{?(?:SINGULARITY|APPTAINER)_ENVIRONMENT\}?"
    r"|/environment|/\.singularity\.d/env/[\w.-]+)[\"']?(?=\s|$)"
)
"""Writes to the file by which Apptainer sets variables."""
_LABELS = re.compile(r">>?\s*[\"']?\$\{?(?:SINGULARITY|APPTAINER)_LABELS\b")
"""Writes to the file of which Apptainer makes the labels of an image."""
_SHELL_FILE = re.compile(
    r"(?:~|\$HOME|\$\{HOME\}|/root|/home/[^/]+)/\.(?:bashrc|(?:bash_)?profile|bash_login|zshrc)"
    r"|/etc/bash\.bashrc"
)
"""Files that only interactive shells or login shells read."""
_ACTIVATES = re.compile(r"\b(?:conda|mamba|micromamba|activate)\b")
_SETTING = re.compile(
    r"echo\s+(['\"]?)(?:export\s+)?([A-Za-z_]\w*)=(['\"]?)([^'\"$`]*)\3\1(?<!\s)\s*" + _ENGINE
)
"""Adds a variable of the image in ``%post``."""


class ShellReader:
    """Read a file with shell text, whose folders and variables go on from line to line."""

    def __init__(self, draft: Draft, file: str) -> None:
        self.draft = draft
        self.file = file
        self.losses = Losses()
        self.copies = Copies(draft, self.losses)
        self.folder = ""
        """The folders in which commands run."""
        self.unset: set[str] = set()
        """The arguments of the file that have no value."""

    def line(self, number: int, text: str) -> FileLine:
        """Return a line of the file."""
        return FileLine(self.draft, self.file, number, text)

    def find_program(self, words: Sequence[str]) -> str:
        """Return what a command starts that the image does not have; empty if it has all."""
        refused = {
            re.split(r"[^\w.-]", each.missing)[0] for each in self.draft.lines if each.missing
        }
        named = (*words[:3], *(word for word in words[3:] if word.startswith("/")))
        for number, word in enumerate(named):
            if number and not re.search(r"/|\.\w+$", word):
                continue
            # A program's name alone is looked up on PATH, not in the folder.
            folder = self.folder if number or "/" in word else ""
            is_path = word[:1] not in ("", "-", "$")
            lost = self.losses.find(word, folder or "/") if is_path else None
            if lost and lost.outcome == NOT_CARRIED:
                return word
        program = words[0] if words else ""
        known = "refuse" in replacement_for("python", program, self.draft.goal.accelerator)
        return program if program in refused or known else ""

    def read_shell(self, text: str, first: int, values: Mapping[str, str]) -> None:
        """Add the commands of a text whose first line has the number ``first``."""
        kept = self._read_commands(text, ShellScope(self.folder or "/", values), first)
        if _does_something(kept):
            body = "\n".join([f"cd {shlex.quote(self.folder or '/')}", *kept])
            shown = self.file if fits_a_line(self.file) else "an imported file"
            head = f"# {shown}:{first}\n# shellcheck disable=all\n"
            self.draft.script.append(f"{head}(\n{body}\n)\n")

    def _read_commands(self, text: str, scope: ShellScope, first: int) -> list[str]:
        """Add the commands of a text; return the lines of the script."""
        kept: list[str] = []
        for shell in split(text):
            self._count_command()
            line = self.line(first + shell.offset, shell.text)
            if len(shell.text) > MAX_TEXT:
                line.refuse(f"it has more than {MAX_TEXT >> 10} KiB")
                continue
            if hides_text(shell.text):
                line.refuse("it has control characters, which hide what it does")
                continue
            command = simple_command(shell.text, scope.values)
            plain = expand_variables(strip_wrappers(shell.text), scope.values)
            part = ShellPart(line, command, plain, shell.compound)
            kept += self._read_part(part, shell, scope)
        return kept

    def _count_command(self) -> None:
        self.draft.counts.commands += 1
        if self.draft.counts.commands > MAX_COMMANDS:
            raise too_large(self.file, MAX_COMMANDS, "command")

    def _read_part(self, part: ShellPart, shell: ShellCommand, scope: ShellScope) -> list[str]:
        """Add what becomes of a command; return the lines of the script for it."""
        line, rows = part.line, self.draft.lines
        if self._refuse_secret(part):
            self._lose_products(part, scope, Lost(""))
            return []
        if enters(part):
            return self._enter(part, scope)
        lost = self._lost_folder(scope)
        group = group_of(shell.text, part.command, scope.values)
        if group and not lost and scope.level < MOST_LEVELS:
            lines = self._read_group(line, group, scope)
            if lines is not None:
                return lines
        if lost and not self._is_decided(part, scope):
            loss_besides(part, lost).note(line, "runs in")
        elif not lost and self._is_kept(part, scope):
            self._restore_products(part, scope)
            return [*scope.follow(), shell.text]
        lost = lost or self._find_lost(part, scope)
        if lost or rows[-1].outcome == NOT_CARRIED:
            self._lose_products(part, scope, lost or Lost(""))
        return []

    def _refuse_secret(self, part: ShellPart) -> bool:
        """Refuse a command that has a secret or writes a file of secrets; return whether it does.

        Its secrets are hidden; of a file of secrets, the name alone is shown.
        """
        secrets = {*masking.shell_secrets(part.line.text)}
        masking.hide(secrets)
        files = [*filter(masking.is_secret_file, products.products(part.plain, part.command))]
        if files:
            part.line.part(f"a command that writes {files[0]}").refuse(READABLE)
        elif secrets:
            part.line.refuse(READABLE)
        return bool(files or secrets)

    def _restore_products(self, part: ShellPart, scope: ShellScope) -> None:
        for path in products.products(part.plain, part.command):
            self.losses.restore(path, scope.folder)
        for name in products.variables(part.line.text):
            self.losses.restore_variable(name)
        scope.values |= part.command.settings() if part.command else {}

    def _lose_products(self, part: ShellPart, scope: ShellScope, lost: Lost) -> None:
        for path in products.products(part.plain, part.command):
            self.losses.lose_product(path, scope.folder, lost)
        for name in products.variables(part.line.text):
            scope.values.pop(name, None)
            self.losses.lose_variable(name, lost.outcome)

    def _lost_folder(self, scope: ShellScope) -> Lost | None:
        return self.losses.find(scope.folder, "/") if scope.folder != "/" else None

    def _enter(self, part: ShellPart, scope: ShellScope) -> list[str]:
        """Add what becomes of a command that changes the folder."""
        line = part.line
        words = part.command.words if part.command else ("cd", UNKNOWN)
        if words[0] == "popd" or words[1:2] == ("-",):
            scope.folder = scope.before.pop() if scope.before else "/"
        else:
            target = words[1] if words[1:] else "/root"
            scope.before.append(scope.folder)
            scope.folder = whole_path(target, scope.folder)
        lost = self.losses.find_in(line.text, scope.folder) if part.command is None else None
        lost = lost or self._lost_folder(scope)
        if lost:
            scope.folder = whole_path(lost.name, "/") if part.command is None else scope.folder
            lost.note(line)
            return []
        if part.command is None and (why := hazard(line.text) or find_syntax_error(line.text)):
            line.refuse(why)
            return []
        line.note(CARRIED)
        scope.real = scope.folder
        known = UNKNOWN not in scope.folder
        return [f"cd {shlex.quote(scope.folder)}" if known else line.text]

    def _read_group(self, line: FileLine, group: Group, scope: ShellScope) -> list[str] | None:
        """Add the commands of a group; None if the command can stay as it is."""
        rows, start = self.draft.lines, (scope.folder, scope.real)
        before = len(rows)
        inner = ShellScope(scope.folder, scope.values) if group.own_shell else scope
        inner.level = scope.level + 1
        lines, count = list[str](), 0
        for name, value in group.turns:
            inner.values |= {name: value} if name else {}
            kept = self._read_commands(group.body, inner, line.number + group.offset)
            lines += [f"{name}={shlex.quote(value)}"] * bool(name and kept) + kept
            count += len(kept)
        if not group.own_shell:
            scope.level -= 1
        is_same = group.own_shell or (scope.folder, scope.real) == start
        if is_same and count == len(rows) - before and _are_carried(rows[before:]):
            del rows[before:]
            return None
        if not group.own_shell:
            return lines
        if not _does_something(lines):
            return []
        return [*scope.follow(), "\n".join(["(", *lines, f") {group.behind}".strip()])]

    def _is_kept(self, part: ShellPart, scope: ShellScope) -> bool:
        """Add what becomes of a command; return whether it is a line of the script."""
        if setting := _SETTING.fullmatch(part.line.text.strip()):
            add_variable(part.line, setting[2], setting[4], self.losses)
            return False
        if self._writes_index(part, scope):
            return False
        if _LABELS.search(part.line.text):
            return not part.line.decided("sections", "labels")
        if self._writes_shell_file(part):
            return False
        if part.command is None:
            return self._is_text_kept(part, scope)
        return not self._is_decided(part, scope) and self._is_other_kept(part, scope)

    def _is_decided(self, part: ShellPart, scope: ShellScope) -> bool:
        """Add a command that does the same in each folder; return False for others."""
        line, command, before = part.line, part.command, len(self.draft.lines)
        if command is None:
            return False
        if folder := products.environment(command.words):
            self.losses.lose_environment(folder, scope.folder)
        if self._sets_index_alone(line, command):
            return True
        is_empty = not command.words and not command.assigned
        if read_installer(line, command, self._places(scope)) or is_empty:
            self._note_empty(line, scope, before)
            if installs_python(command):
                self.draft.installed += self.draft.lines[before:]
            return True
        for each in spellings(command):
            if row := replacement_for("commands", each):
                lost = self._find_lost(part, scope) if "refuse" in row else None
                lost = lost and loss_besides(part, lost)
                return self._note_lost(line, lost) or line.decided("commands", each)
        return False

    def _writes_index(self, part: ShellPart, scope: ShellScope) -> bool:
        """Add the indexes of settings of pip or uv that a command writes; False for none."""
        line, command = part.line, part.command
        if chooses_index(line.text):
            return line.decided("pip_options", "--index-url")
        written = [*filter(are_settings, products.products(part.plain, command))]
        if not command or not written or command.program() not in _COPIES:
            return False
        names = (self.copies.find(whole_path(word, scope.folder)) for word in command.words[1:])
        copied = [name for name in names if name and self.draft.has_file(name)]
        results = [self.copies.add_settings(line, name, written[0]) for name in copied]
        return any(results) or (not results and line.decided("pip_options", "--config-file"))

    def _writes_shell_file(self, part: ShellPart) -> bool:
        """Add what a command writes for interactive shells; return False for others."""
        written = [*products.products(part.plain, part.command)]
        if not written or not all(map(_SHELL_FILE.fullmatch, written)):
            return False
        if _ACTIVATES.search(part.line.text):
            return part.line.decided("commands", "conda activate")
        part.line.refuse("programs in a container do not read it; name variables in the layer")
        return True

    def _sets_index_alone(self, line: FileLine, command: Command) -> bool:
        """Add the indexes that variables choose; return whether the command does nothing else."""
        settings = command.settings()
        names = [name for name, value in settings.items() if add_index(line, name, value)]
        return bool(names) and len(names) == len(command.words[1:] or settings)

    def _note_empty(self, line: FileLine, scope: ShellScope, before: int) -> None:
        """Add the variables by which a command would install more, or that nothing is left."""
        is_done = any(row.text for row in self.draft.lines[before:])
        names = empty_variables(line.text, scope.values)
        if lacking := [name for name in names if name in self.unset or not is_done]:
            line.refuse(f"{lacking[0]} has no value: {_NAME_IT}")
        elif not is_done:
            line.note(NOT_NEEDED, "nothing is left to do")

    def _note_lost(self, line: FileLine, lost: Lost | None) -> bool:
        if lost:
            lost.note(line)
        return bool(lost)

    def _is_text_kept(self, part: ShellPart, scope: ShellScope) -> bool:
        """Add what becomes of a command whose words are not known, or which is several."""
        text = strip_wrappers(part.line.text)
        if sets_index(text) and not INSTALLS.search(text):
            return not part.line.decided("pip_options", "--index-url")
        row = replacement_for("commands", text)
        if row and not (part.several and re.search(r"[|;&<>\n]", text)):
            return not part.line.decided("commands", text)
        unknown = not part.several and bool(re.search(table()["downloads"], text))
        return self._is_other_kept(part, scope, _UNKNOWN if unknown else row.get("refuse", ""))

    def _places(self, scope: ShellScope) -> Places:
        return Places(
            lambda path: self.copies.find(whole_path(path, scope.folder)),
            lambda word: self.losses.find(word, scope.folder),
        )

    def _is_other_kept(self, part: ShellPart, scope: ShellScope, why: str = "") -> bool:
        """Add what becomes of a command that installs no packages by name."""
        line, text = part.line, part.line.text
        if read_download(line, part.plain, part.command, self.losses, scope.folder):
            return False
        if re.search(_ENGINE, text):
            why = "Apptainer makes this file after the build; name its variables in the layer"
        elif re.search(r"/etc/apt/|sources\.list", text):
            why = "name a script that does it under apt_repositories of the layer"
        elif INSTALLS.search(text) or installs_by_name(text):
            why = why or _UNREAD
        elif re.search(table()["downloads"], text):
            why = why or _UNPINNED
        elif name := find_installer(part.command, part.plain, scope.folder, self.copies):
            why = f"{name} installs or downloads in a form that is not read; name it in the layer"
        elif lost := self._find_lost(part, scope):
            loss_of_list(part, lost).note(line)
            return False
        if why := why or hazard(text) or find_syntax_error(text):
            line.refuse(why)
            return False
        line.note(CARRIED)
        return True

    def _find_lost(self, part: ShellPart, scope: ShellScope) -> Lost | None:
        command = part.command
        if command and command.program() in ("echo", "printf"):
            return self.losses.find_in(" ".join(command.outputs), scope.folder)
        for word in command.words if command else ():
            value = word.partition("=")[2] if word.startswith("-") else word
            if value and (lost := self.losses.find(value, scope.folder)):
                return lost
        return self.losses.find_in(part.plain, scope.folder)


def _does_something(lines: Sequence[str]) -> bool:
    """Return whether lines of a script do more than enter folders."""
    return any(not re.match(r"cd\s", each) for each in lines)


def _are_carried(rows: Sequence[ImportedLine]) -> bool:
    return all(row.outcome == CARRIED for row in rows)
