"""Files of a layer that nothing would use, or that could not run, are named before a build."""

import pytest

from lumicontainer.core.catalog import open_catalog

from ..conftest import CHECK, HELLO, Write
from .test_loading import layer_problems

LAYER = "summary: x\npath: [/x]\n"


def problems_of(write: Write, files: dict[str, str]) -> str:
    files = {"layer.yaml": LAYER, **files}
    return layer_problems(write({f"layers/own/{name}": files[name] for name in files}), "own")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("instal.sh", "install.sh"),
        ("Install.sh", "install.sh"),
        ("install", "install.sh"),
        ("install.bash", "install.sh"),
        ("complie.sh", "compile.sh"),
        ("finsh.sh", "finish.sh"),
        ("check/works.sh", "checks/"),
        ("Checks/works.sh", "checks/"),
        ("rocmm/fix.patch", "rocm/"),
    ],
)
def test_a_misspelled_name_is_refused_with_the_meant(write: Write, name: str, meant: str) -> None:
    text = problems_of(write, {name: "true\n"})
    assert f"nothing uses '{name.partition('/')[0]}" in text
    assert f"did you mean '{meant}'?" in text


@pytest.mark.parametrize(
    "files",
    [
        {"instal.sh": "true\n", "install.sh": "bash ./instal.sh\n"},
        {"install.sh": "true\n", "install2.sh": "true\n"},
        {"install.sh": "true\n", "install.sh~": "true\n"},
        {"finish.sh": "true\n", ".install.sh": "x"},
        {"compiled.py": "pass\n", "data.txt": "x\n"},
        {"check/data": "x\n", "install.sh": "cp check/data /opt\n"},
        {"layer.yaml": f"{LAYER}variants: {{cpu: {{install: instal.sh}}}}\n", "instal.sh": "ls\n"},
        {"install.sh": "true\n", "windows.patch": "--- a\r\n"},
    ],
)
def test_files_that_a_layer_uses_have_any_name(write: Write, files: dict[str, str]) -> None:
    assert not problems_of(write, files)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("test/works.sh", "move it to checks/works.sh"),
        ("works.py", "move it to checks/works.py"),
        ("checks/works.bash", "let its name end in .py or .sh"),
        ("checks/_works.sh", "let its name begin without '_'"),
    ],
)
def test_a_check_that_nothing_would_run_is_an_error(write: Write, name: str, hint: str) -> None:
    text = problems_of(write, {name: CHECK + "true\n"})
    assert "in no place where checks are read" in text
    assert hint in text


@pytest.mark.parametrize("name", ["install.sh", "compile.sh", "finish.sh", "checks/works.sh"])
def test_windows_line_endings_are_refused_with_a_command(write: Write, name: str) -> None:
    script = (CHECK if "checks" in name else "true\n" * 4) + "true\r\ntrue\n"
    text = problems_of(write, {name: script})
    assert "the script has Windows line endings (CRLF)" in text
    assert f"{name}:5:1" in text
    assert "hint: sed -i 's/\\r$//' " in text


def test_what_python_compiled_is_no_file_of_a_layer(write: Write) -> None:
    files = {"layers/greet/a.py": "", "layers/greet/__pycache__/a.pyc": "x"}
    layer = open_catalog(write({**HELLO, **files})).layer("greet")
    assert {file.name for file in layer.files} == {"install.sh", "a.py"}
