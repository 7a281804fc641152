"""No two classes of the host's package have one name."""

from __future__ import annotations

import ast
from collections import defaultdict

from .test_floors import MODULES


def test_a_public_class_name_is_defined_in_one_module() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for module, path in MODULES.items():
        if module.startswith("inside"):
            continue
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[node.name].append(module)
    assert {name: modules for name, modules in found.items() if len(modules) > 1} == {}
