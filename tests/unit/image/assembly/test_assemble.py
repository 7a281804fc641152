"""An assembled squashfs has the tree that its layers make, and no byte of anything else."""

import os
import random
import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lumicontainer.errors import InputError
from lumicontainer.image.assembly import layout
from lumicontainer.image.assembly.assemble import Assembly, Source, assemble_squashfs
from lumicontainer.image.assembly.reader import read_squashfs
from lumicontainer.image.assembly.recompress import recompress
from lumicontainer.image.assembly.tree import Node
from lumicontainer.image.assembly.writer import Placed, write_tables

from .layers import (
    BLOCK_SIZE,
    FORM,
    Entry,
    File,
    Special,
    Tree,
    Zeros,
    read_tree,
    write_layer,
)

NAMES = st.sampled_from([b"a", b"b", b"c", b"\xff.new\nline", b"d e"])
CONTENTS = st.one_of(
    st.binary(max_size=40),
    st.integers(0, 3 * BLOCK_SIZE).map(lambda size: random.Random(size).randbytes(size)),
    st.sampled_from([bytes(2 * BLOCK_SIZE), bytes(5), b"x" * BLOCK_SIZE]),
)
FILES = st.builds(File, CONTENTS, st.sampled_from([0o644, 0o4755, 0o600]))
SAME = (File(b"x" * 9000), File(b"end"))
LINKED = st.sampled_from(range(len(SAME))).map(lambda number: SAME[number])
"""Several names of one of them in a layer are hard links."""
SPECIAL = st.sampled_from(
    [Special(layout.BLOCK, 8), Special(layout.CHARACTER, 0x103), Special(layout.PIPE)]
)
ENTRIES = st.recursive(
    st.one_of(FILES, LINKED, SPECIAL, st.sampled_from(["a", "../b", "/c"]), st.none()),
    lambda entries: st.builds(Tree, st.dictionaries(NAMES, entries, max_size=4)),
    max_leaves=10,
)
LAYERS = st.builds(Tree, st.dictionaries(NAMES, ENTRIES, max_size=5)).map(
    lambda layer: renew(layer, {})
)
STACKS = st.lists(LAYERS, min_size=1, max_size=5)
STACKS_TRIED = int(os.environ.get("LUMICONTAINER_TEST_STACKS", "300"))
"""More of them prove more, where there is time."""


def renew(tree: Tree, files: dict[int, File]) -> Tree:
    """Return a tree whose files no other layer has."""
    entries: dict[bytes, Entry] = {}
    for name, entry in tree.entries.items():
        if isinstance(entry, Tree):
            entries[name] = renew(entry, files)
        elif isinstance(entry, File):
            entries[name] = files.setdefault(id(entry), File(entry.content, entry.mode))
        else:
            entries[name] = entry
    return Tree(entries, tree.mode)


def lay(low: Tree, high: Tree) -> Tree:
    """Return the tree that a layer makes of the one below it, as overlayfs(5) says."""
    entries = dict(low.entries)
    for name, entry in high.entries.items():
        below = entries.pop(name, None)
        if isinstance(entry, Tree):
            base = below if isinstance(below, Tree) else Tree({})
            entries[name] = lay(base, entry)
        elif entry is not None:
            entries[name] = entry
    return Tree(entries, high.mode)


def merged(stack: list[Tree]) -> Tree:
    tree = Tree({})
    for layer in stack:
        tree = lay(tree, layer)
    return tree


def assemble_layers(folder: Path, stack: list[Tree], *, tails: bool = True) -> Path:
    target = folder / "assembled"
    target.touch()
    sources = [
        Source(write_layer(folder / f"{number}", layer, tails=tails))
        for number, layer in enumerate(stack)
    ]
    assemble_squashfs(sources, target, 0, 0)
    return target


@pytest.mark.slow
@settings(max_examples=STACKS_TRIED)
@given(stack=STACKS, tails=st.booleans())
def test_layers_make_the_tree_that_overlays_make(
    tmp_path_factory: pytest.TempPathFactory, stack: list[Tree], tails: bool
) -> None:
    folder = tmp_path_factory.mktemp("stack", numbered=True)
    target = assemble_layers(folder, stack, tails=tails)
    expected = read_tree(write_layer(folder / "expected", merged(stack)))
    assert read_tree(target) == expected
    again = folder / "again"
    recompress(Source(target), again, layout.ZSTD)
    assert read_tree(again) == expected


def noise(seed: int, size: int) -> bytes:
    return random.Random(seed).randbytes(size)


@pytest.mark.parametrize(
    "size", [100, BLOCK_SIZE, 3 * BLOCK_SIZE + 7], ids=["end", "block", "both"]
)
@pytest.mark.parametrize(
    "change", [None, b"other", Tree({})], ids=["removed", "replaced", "folder"]
)
def test_no_byte_of_a_removed_file_is_in_the_image(
    tmp_path: Path, size: int, change: Tree | bytes | None
) -> None:
    """Other files, which stay, have their ends in the same fragment."""
    planted = noise(1, size)
    below = Tree({b"before": noise(2, 50), b"key": planted, b"behind": noise(3, 60)})
    target = assemble_layers(tmp_path, [below, Tree({b"key": change})])
    content = target.read_bytes()
    pieces = [planted[at : at + 16] for at in range(0, size - 16, 16)]
    assert not any(piece in content for piece in pieces)
    assert noise(2, 50) in content
    assert noise(3, 60) in content


