"""Read Dockerfiles.

spython's parser reads single instructions. It knows no line numbers, stages, heredocs, options of
``COPY`` or ``ENV NAME several words`` (seen with 0.3.14), so these are read here.
"""

import re
import shlex
from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from itertools import chain
from pathlib import PurePosixPath
from typing import Any

from lumicontainer.core.apptainer_syntax import hazard
from lumicontainer.core.yaml.validators import RESERVED, variable
from lumicontainer.importing.copies import why_not_copied
from lumicontainer.importing.draft import (
    CARRIED,
    MAX_PATH,
    NOT_CARRIED,
    NOT_NEEDED,
    Draft,
    FileLine,
    fault,
    read_imported,
    too_large,
)
from lumicontainer.importing.environment import (
    NO_VALUE,
    READABLE,
    UNKNOWN_EXPANSION,
    add_index,
    add_path,
    add_variable,
)
from lumicontainer.importing.instructions import (
    HEREDOC,
    Instruction,
    Stage,
    assignments,
    exec_form,
    read_stages,
)
from lumicontainer.importing.lists.requirements import added_source
from lumicontainer.importing.replacements import replacement_for, table
from lumicontainer.importing.shell.losses import Losses, Lost, add_files_of_stage
from lumicontainer.importing.shell.products import ARCHIVE
from lumicontainer.importing.shell.script import ShellReader
from lumicontainer.importing.shell.split import OTHER_EXPANSION, expand_variables, other_program
from lumicontainer.importing.shell.starts import start_text, start_words
from lumicontainer.importing.spython_parsers import instruction as parsed
from lumicontainer.system.terminal.masking import has_password, is_secret, names_secret

_COPIED_FROM = re.compile(r"from=([^\s,]+)")
_MAX_DEPTH = 50
"""Stages that copy from each other, one after the other."""
_LITERAL = re.compile(r"\\\$|'[^'\"]*\$[^'\"]*'")
"""A dollar in single quotes or behind a backslash."""
_SHORT_ADDRESS = re.compile(r"^([\w.-]+@[\w.-]+):(?!//)")
"""Begins the address of a repository, as git and ssh write it."""
_OPTION = re.compile(r"--([\w-]+)(?:=(\S+))?\s+")


def read_dockerfile(draft: Draft, name: str) -> None:
    """Add the instructions of the last stage, and of the stages that it begins with.

    Raises ``InputError`` if the file has no FROM.
    """
    contents = read_stages(read_imported(draft, name), name)
    _Reader(draft, name, contents.values, contents.stages).read(contents.before)


