"""Values and files reach the shell unchanged, whatever they hold, also through a definition."""

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumicontainer.core import shell
from lumicontainer.core.apptainer_syntax import hazard, hazards
from lumicontainer.core.model import LayerFile

HOSTILE = [
    "it's",
    '"; rm -rf / #',
    "$(touch pwned)",
    "`id`",
    "a\n%post\nid",
    "\nbootstrap: docker",
    "{{ x }}",
    "]==]",
    "-rf",
    "a\r\nb",
    "\x1b[2J",
    "END_OF_FILE\n",
    "\n",
    "",
]
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)


def bash(program: str, folder: Path) -> bytes:
    done = subprocess.run(["bash", "-euc", program], cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def through_a_file(values: dict[str, str], folder: Path) -> list[str]:
    file = LayerFile("values.sh", 0o644, shell.exports(values).encode())
    program = shell.write_files(str(folder), [file])
    assert not hazard(program)
    names = " ".join(f'"${name}"' for name in values)
    output = bash(f"{program}. {folder}/values.sh\nprintf '%s\\0' {names}", folder)
    return output.decode().split("\0")[:-1]


@pytest.mark.slow
@pytest.mark.parametrize("value", HOSTILE)
def test_a_hostile_value_arrives_as_that_value(value: str, tmp_path: Path) -> None:
    assert through_a_file({"value": value}, tmp_path) == [value]
    assert not (tmp_path / "pwned").exists()


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(st.lists(TEXT | st.sampled_from(HOSTILE), min_size=100, max_size=100))
def test_ten_thousand_values_arrive_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, values: list[str]
) -> None:
    folder = tmp_path_factory.mktemp("values")
    named = {f"v{number}": value for number, value in enumerate(values)}
    assert through_a_file(named, folder) == values


@pytest.mark.slow
@given(st.binary(max_size=400))
@settings(max_examples=60, deadline=None)
def test_a_file_arrives_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, content: bytes
) -> None:
    folder = tmp_path_factory.mktemp("files")
    program = shell.write_files(str(folder), [LayerFile("sub/a file", 0o755, content)])
    assert not hazard(program)
    bash(program, folder)
    assert (folder / "sub/a file").read_bytes() == content
    assert (folder / "sub/a file").stat().st_mode & 0o777 == 0o755


def test_readable_text_stays_readable() -> None:
    program = shell.write_files("/x", [LayerFile("a.sh", 0o644, b"echo 'hello'\n")])
    assert "echo 'hello'\n" in program
    assert "base64" not in program


@pytest.mark.slow
def test_a_file_that_was_changed_on_the_way_stops_the_build(tmp_path: Path) -> None:
    program = shell.write_files(str(tmp_path), [LayerFile("a.sh", 0o644, b"echo one\n")])
    changed = program.replace("echo one", "echo two")
    done = subprocess.run(["bash", "-euc", changed], capture_output=True, check=False)
    assert done.returncode != 0
    assert b"a.sh: FAILED" in done.stdout


def test_booleans_read_as_one_and_zero() -> None:
    assert shell.exports({"A": True, "B": False, "N": 3}) == "export A=1\nexport B=0\nexport N=3\n"


def test_a_hazard_is_reported_with_its_line() -> None:
    reported = list(hazards("echo %d\n  %post\n{{ a b }} {{ a }}\nBOOTSTRAP: x\n"))
    assert [number for number, _ in reported] == [2, 3, 4]


@pytest.mark.parametrize(
    "text", ["a = {{\n  first\n}};\n", "\u00a0%setup\n", "x\n\u2003Bootstrap: y\n"]
)
def test_apptainer_reads_over_lines_and_takes_every_blank_for_one(text: str) -> None:
    """Its build arguments are ``{{\\s*(\\w+)\\s*}}`` of a whole file (args/reader.go)."""
    assert hazard(text)
    assert len(list(hazards(text))) == 1