def assemble_in_two_steps(folder: Path, replaced: list[str]) -> Path:
    """Assemble the layers ``0`` and ``1``; the data of the first are copied before."""
    target = folder / "two-steps"
    with target.open("w+b") as file:
        assembly = Assembly(file, 0, 0)
        assembly.begin(read_squashfs(folder / "0"), replaced)
        assembly.finish([read_squashfs(folder / "1", number=1)])
    return target


def test_the_data_of_the_lowest_layer_can_be_copied_before_the_others_exist(
    tmp_path: Path,
) -> None:
    same = File(noise(4, 300))
    below = Tree({b"list": noise(1, 5000), b"kept": noise(2, 9000), b"one": same, b"two": same})
    above = Tree({b"list": noise(3, 70), b"new": Tree({b"f": b"x"})})
    whole = assemble_layers(tmp_path, [below, above])
    assert assemble_in_two_steps(tmp_path, ["/list", "/no/such"]).read_bytes() == whole.read_bytes()


def test_files_whose_data_were_copied_cannot_be_replaced(tmp_path: Path) -> None:
    assemble_layers(tmp_path, [Tree({b"list": b"x" * 5000}), Tree({b"list": b"y"})])
    with pytest.raises(ValueError, match="replaces files whose data were copied"):
        assemble_in_two_steps(tmp_path, ["/other"])


def test_a_file_that_stays_under_another_name_keeps_its_bytes(tmp_path: Path) -> None:
    same = File(noise(1, BLOCK_SIZE + 30))
    target = assemble_layers(tmp_path, [Tree({b"one": same, b"two": same}), Tree({b"one": None})])
    assert read_tree(target)[b"/two"] == (layout.FILE, 0o644, 0, same.content)


@pytest.mark.slow
def test_a_folder_with_100_000_entries_can_be_read(tmp_path: Path) -> None:
    names = {b"entry-%06d" % number: f"{number}" for number in range(100_000)}
    target = assemble_layers(tmp_path, [Tree({b"large": Tree(dict(names))})])
    tree = read_tree(target)
    assert len(tree) == 100_002
    assert tree[b"/large/entry-099999"] == (layout.LINK, 0o777, 0, b"99999")


@pytest.mark.slow
def test_a_sparse_file_of_more_than_4_gib_keeps_its_size(tmp_path: Path) -> None:
    size = (4 << 30) + BLOCK_SIZE
    below = Tree({b"large": Zeros(size), b"small": b"x"})
    target = assemble_layers(tmp_path, [below, Tree({b"small": b"y"})])
    words = ["unsquashfs", "-lls", target]
    listed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    (line,) = (line for line in listed.splitlines() if line.endswith("/large"))
    assert str(size) in line.split()


def test_a_path_that_no_program_opens_is_refused_with_its_layer(tmp_path: Path) -> None:
    deep: Entry = b"x"
    for _ in range(17):
        deep = Tree({b"n" * 250: deep})
    with pytest.raises(InputError, match=f"(?s){tmp_path}/1.*too deep"):
        assemble_layers(tmp_path, [Tree({b"a": b""}), Tree({b"d": deep})])


@pytest.mark.slow
def test_more_owners_than_a_squashfs_has_are_refused_with_their_layer(tmp_path: Path) -> None:
    layers = [tmp_path / "first", tmp_path / "second"]
    for number, layer in enumerate(layers):
        owners = range(1 + 40_000 * number, 40_000 + 40_000 * number)
        pipes = {b"%d" % owner: Node(layout.PIPE, 0, owner, owner, 0, links=1) for owner in owners}
        with layer.open("wb") as file:
            file.seek(layout.SUPERBLOCK_SIZE)
            root = Node(layout.FOLDER, 0o755, 0, 0, 0, pipes, links=2)
            write_tables(file, 0, root, lambda _: Placed(0, layout.NOTHING, 0), [], FORM)
    (tmp_path / "target").touch()
    with pytest.raises(InputError, match=r"(?s)more than 65535 owners.*second") as caught:
        assemble_squashfs([Source(each) for each in layers], tmp_path / "target", 0, 0)
    assert caught.value.problems[0].where == str(layers[1])


def test_equal_layers_give_equal_bytes(tmp_path: Path) -> None:
    stack = [Tree({b"b": noise(1, 9000), b"a": noise(2, 9)}), Tree({b"a": None, b"c": b"x"})]
    contents = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        contents.add(assemble_layers(tmp_path / name, stack).read_bytes())
    assert len(contents) == 1


@pytest.mark.slow
def test_a_layer_that_is_cut_short_or_changed_is_refused_and_never_hangs(tmp_path: Path) -> None:
    tree = Tree({b"d": Tree({b"f": noise(1, 5000), b"l": "x"}), b"g": b"yy"})
    path = write_layer(tmp_path / "layer", tree)
    whole, target = path.read_bytes(), tmp_path / "target"
    refused = 0
    for number in range(600):
        chance = random.Random(number)
        content = bytearray(whole)
        if number % 3:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        else:
            del content[chance.randrange(len(content)) :]
        path.write_bytes(content)
        target.write_bytes(b"")
        try:
            assemble_squashfs([Source(path)], target, 0, 0)
        except (InputError, OSError):
            refused += 1
    assert refused > 100


def test_layers_that_do_not_fit_each_other_are_refused(tmp_path: Path) -> None:
    first = write_layer(tmp_path / "first", Tree({b"a": b"x"}))
    recompress(Source(first), tmp_path / "other", layout.ZSTD)
    (tmp_path / "target").touch()
    with pytest.raises(InputError, match="different compressions"):
        assemble_squashfs([Source(first), Source(tmp_path / "other")], tmp_path / "target", 0, 0)
