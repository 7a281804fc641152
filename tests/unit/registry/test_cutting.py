"""The blobs of an image are its bytes; they do not move when other parts of it change."""

import hashlib
import re
from pathlib import Path
from random import Random

import pytest

from lumicontainer.image import sif
from lumicontainer.image.assembly.layout import SUPERBLOCK_SIZE
from lumicontainer.image.assembly.reader import read_superblock
from lumicontainer.registry import cutting
from lumicontainer.registry.cutting import CutImage, cut_image, cut_layer

from ..image.assembly.layers import BLOCK_SIZE, Tree, write_layer
from ..image.test_image_copy import write_image

SIZE = BLOCK_SIZE
"""The bytes of a file, which is one piece."""
MEAN = 4 * SIZE
"""The bytes of a blob by the rule of ``_short_blobs``, on average."""


@pytest.fixture(autouse=True)
def _short_blobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cutting, "REACH", 2)
    monkeypatch.setattr(cutting, "LARGE", 50_000)
    monkeypatch.setattr(cutting, "MOST", 65536)
    monkeypatch.setattr(cutting, "_SMALLEST", 512)
    monkeypatch.setattr(cutting, "_MARK", re.compile(rb"[\xC0\xDE][\x00-\x0f]"))
    monkeypatch.setattr(cutting, "_APART", 1024)
    monkeypatch.setattr(cutting, "_PIECE", 4096)


def cut(image: Path) -> CutImage:
    with image.open("rb") as file:
        return cut_image(file.fileno())


def files(seed: int, count: int, size: int = SIZE) -> dict[bytes, bytes]:
    random = Random(seed)
    return {b"%d-%d" % (seed, number): random.randbytes(size) for number in range(count)}


def image_of(folder: Path, name: str, *trees: Tree) -> Path:
    layers = [write_layer(folder / f"{name}-{n}", tree) for n, tree in enumerate(trees)]
    return write_image(folder / f"{name}.sif", layers)


def new_bytes(image: CutImage, older: CutImage) -> int:
    """Return the bytes of an image that an older one does not have."""
    known = {piece.sha256 for piece in older.pieces}
    return sum(piece.size for piece in image.pieces if piece.sha256 not in known)


def own_bytes(image: Path) -> int:
    """Return the bytes before and after the data, which differ in every image."""
    root = sif.root(image)
    data = read_superblock(image, root.offset).inode_table - SUPERBLOCK_SIZE
    return image.stat().st_size - data


def test_the_blobs_are_the_bytes_of_the_image_in_their_order(tmp_path: Path) -> None:
    image = image_of(tmp_path, "a", Tree(files(1, 200)), Tree(files(2, 50)))
    whole, content = cut(image), image.read_bytes()
    assert whole.sha256 == hashlib.sha256(content).hexdigest()
    parts = [content[each.offset : each.offset + each.size] for each in whole.pieces]
    assert b"".join(parts) == content
    assert [hashlib.sha256(part).hexdigest() for part in parts] == [p.sha256 for p in whole.pieces]
    assert len(parts) > 30
    assert max(map(len, parts)) <= cutting.MOST


def test_a_changed_last_layer_is_new_alone(tmp_path: Path) -> None:
    below = [Tree(files(1, 100)), Tree(files(2, 50))]
    older = cut(image_of(tmp_path, "old", *below, Tree(files(3, 4))))
    image = image_of(tmp_path, "new", *below, Tree(files(4, 3)))
    newer = cut(image)
    assert new_bytes(newer, older) <= 3 * SIZE + own_bytes(image)


def test_a_layer_below_moves_with_its_blobs_when_another_one_grows(tmp_path: Path) -> None:
    above = Tree(files(2, 100))
    older = cut(image_of(tmp_path, "old", Tree(files(1, 3)), above))
    image = image_of(tmp_path, "new", Tree(files(1, 5)), above)
    newer = cut(image)
    assert new_bytes(newer, older) <= 2 * SIZE + own_bytes(image) + 3 * MEAN


def test_a_replaced_file_of_a_lower_layer_leaves_its_other_blobs(tmp_path: Path) -> None:
    below = Tree(files(1, 300))
    older = cut(image_of(tmp_path, "old", below, Tree(files(2, 4))))
    replaced = Tree({**files(3, 4), b"1-11": b"new" * 1000, b"1-229": b"other" * 700})
    image = image_of(tmp_path, "new", below, replaced)
    newer = cut(image)
    # Around each removed file, what is left of two blobs becomes one.
    changed = 6 * SIZE + own_bytes(image)
    assert new_bytes(newer, older) <= changed + 2 * 4 * MEAN
    assert new_bytes(newer, older) < newer.size / 4


def test_a_layer_has_the_blobs_that_its_data_have_in_an_image(tmp_path: Path) -> None:
    image = image_of(tmp_path, "a", Tree(files(1, 100)), Tree(files(2, 20)))
    known = set[str]()
    for name in ("a-0", "a-1"):
        with (tmp_path / name).open("rb") as layer:
            known |= {piece.sha256 for piece in cut_layer(layer.fileno())}
    new = sum(piece.size for piece in cut(image).pieces if piece.sha256 not in known)
    assert new == own_bytes(image)


def test_a_file_that_is_no_image_of_ours_is_cut_too(tmp_path: Path) -> None:
    random = Random(5)
    start, rest = random.randbytes(50_000), random.randbytes(300_000)
    (tmp_path / "a").write_bytes(start + rest)
    (tmp_path / "b").write_bytes(start[:30_000] + b"added" + rest)
    assert new_bytes(cut(tmp_path / "b"), cut(tmp_path / "a")) < 30_000 + 5 * MEAN


def test_a_large_file_shares_no_blob_with_others(tmp_path: Path) -> None:
    size = 3 * cutting.MOST + SIZE
    large = {b"1-9z": Random(7).randbytes(size)}
    older = cut(image_of(tmp_path, "old", Tree({**files(1, 20), **large})))
    newer = cut(image_of(tmp_path, "new", Tree({**files(2, 20), **large})))
    shared = {each.sha256 for each in older.pieces} & {each.sha256 for each in newer.pieces}
    sizes = sorted(each.size for each in newer.pieces if each.sha256 in shared)
    assert sizes == [SIZE, *[cutting.MOST] * 3]


def test_blobs_have_more_bytes_where_files_have_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cutting, "MOST", 1 << 20)
    write_layer(tmp_path / "layer", Tree(files(1, 100, 10 * SIZE)))
    with (tmp_path / "layer").open("rb") as layer:
        pieces = cut_layer(layer.fileno())
    assert min(each.size for each in pieces) >= cutting.REACH * 10 * SIZE


def test_the_same_mark_everywhere_makes_few_blobs(tmp_path: Path) -> None:
    (tmp_path / "marks").write_bytes(b"\xc0\x00" * 300_000)
    least = cutting.REACH * cutting._APART
    assert min(each.size for each in cut(tmp_path / "marks").pieces) >= least


def test_a_file_without_marks_is_cut_at_the_largest_size(tmp_path: Path) -> None:
    (tmp_path / "zeros").write_bytes(bytes(3 * 65536 + 1))
    assert [each.size for each in cut(tmp_path / "zeros").pieces] == [65536] * 3 + [1]


def test_an_empty_file_has_no_blob(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    assert cut(tmp_path / "empty").pieces == ()
