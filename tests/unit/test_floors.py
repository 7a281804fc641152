"""Every import of the product points down the list of floors in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from ..conftest import ROOT

PACKAGE = ROOT / "lumicontainer"
FLOORS = (
    "cli",
    "pytest_plugin",
    "commands",
    "api",
    "frontends",
    "verify",
    "extending",
    "pinning",
    "build",
    "jobs",
    "host",
    "image",
    "engines",
    "importing",
    "core.reference",
    "core.lock",
    "core.render",
    "core.plan",
    "core.catalog",
    "core.resolve",
    "core.rules",
    "core.schema",
    "core.shell",
    "core.shipped",
    "core.model",
    "core.yaml",
    "core.apptainer_syntax",
    "system",
    "constants",
    "errors",
    "inside",
)
READ_FILES = {"core.catalog", "core.shipped"}
IMPURE = {"asyncio", "os", "random", "shutil", "socket", "subprocess", "tempfile", "time", "urllib"}
OPENING = {"iterdir", "open", "read_bytes", "read_text", "write_bytes", "write_text"}
LARGEST_FOLDER = {"": 21, "commands": 30, "inside.verify": 16}
"""The package has a folder per floor, and ``commands`` a file per verb."""


def name_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {name_of(path): path for path in sorted(PACKAGE.rglob("*.py"))}


def imports(name: str) -> Iterator[str]:
    """Yield the modules of the package that one imports, wherever the import stands."""
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.Import):
            yield from (each.name.partition(".")[2] for each in node.names if ours(each.name))
        elif isinstance(node, ast.ImportFrom) and (base := source(name, node)) is not None:
            for each in node.names:
                full = f"{base}.{each.name}".strip(".")
                yield full if full in MODULES else base


def ours(name: str) -> bool:
    return name.partition(".")[0] == "lumicontainer"


def source(name: str, node: ast.ImportFrom) -> str | None:
    """Return the package or module from which a statement imports; None if not ours."""
    module = node.module or ""
    if not node.level:
        return module.partition(".")[2] if ours(module) else None
    is_package = MODULES[name].name == "__init__.py"
    parts = name.split(".") if is_package else name.split(".")[:-1]
    return ".".join([*parts[: len(parts) - node.level + 1], *filter(None, [module])])


def floor(name: str) -> int:
    parts = name.split(".")
    return FLOORS.index(".".join(parts[:2]) if parts[0] == "core" else parts[0])


def checked() -> list[str]:
    return [name for name in MODULES if name not in ("", "__main__", "core")]


GRAPH = {name: {each for each in imports(name) if each not in ("", name)} for name in MODULES}


@pytest.mark.parametrize("name", checked())
def test_a_module_imports_no_floor_above_its_own(name: str) -> None:
    above = [each for each in GRAPH[name] if floor(each) < floor(name)]
    assert above == []


def test_no_import_leads_back_to_where_it_began() -> None:
    finished: set[str] = set()

    def follow(name: str, trail: tuple[str, ...]) -> None:
        assert name not in trail, " > ".join((*trail[trail.index(name) :], name))
        if name not in finished:
            for each in GRAPH[name] & set(MODULES):
                follow(each, (*trail, name))
            finished.add(name)

    for name in MODULES:
        follow(name, ())


@pytest.mark.parametrize("name", [name for name in checked() if name.startswith("core.")])
def test_the_core_touches_no_file_process_clock_or_network(name: str) -> None:
    if name in READ_FILES:
        return
    tree = ast.parse(MODULES[name].read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert not {each.name.partition(".")[0] for each in node.names} & IMPURE
        elif isinstance(node, ast.ImportFrom) and not node.level:
            assert (node.module or "").partition(".")[0] not in IMPURE
            assert not (node.module or "").startswith("lumicontainer.system.files")
        elif isinstance(node, ast.Call) and isinstance(node.func, (ast.Attribute, ast.Name)):
            function = node.func
            called = function.attr if isinstance(function, ast.Attribute) else ""
            named = function.id if isinstance(function, ast.Name) else ""
            assert called not in OPENING - {"open", "read_text"} and named != "open"


@pytest.mark.parametrize("name", [name for name in checked() if name.startswith("inside.")])
def test_what_is_baked_into_images_imports_nothing_of_the_host(name: str) -> None:
    for node in ast.walk(ast.parse(MODULES[name].read_text())):
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert not ours(node.module or "")


def test_floors_are_entered_from_at_most_eight_levels() -> None:
    packages: dict[str, set[str]] = {}
    for name, found in GRAPH.items():
        top = name.partition(".")[0]
        others = {each.partition(".")[0] for each in found}
        packages.setdefault(top, set()).update(others - {top, ""})

    def levels(package: str) -> int:
        return 1 + max((levels(each) for each in packages[package]), default=0)

    assert max(levels(each) for each in packages if each not in ("", "__main__")) <= 8


def test_no_chain_of_imports_is_longer_than_its_limit() -> None:
    @cache
    def levels(name: str) -> int:
        return 1 + max(map(levels, GRAPH[name] & MODULES.keys()), default=0)

    assert max(levels(name) for name in MODULES if name.startswith("core.")) <= 12
    assert max(map(levels, MODULES)) <= 21


def test_a_folder_is_small_enough_to_look_over() -> None:
    for folder in {path.parent for path in MODULES.values()}:
        entries = [each for each in folder.iterdir() if not each.name.startswith("__")]
        assert len(entries) <= LARGEST_FOLDER.get(name_of(folder / "__init__.py"), 14), folder


def test_each_module_on_the_path_of_a_build_is_called_by_one_above_it() -> None:
    page = (ROOT / "docs/architecture.md").read_text()
    section = page.partition("## The path of a build")[2].partition("\n## ")[0]
    listed = re.findall(r"(?m)^\| `([\w/]+)\.py`", section)
    path = [each.replace("/", ".") for each in listed]
    assert path[0] == "commands.build"
    assert len(path) == len(set(path)) > 10
    for number, name in enumerate(path[1:], start=1):
        # The sandbox starts modules of build.tree as programs, by their names.
        texts = (MODULES[each].read_text() for each in path[:number])
        called = any(name in GRAPH[each] for each in path[:number])
        assert called or any(f'"lumicontainer.{name}"' in text for text in texts), name