class _Reader(ShellReader):
    def __init__(
        self,
        draft: Draft,
        file: str,
        defaults: Mapping[str, str],
        stages: Sequence[Stage],
        depth: int = 0,
    ) -> None:
        super().__init__(draft, file)
        self.depth = depth
        """How many stages that copy from each other led to this reader."""
        self.defaults = defaults
        self.stages = stages
        self.named = {stage.name: stage for stage in stages if stage.name}
        self.values: dict[str, str] = {}
        self.entry: Sequence[str] | None = ()
        """The words of ENTRYPOINT, which CMD is added to; None if a shell reads them."""
        self.apart: dict[int, _Reader] = {}
        """By stage: what has read it, for those that copy from it."""

    @cached_property
    def copied_from(self) -> set[str]:
        """The stages and images that lines copy or mount from."""
        bodies = " ".join(each.text for stage in self.stages for each in stage.body)
        return {*_COPIED_FROM.findall(bodies.lower())}

    def read(self, before: Sequence[Instruction]) -> None:
        for each in before:
            why = "it chooses the base image, which the platform chooses here"
            self._line(each).note(NOT_NEEDED, why)
        used = {id(stage) for stage in self.used_by(self.stages[-1])}
        for stage in self.stages:
            if id(stage) in used:
                self._from(stage)
                for each in stage.body:
                    self.read_instruction(each)
            else:
                self._leave_out(stage)

    def used_by(self, stage: Stage) -> list[Stage]:
        """Return a stage and those that it is made from, the first one first."""
        used = {id(stage): stage}
        while (below := self.named.get(stage.base.lower())) and id(below) not in used:
            stage = used[id(below)] = below
        return [*reversed(used.values())]

    def _leave_out(self, stage: Stage) -> None:
        last = stage.body[-1].last if stage.body else stage.first.last
        why = f"only the last stage becomes the image; lines {stage.first.line} to {last} do not"
        read = stage.name in self.copied_from
        self._line(stage.first).note(NOT_CARRIED if read else NOT_NEEDED, why)

    def _line(self, each: Instruction) -> FileLine:
        return self.line(each.line, f"{each.name} {each.text}".strip())

    def _from(self, stage: Stage) -> None:
        line = self._line(stage.first)
        if stage.base.lower() in self.named:
            line.note(CARRIED, "the stage is above")
        else:
            line.replace_image(stage.base)

    def read_instruction(self, each: Instruction) -> None:
        """Add what becomes of an instruction."""
        line, before = self._line(each), len(self.draft.lines)
        try:
            if read := self._READERS.get(each.name):
                read(self, line, each)
            else:
                line.decided("instructions", each.name)
        except (ValueError, IndexError) as error:
            line.refuse(f"it cannot be read: {error}")
        if len(self.draft.lines) == before:
            line.refuse("it names nothing")

    def _arg(self, line: FileLine, each: Instruction) -> None:
        for name, value in assignments(each.text):
            if name in self.draft.environment:
                line.part(f"ARG {name}").note(NOT_NEEDED, "the variable that ENV sets wins")
                continue
            known = expand_variables(value, self.values) or self.defaults.get(name, "")
            known = known or table()["platform_arguments"].get(name, "")
            self.values[name] = known
            if not known and f"{name}=" not in each.text:
                self.unset.add(name)
            if add_index(line, name, known) or line.decided("environment", name):
                continue
            if has_password(known) or names_secret(name) or is_secret(name, known):
                line.part(f"ARG {name}").refuse(READABLE)
                continue
            wrong = fault(variable, name) or "$" in known
            if name in RESERVED or name.startswith(("LD_", "BASH_FUNC")) or wrong:
                line.refuse("a parameter cannot have this name or value")
                continue
            self.draft.parameters[name] = known
            empty = "" if known else "; the file gives it no value"
            line.note(CARRIED, f"as the parameter {name}{empty}")

    def _env(self, line: FileLine, each: Instruction) -> None:
        if _LITERAL.search(each.text):
            line.refuse("it has a '$' that stands for itself, as no value of a layer does")
            return
        before = dict(self.values)
        for name, value in assignments(each.text):
            known = expand_variables(value, before)
            if name.endswith("PATH"):
                add_path(line, name, value, before, self.losses)
                if name != "PATH" and "$" not in known:
                    self.values[name] = known
                continue
            if known in (f"${name}", f"${{{name}}}"):
                line.part(f"{name}={value}").note(NOT_NEEDED, "it keeps what the base image has")
                continue
            if OTHER_EXPANSION.search(known):
                line.part(f"{name}={value}").refuse(UNKNOWN_EXPANSION)
                continue
            if re.search(r"\$(\{\w+\}|[A-Za-z_]\w*)", known):
                line.part(f"{name}={value}").refuse(NO_VALUE)
                continue
            self.values[name] = known
            self.draft.parameters.pop(name, None)
            add_variable(line, name, known, self.losses)

    def _workdir(self, line: FileLine, each: Instruction) -> None:
        folder = expand_variables(str(parsed(each.name, each.text).workdir), self.values)
        path = folder if folder.startswith("/") else f"{self.folder}/{folder}"
        block = f"mkdir -p {shlex.quote(path)}\n"
        why = "it has a variable without a known value" if "$" in path else hazard(block)
        if len(path) > MAX_PATH:
            line.refuse(f"no path has more than {MAX_PATH} characters")
            return
        self.folder = path
        if lost := self.losses.find(path, "/"):
            lost.note(line)
        elif why:
            self.losses.lose(path, "/")
            line.refuse(why)
        else:
            self.draft.script.append(block)
            line.note(CARRIED, "for later lines; a container starts in your folder")

    def _run(self, line: FileLine, each: Instruction) -> None:
        rest = each.text
        while option := _OPTION.match(rest):
            rest = rest[option.end() :].lstrip("\\\n \t")
            if option[1] == "mount" and not self._is_mounted(line, option[2] or ""):
                why = "it needs a mount of another stage or a secret: see 'secrets' of layer.yaml"
                line.refuse(why)
                return
        lines = "\n" * each.text.count("\n", 0, len(each.text) - len(rest))
        if words := exec_form(rest):
            rest = shlex.join(words)
        elif each.heredocs and HEREDOC.fullmatch(rest):
            lines, rest = "\n" * (each.text.count("\n") + 1), each.heredocs[0].content()
            if why := other_program(rest):
                line.refuse(why)
                return
        else:
            bodies = ((*each.lines, each.word) for each in each.heredocs)
            rest = "\n".join([rest, *chain.from_iterable(bodies)])
        self.read_shell(lines + rest, each.line, self.values)

    def _is_mounted(self, line: FileLine, text: str) -> bool:
        """Return whether a mount of RUN is not needed here, or is one of the context."""
        keys = dict(each.partition("=")[::2] for each in text.split(","))
        kind = keys.get("type", "bind")
        if kind == "bind" and "from" not in keys:
            target = keys.get("target") or keys.get("dst") or keys.get("destination", "")
            source = keys.get("source") or keys.get("src", "")
            self.copies.mount(line, source, self._target(target))
            return True
        return kind in ("cache", "tmpfs")

    def _copy(self, line: FileLine, each: Instruction) -> None:
        rest = expand_variables(each.text.replace("\\\n", " "), self.values)
        options: dict[str, str] = {}
        while option := _OPTION.match(rest):
            options[option[1]] = option[2] or ""
            rest = rest[option.end() :]
        if why := why_not_copied(each.name, options, rest):
            line.refuse(why)
            self._lose_targets(rest)
            return
        if stage := options.get("from"):
            self._copy_from(line, stage, rest)
            return
        mode = int(options.get("chmod", "0"), 8)
        if each.heredocs:
            self._copy_heredocs(line, each, rest, mode)
        else:
            self._copy_files(line, each.name, rest, mode, options.get("checksum", ""))

    def _lose_targets(self, rest: str) -> None:
        """Note that the files of a copy are not there."""
        *sources, target = exec_form(rest) or shlex.split(rest) or [""]
        place = self._target(target)
        self.losses.lose(place, "/")
        for source in sources:
            self.losses.lose(PurePosixPath(source).name, place)

    def _copy_from(self, line: FileLine, name: str, rest: str) -> None:
        """Add what becomes of files of another stage or image: a layer may have them."""
        *sources, target = exec_form(rest) or shlex.split(rest)
        number = int(name) if name.isdigit() else -1
        stages = [
            each for n, each in enumerate(self.stages) if each.name == name.lower() or n == number
        ]
        losses = self._read_apart(stages[0]).losses if stages else Losses()
        several = len(sources) > 1
        for source in sources:
            part = line.part(f"{line.text.split()[0]} --from={name} {source}") if several else line
            packages = partial(self._add_packages, part, stages[0]) if stages else bool
            held = add_files_of_stage(part, name, source, losses, packages)
            if not replacement_for("stage_files", source).get("same"):
                place = self._target(target)
                file = PurePosixPath(source)
                # A folder's content is copied, not the folder.
                inside = several or (place.endswith("/") and file.suffix)
                path = f"{place}/{file.name}" if inside else place
                refused = not held and self.draft.lines[-1].outcome == NOT_CARRIED
                self.losses.lose(path, "/", NOT_CARRIED if refused else NOT_NEEDED)

    def _add_packages(self, line: FileLine, stage: Stage) -> bool:
        """Add the packages that a stage installs, whose environment is copied; False for none."""
        draft, apart = self.draft, self._read_apart(stage).draft
        if not apart.installed:
            return False
        line.note(CARRIED, f"the packages of '{stage.name or stage.base}' are with its lines")
        if apart.installed[0] not in draft.lines:
            bottom = self.used_by(stage)[0]
            self.line(bottom.first.line, f"FROM {bottom.base}").replace_image(bottom.base)
            draft.lines += [*apart.indexes, *apart.installed]
        draft.python |= apart.python
        draft.layers |= {each.layer for each in apart.installed if each.layer}
        missing = {each.missing for each in apart.installed}
        sources = (each for each in apart.to_pin if each not in draft.to_pin)
        draft.to_pin += [each for each in sources if {*each.values()} & missing]
        return True

    def _read_apart(self, stage: Stage) -> "_Reader":
        """Return what has read all lines of a stage, which are not carried over."""
        if id(stage) not in self.apart:
            if self.depth == _MAX_DEPTH:
                raise too_large(self.file, _MAX_DEPTH, "nested stage")
            draft = self.draft
            other = Draft(draft.folder, draft.goal, draft.name, draft.roots, counts=draft.counts)
            reader = _Reader(other, self.file, self.defaults, self.stages, self.depth + 1)
            reader.apart = self.apart
            # A stage may copy from itself.
            self.apart[id(stage)] = reader
            for each in reader.used_by(stage):
                for instruction in each.body:
                    reader.read_instruction(instruction)
        return self.apart[id(stage)]

    def _copy_files(self, line: FileLine, name: str, rest: str, mode: int, checksum: str) -> None:
        *sources, target = exec_form(rest) or shlex.split(rest)
        many = len(sources) > 1
        place = self._target(target if not many or target.endswith("/") else f"{target}/")
        for source in sources:
            part = line.part(f"{name} {source} {target}") if many else line
            address = _SHORT_ADDRESS.sub(r"ssh://\1/", source)
            if "://" in address:
                part.refuse_source(added_source(address, checksum))
            elif name == "ADD" and ARCHIVE.search(source):
                part.refuse("unpack it in a RUN line, or name it as a source")
            else:
                self.copies.add(part, source, place, mode)
                continue
            # An archive has any files below the place.
            self.losses.lose_product(place, "/", Lost(""))
            self.losses.lose(PurePosixPath(source).name, place)

    def _copy_heredocs(self, line: FileLine, each: Instruction, rest: str, mode: int) -> None:
        *sources, target = rest.split()
        place, heredocs = self._target(target), iter(each.heredocs)
        if len(sources) > 1 and not place.endswith("/"):
            line.refuse("several files need a folder: end its name with '/'")
            return
        for source in sources:
            part = line.part(f"COPY {source} {target}") if len(sources) > 1 else line
            if not HEREDOC.fullmatch(source):
                self.copies.add(part, source, place, mode)
                continue
            only = next(heredocs)
            if not only.quoted and any(mark in only.content() for mark in "$\\"):
                why = "an unquoted heredoc's '$' and backslashes are Docker's"
                part.refuse(f"{why}: quote its word, or copy a file")
            else:
                end = only.word if place.endswith("/") else ""
                self.copies.add_text(part, only.content(), f"{place}{end}", mode)

    def _target(self, path: str) -> str:
        end = "/" if path.endswith("/") or path in (".", "./") else ""
        whole = path if path.startswith("/") else f"{self.folder or '/'}/{path}"
        parts = [part for part in whole.split("/") if part not in ("", ".")]
        return f"/{'/'.join(parts)}{end}" if parts else "/"

    def _start(self, line: FileLine, each: Instruction) -> None:
        words = exec_form(each.text) or ([] if each.text[:1] == "[" else ["sh", "-c", each.text])
        shell = words[2] if words[:2] == ["sh", "-c"] else ""
        if each.name == "CMD" and self.entry is None:
            line.note(NOT_NEEDED, "the shell of ENTRYPOINT leaves it out")
            return
        if each.name == "CMD" and self.entry:
            words, shell = [*self.entry, *words], ""
        elif each.name == "ENTRYPOINT":
            self.entry = None if shell else words
        left = start_words(words)
        command = start_text(shell) if shell else shlex.join(left)
        line.start(command, self.find_program(shlex.split(shell) if shell else left))

    _READERS: Mapping[str, Any] = {
        "ARG": _arg,
        "ENV": _env,
        "WORKDIR": _workdir,
        "RUN": _run,
        "COPY": _copy,
        "ADD": _copy,
        "CMD": _start,
        "ENTRYPOINT": _start,
    }
