"""TOML of others is read by one reader, within bounds."""

import ast

import pytest

from lumicontainer.packages.toml import TomlError, read_toml

from ...conftest import ROOT

DOTS = "a." * 3000
LONG = (
    f"{DOTS}a = 1",
    f"[{DOTS}a]",
    f"x = {{ {DOTS}a = 1 }}",
    f"{DOTS.replace('a', ' a ')} a = 1",
    DOTS.replace("a", "'a'") + "a = 1",
    DOTS.replace("a", '"a b"') + "a = 1",
    f"""x = {{ b = '"', {DOTS}a = 1, c = '"' }}""",
    f'x = {{ b = """b"""", {DOTS}a = """"d""" }}',
    f'x = {{ b = """b""""", {DOTS}a = 1, c = "" }}',
    f"x = {{ b = '''b'''', {DOTS}a = 1, c = '' }}",
    f'x = {{ b = """\\"""", {DOTS}a = 1 }}',
    f'# \' " """\n{DOTS}a = 1',
    f"x = 'a#'\n{DOTS}a = 1\n",
)


@pytest.mark.parametrize("text", LONG, ids=range(len(LONG)))
def test_a_key_of_many_parts_is_refused_before_it_is_parsed(text: str) -> None:
    with pytest.raises(TomlError, match="a key has more than"):
        read_toml(text)


READ = (
    'x = "a.b."',
    "x = '''\n" + "a.b.c " * 300 + "'''",
    'x = """' + "a.b.c " * 300 + '""""',
    "x = 1 # " + "a.b.c " * 300,
    f"x = [{'1.5, ' * 300}]",
    "x = [" + '"https://x.example/a-1.0.whl", ' * 300 + "]",
    '"a.b" = "\\""',
)


@pytest.mark.parametrize("text", READ, ids=range(len(READ)))
def test_dots_elsewhere_are_no_parts_of_keys(text: str) -> None:
    assert read_toml(text)


@pytest.mark.parametrize(
    "text", ["x", f"x = {'[' * 5000}", f"x = {'9' * 5000}", "x = '", 'x = """', "x = '\\"]
)
def test_each_fault_is_one_error(text: str) -> None:
    with pytest.raises(TomlError):
        read_toml(text)


@pytest.mark.slow
def test_no_other_module_parses_toml() -> None:
    modules = set()
    for path in (ROOT / "lumicontainer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named = [each.name for each in node.names] if isinstance(node, ast.Import) else []
            if "tomllib" in [*named, getattr(node, "module", "")]:
                modules.add(str(path.relative_to(ROOT / "lumicontainer")))
    assert modules == {"packages/toml.py"}
