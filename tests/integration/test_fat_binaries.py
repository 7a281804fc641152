"""Code for GPUs is bundled by clang's own tool, and read as that tool lists it."""

import subprocess
from pathlib import Path

import pytest

from lumicontainer.inside.elf.fatbin import codes

from ..faults.bundles import bundle, library, section

HOST = "host-x86_64-unknown-linux-gnu"
TARGETS = [
    ["gfx90a"],
    ["gfx908", "gfx90a:sramecc+:xnack-", "gfx90a:sramecc+:xnack+"],
    ["gfx1100", "gfx942"],
]


def bundler(*words: object) -> str:
    """Run clang-offload-bundler of the newest LLVM on this machine."""
    tool = max(Path("/usr/lib").glob("llvm-*/bin/clang-offload-bundler"))
    command = [tool, "-type=o", *words]
    return subprocess.run(
        list(map(str, command)), check=True, stdout=subprocess.PIPE, text=True
    ).stdout


def files(**names: list[object]) -> list[str]:
    """Return the options for files; before LLVM 15 one option took a list."""
    if "--input=" in bundler("--help"):
        return [f"-{option}={name}" for option, each in names.items() for name in each]
    return [f"-{option}s={','.join(map(str, each))}" for option, each in names.items()]


def triple(target: str) -> str:
    return f"hipv4-amdgcn-amd-amdhsa--{target}"


@pytest.mark.parametrize("targets", TARGETS, ids=" ".join)
def test_the_targets_of_clang_s_bundles_are_read(tmp_path: Path, targets: list[str]) -> None:
    code = tmp_path / "code"
    code.write_bytes(b"\x7fELF and no more")
    made = tmp_path / "made.hipfb"
    words = [f"-targets={','.join([HOST, *map(triple, targets)])}", "-bundle-align=4096"]
    bundler(*words, *files(input=["/dev/null", *(code for _ in targets)], output=[made]))
    whole = section(made.read_bytes(), made.read_bytes())
    assert [str(each) for each in codes(str(library(tmp_path / "a.so", whole)))] == targets


@pytest.mark.parametrize("targets", TARGETS, ids=" ".join)
def test_the_bundles_of_other_tests_are_as_clang_s(tmp_path: Path, targets: list[str]) -> None:
    made = tmp_path / "made.hipfb"
    made.write_bytes(bundle(*targets))
    listed = bundler("-list", *files(input=[made])).split()
    assert sorted(listed) == sorted([f"{HOST}-", *map(triple, targets)])
