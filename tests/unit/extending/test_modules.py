"""Python must find the modules of each added package."""

from pathlib import Path

import pytest

from lumicontainer.errors import StepError
from lumicontainer.extending.modules import require_modules


@pytest.mark.parametrize("content", ["mine\n", "other\nmine\n"])
def test_a_package_without_the_module_that_it_announces_is_refused(
    tmp_path: Path, content: str
) -> None:
    notes = tmp_path / "lib/python3.11/site-packages/mine-1.0.dist-info"
    notes.mkdir(parents=True)
    (notes / "top_level.txt").write_text(f"_fast\n{content}")
    (notes / "RECORD").write_text("mine.py,,\n")
    (notes.parent / "other.py").touch()
    with pytest.raises(StepError, match=r"mine-1\.0 has no module 'mine'"):
        require_modules(tmp_path)
    require_modules(tmp_path, {"mine"})
    (notes.parent / "mine.cpython-311-x86_64-linux-gnu.so").touch()
    require_modules(tmp_path)


@pytest.mark.parametrize("path", ["mine.py", "mine/__init__.py"])
def test_a_module_of_the_list_of_files_is_found(tmp_path: Path, path: str) -> None:
    """Wheels of newer backends than setuptools have no top_level.txt."""
    notes = tmp_path / "lib/python3.11/site-packages/mine-1.0.dist-info"
    notes.mkdir(parents=True)
    listed = ("../../../bin/tool.py", "mine-tool.py", "_fast.py", "mine/part.py", path)
    (notes / "RECORD").write_text("".join(f"{each},,\n" for each in listed))
    with pytest.raises(StepError, match=r"no module 'mine'\n.*RECORD, names " + path):
        require_modules(tmp_path)
    (notes.parent / path).parent.mkdir(exist_ok=True)
    (notes.parent / path).touch()
    require_modules(tmp_path)


def test_a_package_does_not_decide_how_long_a_message_is(tmp_path: Path) -> None:
    notes = tmp_path / "lib/python3.11/site-packages/mine-1.0.dist-info"
    notes.mkdir(parents=True)
    (notes / "top_level.txt").write_text("".join(f"{'a' * 100_000}{n}\n" for n in range(20)))
    (notes / "RECORD").touch()
    with pytest.raises(StepError) as caught:
        require_modules(tmp_path)
    assert len(str(caught.value)) < 2_000


def test_a_module_that_is_compiled_for_another_python_is_not_found(tmp_path: Path) -> None:
    notes = tmp_path / "lib/python3.11/site-packages/mine-1.0.dist-info"
    notes.mkdir(parents=True)
    old = "mine.cpython-310-x86_64-linux-gnu.so"
    (notes / "RECORD").write_text(f"{old},,\n_more{old[4:]},,\nmine-1.0.dist-info/RECORD,,\n")
    (notes.parent / old).touch()
    with pytest.raises(StepError, match=rf"its file {old} is not for Python 3\.11"):
        require_modules(tmp_path)
    for suffix in (".cpython-311-x86_64-linux-gnu.so", ".abi3.so", ".so", ".py"):
        (notes.parent / f"mine{suffix}").touch()
        require_modules(tmp_path)
        (notes.parent / f"mine{suffix}").unlink()


def test_a_compiled_module_may_be_in_a_package(tmp_path: Path) -> None:
    """Setuptools writes its name without the package's (``ext_package``)."""
    notes = tmp_path / "lib/python3.11/site-packages/mine-1.0.dist-info"
    notes.mkdir(parents=True)
    (notes / "top_level.txt").write_text("fast\nmine\n")
    file = "mine/fast.cpython-311-x86_64-linux-gnu.so"
    (notes / "RECORD").write_text(f"mine/__init__.py,,\n{file},,\n")
    for path in ("mine/__init__.py", file):
        (notes.parent / path).parent.mkdir(exist_ok=True)
        (notes.parent / path).touch()
    require_modules(tmp_path)
    (notes.parent / "mine/__init__.py").unlink()
    (notes.parent / file).unlink()
    (notes.parent / "mine").rmdir()
    with pytest.raises(StepError, match=r"mine-1\.0 has no module 'mine'"):
        require_modules(tmp_path)


@pytest.mark.parametrize("made", ["space/part.py", "space/__init__.py", "space/data.txt"])
def test_a_folder_without_code_is_a_module(tmp_path: Path, made: str) -> None:
    """Python finds it as a namespace package."""
    notes = tmp_path / "lib/python3.11/site-packages/mine-1.0.dist-info"
    notes.mkdir(parents=True)
    (notes / "top_level.txt").write_text("space\n")
    (notes / "RECORD").write_text(f"{made},,\n")
    with pytest.raises(StepError, match=r"mine-1\.0 has no module 'space'"):
        require_modules(tmp_path)
    (notes.parent / made).parent.mkdir()
    (notes.parent / made).touch()
    require_modules(tmp_path)


def test_a_requested_package_that_is_empty_is_refused(tmp_path: Path) -> None:
    """A build in another layout than the project's packs nothing, and succeeds."""
    notes = tmp_path / "lib/python3.11/site-packages/mine-1.0.dist-info"
    notes.mkdir(parents=True)
    (notes / "METADATA").write_text("Name: mine\n\nRequires-Dist: other\n")
    (notes / "RECORD").write_text(f"{notes.name}/METADATA,,\n")
    with pytest.raises(StepError, match=r"mine-1\.0 is empty"):
        require_modules(tmp_path, (), {"mine"})
    require_modules(tmp_path, (), {"other"})
    require_modules(tmp_path, {"mine"}, {"mine"})
    (notes / "METADATA").write_text("Name: mine\nRequires-Dist: other\n")
    require_modules(tmp_path, (), {"mine"})
    (notes / "METADATA").write_text("Name: mine\n")
    (notes / "RECORD").write_text('"space/core.abi3.so",,\n')
    require_modules(tmp_path, (), {"mine"})
