"""No two classes, and no two functions that are imported by name, have one name."""

import ast
from collections import defaultdict

from .test_floors import MODULES, source


def test_a_public_class_name_is_defined_in_one_module() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for module, path in MODULES.items():
        if module.startswith("inside"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}


def functions_of(module: str) -> set[str]:
    body = ast.parse(MODULES[module].read_text()).body
    return {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}


def test_no_two_functions_that_are_imported_by_name_have_the_same() -> None:
    defined = {module: functions_of(module) for module in MODULES}
    found: dict[str, set[str]] = defaultdict(set)
    for importer, path in MODULES.items():
        if importer == "api":
            continue  # Its functions have the names of the verbs.
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (module := source(importer, node)) in defined:
                for name in {each.name for each in node.names} & defined[module]:
                    found[name].add(module)
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}
