"""Parse a batch script into the linter's model, with ``tree-sitter`` and its grammar of bash.

Only what the text decides is taken as known: a variable with one literal value, a string behind
``bash -c``, a file that the script writes by a here-document. All else stays unknown.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from lumicontainer.errors import InputError, Place, Problem
from lumicontainer.jobs.lint.reading.directives import read_directives
from lumicontainer.jobs.lint.reading.evaluate import evaluate, expanded_names, is_many
from lumicontainer.jobs.lint.reading.model import (
    FILLER,
    HOME,
    SHELL,
    UNKNOWN,
    Assignment,
    Context,
    Script,
    ScriptCommand,
    Span,
    Start,
    Statement,
    Word,
)
from lumicontainer.jobs.lint.reading.starts import read_launch
from lumicontainer.jobs.lint.reading.text import read_ignores, refuse_other_content
from lumicontainer.jobs.lint.reading.tree import (
    assigned_names,
    expansions,
    is_background,
    parser,
)

if TYPE_CHECKING:  # It is imported when a script is linted.
    from tree_sitter import Node

_LONGEST = 1 << 16
"""Characters of a value."""
_DEEPEST = 200
"""How deep the tree may be; three levels are a command in a command."""
_SHELL = 10
"""Levels that a shell in a shell counts as."""
_LOOPS = frozenset(("for_statement", "while_statement", "c_style_for_statement"))
_CONDITIONS = frozenset(("if_statement", "case_statement"))
_BRANCHES = _LOOPS | _CONDITIONS | {"function_definition"}
_EXPORTS = re.compile(r"export|declare\s+-\w*x\w*|typeset\s+-\w*x\w*")
_SUBSTITUTIONS = frozenset(("command_substitution", "process_substitution"))
_ESCAPES = re.compile(rb"\\(?=[$`\\\"])")
_UNSETTING = frozenset(("read", "mapfile", "readarray", "getopts", "unset"))


def parse_script(file: str, data: bytes) -> Script:
    """Return the model of a batch script; raise ``InputError`` if it is not one."""
    refuse_other_content(file, data)
    walker = _Walker(file, data, Context())
    walker.read_all()
    return Script(
        file,
        data,
        read_directives(data, walker.comments),
        walker.settings,
        walker.starts,
        walker.statements,
        walker.expansions,
        dict(read_ignores(data)),
        walker.is_understood,
    )


class _Walker:
    """Walk over the tree of one text: the script itself, or a text in it that a shell runs."""

    def __init__(
        self, file: str, data: bytes, context: Context, offsets: Sequence[int] = ()
    ) -> None:
        self.file, self.data, self.context, self.offsets = file, data, context, offsets
        self.known: dict[str, str] = {"HOME": HOME}
        self.lists: dict[str, tuple[Word, ...]] = {}
        self.files: dict[str, tuple[str, int, bool]] = {}
        self.settings: list[Assignment] = []
        self.starts: list[Start] = []
        self.statements: list[Statement] = []
        self.expansions: dict[str, list[Span]] = {}
        self.expanded: tuple[tuple[int, int], ...] = ()
        self.depth = 0
        self.is_understood = True
        self.comments: set[int] = set()

    def read_all(self) -> None:
        """Read the whole text."""
        root = parser().parse(self.data).root_node
        self._look_over(root)
        self.expanded = tuple(expansions(root))
        self.is_understood = not root.has_error
        for child in root.children:
            before = len(self.starts)
            if child.is_named and child.type != "comment":
                background = is_background(child)
                self._visit(child, replace(self.context, background=background))
                self._add_statement(child, self.starts[before:])
        if not self.context.start:
            for name, start, end in expanded_names(root):
                self.expansions.setdefault(name, []).append(self._span(start, end))

    def _add_statement(self, node: "Node", starts: Sequence[Start]) -> None:
        own = tuple(each for each in starts if each.command.context.start is self.context.start)
        names = tuple(each.command.name for each in own)
        span = self._span(node.start_byte, node.end_byte)
        statement = Statement(self._text(node), span, own, is_background(node), names)
        self.statements.append(statement)

    def _look_over(self, root: "Node") -> None:
        """Collect the places of comments; raise ``InputError`` if the tree is too deep."""
        nodes = [(root, self.depth)]
        while nodes:
            node, depth = nodes.pop()
            if depth > _DEEPEST:
                place = str(Place(self.file, node.start_point[0] + 1))
                why = "its commands are nested too deep"
                raise InputError(Problem("cannot lint the script", place, why, "simplify it"))
            if node.type == "comment":
                self.comments.add(node.start_byte)
            nodes += [(each, depth + 1) for each in node.children]

    def _visit(self, node: "Node", context: Context) -> None:
        if node.type == "command":
            self._read_command(node, context)
        elif node.type == "variable_assignment":
            self._read_setting(node, context, exported=False)
        elif node.type == "declaration_command":
            self._read_declaration(node, context)
        elif node.type == "redirected_statement":
            self._read_redirected(node, context)
        elif node.type == "unset_command":
            for child in node.named_children:
                self.known.pop(self._text(child), None)
        else:
            self._visit_children(node, self._inner(node, context))

    def _visit_children(self, node: "Node", context: Context) -> None:
        if node.type in _BRANCHES:
            for name in assigned_names(node):
                self.known.pop(name, None)
        last = node.named_children[-1] if node.named_children else None
        for index, child in enumerate(node.children):
            inner = replace(context, background=True) if is_background(child) else context
            if node.type == "pipeline" and child != last:
                inner = replace(inner, piped=True)
            if node.type == "list" and index:
                inner = replace(inner, conditional=True, optional=True)
            if child.is_named:
                self._visit(child, inner)

    def _inner(self, node: "Node", context: Context) -> Context:
        if node.type in _BRANCHES:
            optional = context.optional or node.type in _CONDITIONS
            return replace(context, conditional=True, optional=optional)
        if node.type in _SUBSTITUTIONS:
            return replace(context, subshell=True, captured=True)
        if node.type in ("subshell", "pipeline"):
            return replace(context, subshell=True)
        return context

    def _read_declaration(self, node: "Node", context: Context) -> None:
        exported = bool(_EXPORTS.match(self._text(node)))
        several = len([each for each in node.named_children if each.type != "word"]) > 1
        for child in node.named_children:
            if child.type == "variable_assignment":
                statement = None if several else node
                self._read_setting(child, context, exported=exported, statement=statement)
            elif child.type == "variable_name" and exported:
                self._export(self._text(child), child, context)

    def _export(self, name: str, node: "Node", context: Context) -> None:
        for index, each in enumerate(self.settings):
            if each.name == name and each.context == context:
                self.settings[index] = each._replace(exported=True, lines=None)
                return
        span = self._span(node.start_byte, node.end_byte)
        value = Word(UNKNOWN, span)
        self.settings.append(Assignment(name, value, span, span, True, context))

    def _read_setting(
        self,
        node: "Node",
        context: Context,
        *,
        exported: bool,
        statement: "Node | None" = None,
    ) -> None:
        setting = self._setting(node, context, exported=exported)
        if setting is None:
            return
        whole = statement or node
        self.settings.append(setting._replace(lines=self._whole_lines(whole)))
        self._visit_children(node, replace(context, subshell=True))
        value = node.child_by_field_name("value")
        self.known.pop(setting.name, None)
        self.lists.pop(setting.name, None)
        if context.conditional or context.subshell:
            return
        if value is not None and value.type == "array":
            self.lists[setting.name] = tuple(self._words(value.named_children))
            return
        text = setting.value.text
        # A value that doubles in each line would fill the memory.
        if setting.value.is_known and len(text) <= _LONGEST and b"+=" not in (node.text or b""):
            self.known[setting.name] = text

    def _setting(self, node: "Node", context: Context, *, exported: bool) -> Assignment | None:
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None or name.type != "variable_name":
            return None
        end = self._span(node.end_byte, node.end_byte)
        word = Word("", end) if value is None else self._word(value)
        span = self._span(node.start_byte, node.end_byte)
        name_span = self._span(name.start_byte, name.end_byte)
        return Assignment(self._text(name), word, name_span, span, exported, context)

    def _read_redirected(self, node: "Node", context: Context) -> None:
        body = next((each for each in node.children if each.type == "heredoc_redirect"), None)
        command = node.child_by_field_name("body")
        if command is not None:
            self._visit(command, context)
        if body is None or command is None:
            return
        text = next((each for each in body.named_children if each.type == "heredoc_body"), None)
        begin = next((each for each in body.named_children if each.type == "heredoc_start"), None)
        if text is None or begin is None:
            return
        literal = self._text(begin)[:1] in "'\"\\"
        self._keep_document(node, command, (self._text(text), text.start_byte, literal), context)

    def _keep_document(
        self, node: "Node", command: "Node", document: tuple[str, int, bool], context: Context
    ) -> None:
        """Remember a file that the script writes; read a text that a shell gets."""
        start = self.starts[-1] if self.starts else None
        if start and start.parts and start.parts[-1].kind == SHELL:
            self._read_text(*document, replace(context, start=start))
            return
        name = (command.text or b"").split(maxsplit=1)[:1]
        target = re.search(r">\s*([\w./-]+)", self._text(node).partition("\n")[0])
        if name == [b"cat"] and target:
            self.files[PurePosixPath(target[1]).name] = document

    def _read_text(self, text: str, begin: int, literal: bool, context: Context) -> None:
        data = text.encode()
        dropped = set() if literal else {match.start() for match in _ESCAPES.finditer(data)}
        if not literal:
            data = self._without_expansions(data, begin)
        places = [index for index in range(len(data) + 1) if index not in dropped]
        offsets = [self._offset(begin + index) for index in places]
        data = bytes(data[index] for index in places[:-1])
        inner = _Walker(self.file, data, replace(context, editable=literal), offsets)
        inner.known |= self.known
        inner.depth = self.depth + _SHELL
        inner.read_all()
        self.settings += inner.settings
        self.starts += inner.starts

    def _without_expansions(self, data: bytes, begin: int) -> bytes:
        """Return a text with fillers where bash puts values before another shell reads it."""
        for start, end in self.expanded:
            first, last = max(start - begin, 0), min(end - begin, len(data))
            if first < last:
                data = data[:first] + FILLER * (last - first) + data[last:]
        return data

    def _read_command(self, node: "Node", context: Context) -> None:
        parts, settings = [], []
        for child in node.children:
            if child.type == "variable_assignment":
                if setting := self._setting(child, context, exported=True):
                    settings.append(setting)
            elif child.is_named and not child.type.endswith("redirect"):
                parts.append(child)
            self._visit_substitutions(child, context)
        words = tuple(self._words(parts))
        if not words:
            return
        span = self._span(node.start_byte, node.end_byte)
        command = ScriptCommand(words, span, context, tuple(settings), self._text(node))
        if command.name in _UNSETTING:
            for each in words[1:]:
                self.known.pop(each.text, None)
        start = read_launch(command)
        self.starts.append(start)
        self._read_inner(start, context)

    def _visit_substitutions(self, node: "Node", context: Context) -> None:
        if node.type in _SUBSTITUTIONS:
            self._visit(node, context)
            return
        for child in node.children:
            self._visit_substitutions(child, context)

    def _read_inner(self, start: Start, context: Context) -> None:
        inner = replace(context, start=start)
        # `srun ./select_gpu`, where the script wrote the file before.
        for word in start.command.words if start.parts else ():
            document = self.files.get(word.text.rpartition("/")[2])
            if document:
                self._read_text(*document, inner)
        shell = start.parts[-1] if start.parts else None
        if shell and shell.kind == SHELL and shell.script and not shell.script.many:
            word = shell.script
            literal = word.raw.startswith("'")
            text = word.raw[1:-1] if word.raw[:1] in ("'", '"') else word.raw
            begin = word.span.start + (text != word.raw)
            self._read_text(text, self._index(begin), literal, inner)

    def _words(self, nodes: Sequence["Node"]) -> Iterator[Word]:
        for node in nodes:
            name = re.fullmatch(r'"?\$\{(\w+)\[@\]\}"?', self._text(node))
            if name and name[1] in self.lists:
                yield from self.lists[name[1]]
                continue
            word = self._word(node)
            if word.is_known and is_many(node) and (several := word.text.split()) != [word.text]:
                yield from (word._replace(text=each) for each in several)
            else:
                yield word

    def _word(self, node: "Node") -> Word:
        text = evaluate(node, self.known)
        names = frozenset(name for name, _, _ in expanded_names(node))
        span = self._span(node.start_byte, node.end_byte)
        many = is_many(node) and UNKNOWN in text
        return Word(text, span, self._text(node), names, many)

    def _whole_lines(self, node: "Node") -> Span | None:
        """Return the lines of a statement if nothing else stands there."""
        begin = self.data.rfind(b"\n", 0, node.start_byte) + 1
        end = self.data.find(b"\n", node.end_byte)
        end = len(self.data) if end < 0 else end + 1
        around = self.data[begin : node.start_byte] + self.data[node.end_byte : end]
        return None if around.strip() else self._span(begin, end)

    def _span(self, start: int, end: int) -> Span:
        return Span(self._offset(start), self._offset(end))

    def _offset(self, index: int) -> int:
        return self.offsets[index] if self.offsets else index

    def _index(self, offset: int) -> int:
        return bisect_left(self.offsets, offset) if self.offsets else offset

    def _text(self, node: "Node") -> str:
        return self.data[node.start_byte : node.end_byte].decode(errors="replace")
