"""A need is unmet if the loader would not find the library, or not the version."""

import pytest

from lumicontainer.inside.elf.linkage import Unmet, brought_by_others, unmet
from lumicontainer.inside.elf.loader import Tree
from lumicontainer.inside.elf.reader import Elf, Version

A, B = "/usr/lib64/liba.so", "/own/libb.so"
NO_B = ["libb.so not found, which /own/liba.so needs"]
OLD = [f"{A} has no version A_2, which /bin/x needs"]


def program(file: str = "liba.so", *, weak: bool = False) -> Elf:
    return Elf(needed=("liba.so",), requires=(Version(file, "A_2", weak),))


def of_own(**words: object) -> dict[str, Elf]:
    """Return a program that loads a library which needs another one of the same folder."""
    return {"/bin/x": Elf(**words), "/own/liba.so": Elf(needed=("libb.so",)), B: Elf()}


NEEDS: dict[str, tuple[dict[str, Elf], list[str]]] = {
    "found": ({"/bin/x": Elf(needed=("liba.so",)), A: Elf()}, []),
    "not found": ({"/own/liba.so": Elf(needed=("libb.so",))}, NO_B),
    "a newer version": ({"/bin/x": program(), A: Elf(provides=("A_1", "A_2"))}, []),
    "an older version": ({"/bin/x": program(), A: Elf(provides=("A_1",))}, OLD),
    "by its soname": (
        {"/bin/x": program("liba.so.1"), A: Elf(soname="liba.so.1", provides=("A_1",))},
        OLD,
    ),
    "without versions": ({"/bin/x": program(), A: Elf()}, []),
    "a weak need": ({"/bin/x": program(weak=True), A: Elf(provides=("A_1",))}, []),
    "of another library": ({"/bin/x": program("libz.so"), A: Elf(provides=("A_1",))}, []),
    "loaded before": (of_own(needed=("liba.so", "libb.so"), runpath=("/own",)), []),
    "by a path that is passed on": (of_own(needed=("liba.so",), rpath=("/own",)), []),
    "by a path that is not": (of_own(needed=("liba.so",), runpath=("/own",)), NO_B),
}


@pytest.mark.parametrize("need", NEEDS)
def test_what_the_loader_would_not_find_is_unmet(need: str) -> None:
    files, expected = NEEDS[need]

    def read(path: str) -> Elf:
        if path.removeprefix("/root") not in files:
            raise FileNotFoundError(path)
        return files[path.removeprefix("/root")]

    assert list(map(str, unmet(Tree("/root", reader=read), files))) == expected


def test_a_package_loads_its_own_libraries_for_those_that_import_it() -> None:
    ours = Unmet("/p/ops.so", "libtorch.so")
    old = Unmet("/p/ops.so", "libtorch.so", "NEW", "/t/libtorch.so")
    others = Unmet("/q/x.so", "libtorch.so")
    owners = {"/p/ops.so": "deepspeed", "/t/libtorch.so": "torch", "/q/x.so": "other"}
    loads = {"deepspeed": ["numpy", "torch"], "other": ["numpy"]}
    assert brought_by_others([ours, old, others], owners, loads) == [old, others]
