"""A step by Docker gets what is directly in the root folder of its tree."""

import tarfile
import tracemalloc
from pathlib import Path

from lumicontainer.host.docker.container import Spec, write_top

_LARGE = 64 << 20


def test_a_large_file_of_a_base_takes_no_memory(tmp_path: Path) -> None:
    tree, archive = tmp_path / "tree", tmp_path / "top.tar"
    (tree / "usr/lib").mkdir(parents=True)
    with (tree / "large").open("wb") as file:
        file.truncate(_LARGE)
    tracemalloc.start()
    try:
        with archive.open("wb") as file:
            write_top(Spec(str(tree)), file)
        assert tracemalloc.get_traced_memory()[1] < _LARGE // 8
    finally:
        tracemalloc.stop()
    with tarfile.open(archive) as tar:
        assert {each.name: each.size for each in tar} == {"large": _LARGE, "usr": 0}
