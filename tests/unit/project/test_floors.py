"""Every import of the product points down the list of floors in docs/architecture.md."""

import ast
import re
from collections.abc import Iterable, Iterator
from graphlib import TopologicalSorter
from importlib.util import resolve_name
from pathlib import Path

import pytest

from lumicontainer.commands.parser import VERBS

from ...conftest import ROOT

PACKAGE = ROOT / "lumicontainer"
FLOORS = (
    *("cli", "pytest_plugin", "commands", "api", "frontends", "verify", "extending"),
    *(
        "pinning",
        "building",
        "registry",
        "sandbox",
        "cache",
        "jobs",
        "host",
        "trust",
        "image",
        "engines",
        "importing",
    ),
    "packages",
    *("core.reference", "core.lock", "core.render", "core.plan", "core.catalog", "core.resolve"),
    *("core.rules", "core.schema", "core.shell", "core.shipped", "core.model", "core.yaml"),
    *("core.apptainer_syntax", "core.habits", "system", "constants", "errors", "inside"),
)
READ_FILES = {"core.catalog", "core.shipped"}
IMPURE = {"asyncio", "os", "random", "shutil", "socket", "subprocess", "tempfile", "time", "urllib"}
OPENING = {"iterdir", "open", "read_bytes", "read_text", "write_bytes", "write_text"}
PARSING = ("commands.", "inside.", "sandbox.tree.")
"""Folders of verbs, and of programs that images and sandboxes start."""
LARGEST_FOLDER = {"": 26, "commands": 38, "api": 32, "inside.verify": 16}
"""The package has a folder per floor; ``commands`` and ``api`` have a file per verb."""


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
    package = name if MODULES[name].name == "__init__.py" else name.rpartition(".")[0]
    relative = "." * node.level + (node.module or "")
    full = resolve_name(relative, f"lumicontainer.{package}".rstrip("."))
    return full.partition(".")[2] if ours(full) else None


def floor(name: str) -> int:
    parts = name.split(".")
    return FLOORS.index(".".join(parts[:2]) if parts[0] == "core" else parts[0])


def checked() -> list[str]:
    return [name for name in MODULES if name not in ("", "__main__", "core")]


CORE = {name for name in checked() if name.startswith("core.")}
GRAPH = {name: {each for each in imports(name) if each not in ("", name)} for name in MODULES}


def test_a_module_imports_no_floor_above_its_own() -> None:
    pairs = [(name, each) for name in checked() for each in GRAPH[name]]
    assert [(name, each) for name, each in pairs if floor(each) < floor(name)] == []


def test_the_manual_lists_the_floors_from_the_top() -> None:
    page = (ROOT / "docs/architecture.md").read_text().partition("## The package")[2]
    rows = re.findall(r"(?m)^\| `([a-z_/]+)", page.partition("| `step/`")[0])
    listed = [floor(row.strip("/").replace("/", ".")) for row in rows if row != "core/"]
    assert listed == sorted(listed)


def test_no_import_leads_back_to_where_it_began() -> None:
    assert set(TopologicalSorter(GRAPH).static_order()) >= set(GRAPH)


def nodes(names: Iterable[str]) -> Iterator[tuple[str, ast.AST]]:
    for name in sorted(names):
        yield from ((name, node) for node in ast.walk(ast.parse(MODULES[name].read_text())))


def test_the_core_touches_no_file_process_clock_or_network() -> None:
    for name, node in nodes(CORE - READ_FILES):
        match node:
            case ast.Import(names):
                assert not {each.name.partition(".")[0] for each in names} & IMPURE, name
            case ast.ImportFrom(module, level=0):
                assert module.partition(".")[0] not in IMPURE, name
                assert not module.startswith("lumicontainer.system.files"), name
            case ast.Call(ast.Attribute(attr=called)):
                assert called not in OPENING - {"open", "read_text"}, name
            case ast.Call(ast.Name(id=called)):
                assert called != "open", name


def test_the_readers_of_packages_touch_no_file_process_clock_or_network() -> None:
    """One has a table of names in a separate file."""
    readers = {name for name in checked() if name.startswith("packages.")}
    for name, node in nodes(readers - {"packages.conda"}):
        if isinstance(node, ast.Import):
            assert not {each.name for each in node.names} & IMPURE, name
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.module not in IMPURE | {"urllib.request"}, name
            assert not node.module.startswith(("lumicontainer.system", "lumicontainer.host")), name
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in OPENING, name


def test_what_is_baked_into_images_imports_nothing_of_the_host() -> None:
    for name, node in nodes(name for name in checked() if name.startswith("inside.")):
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert not ours(node.module or ""), name


def longest_chains(graph: dict[str, set[str]]) -> dict[str, int]:
    """Return for each module or package how many the longest chain of its imports has."""
    lengths: dict[str, int] = {}
    for name in TopologicalSorter(graph).static_order():
        lengths[name] = 1 + max((lengths[each] for each in graph.get(name, ())), default=0)
    return lengths


def test_no_chain_of_imports_is_longer_than_its_limit() -> None:
    packages: dict[str, set[str]] = {}
    for name, imported in GRAPH.items():
        top = name.partition(".")[0]
        others = {each.partition(".")[0] for each in imported}
        packages.setdefault(top, set()).update(others - {top})
    levels = longest_chains(packages)
    assert max(levels[each] for each in packages if each not in ("", "__main__")) <= 10
    levels = longest_chains(GRAPH)
    assert max(levels[name] for name in CORE) <= 12
    assert max(levels.values()) <= 24


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
        # The sandbox starts modules of sandbox.tree as programs, by their names.
        texts = (MODULES[each].read_text() for each in path[:number])
        called = any(name in GRAPH[each] for each in path[:number])
        assert called or any(f'"lumicontainer.{name}"' in text for text in texts), name


@pytest.mark.slow
def test_options_of_the_command_line_get_no_further_than_the_verbs() -> None:
    for name, node in nodes(name for name in checked() if name.startswith("api.") or name == "api"):
        match node:
            case ast.Import(names):
                assert "argparse" not in {each.name for each in names}, name
            case ast.ImportFrom(module=module):
                assert module not in ("argparse", "lumicontainer.system.terminal.output"), name
            case ast.Call(ast.Name(id=called)):
                assert called != "print", name
    for name, node in nodes(set(checked()) - {"commands", "cli"}):
        if isinstance(node, ast.Attribute) and node.attr == "Namespace":
            assert name.startswith(PARSING), name


def test_a_verb_imports_no_other_verb() -> None:
    verbs = {f"commands.{verb}" for verb in VERBS}
    assert {name: GRAPH[name] & verbs for name in verbs if GRAPH[name] & verbs} == {}
