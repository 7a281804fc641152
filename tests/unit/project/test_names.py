"""No two classes, and no two functions that are imported by name, have one name."""

import ast
from collections import defaultdict
from collections.abc import Iterator

import pytest

from .test_floors import MODULES, source

pytestmark = pytest.mark.slow


def test_a_public_class_name_is_defined_in_one_module() -> None:
    definitions: dict[str, list[str]] = defaultdict(list)
    for module, path in MODULES.items():
        if module.startswith("inside"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                definitions[node.name].append(module)
    assert {name: modules for name, modules in definitions.items() if len(modules) > 1} == {}


def functions_of(module: str) -> set[str]:
    body = ast.parse(MODULES[module].read_text()).body
    return {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def test_no_two_functions_that_are_imported_by_name_have_the_same() -> None:
    defined = {module: functions_of(module) for module in MODULES}
    definitions: dict[str, set[str]] = defaultdict(set)
    for importer, path in MODULES.items():
        if importer == "api":
            continue  # Its functions have the names of the verbs.
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (module := source(importer, node)) in defined:
                for name in {each.name for each in node.names} & defined[module]:
                    definitions[name].add(module)
    assert {name: modules for name, modules in definitions.items() if len(modules) > 1} == {}


IRREGULAR = frozenset(
    (
        *("begun", "bound", "built", "caught", "chosen", "done", "drawn", "found", "given", "gone"),
        *("held", "hidden", "kept", "known", "left", "lost", "made", "met", "seen", "sent"),
        *("shown", "sought", "taken", "told", "thrown", "written"),
    )
)
ADJECTIVES = frozenset(("limited", "need", "red", "shared", "speed", "used"))
"""Words that end like participles, and begin names of values."""
EFFECTS = frozenset(
    (
        *("chmod", "kill", "mkdir", "rename", "rmdir", "sleep", "symlink_to", "touch", "unlink"),
        *("write_bytes", "write_text"),
    )
)
STARTS = frozenset(
    ("become", "capture", "capture_bytes", "in_new_session", "lines", "run", "run_to_end")
)
"""Functions of ``system.process`` that run programs."""
WORDS_OF_CHECKS = frozenset(("failed", "measured", "skipped"))
"""Scripts of users call these functions of ``inside.checking`` by their names."""


def is_participle(word: str) -> bool:
    return word in IRREGULAR or (word.endswith("ed") and word not in ADJECTIVES)


def acts(function: ast.AST) -> bool:
    """Return whether a function raises an error, changes files, sleeps or runs a program."""
    for node in ast.walk(function):
        if isinstance(node, ast.Raise):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            of = node.func.value
            starts = isinstance(of, ast.Name) and of.id == "process" and node.func.attr in STARTS
            if node.func.attr in EFFECTS or starts:
                return True
    return False


def is_property(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    names = {each.id for each in function.decorator_list if isinstance(each, ast.Name)}
    return bool({"property", "cached_property"} & names)


def test_a_function_that_acts_is_called_by_an_imperative() -> None:
    participles = []
    for module, path in MODULES.items():
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or is_property(node):
                continue
            first = node.name.strip("_").partition("_")[0]
            own = module == "inside.checking" and node.name in WORDS_OF_CHECKS
            if is_participle(first) and acts(node) and not own:
                participles.append(f"{module}.{node.name}")
    assert participles == []


VAGUE = frozenset(("asked", "found", "given", "there", "wanted"))
"""Words that say how a value came here, and not what it holds."""


def assigned_names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the name of each variable, field and parameter."""
    for node in ast.walk(tree):
        if isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def test_a_value_is_named_for_what_it_holds() -> None:
    vague = [
        f"{module}:{line}: {name}"
        for module, path in MODULES.items()
        for line, name in assigned_names(ast.parse(path.read_text()))
        if name.strip("_") in VAGUE
    ]
    assert vague == []
